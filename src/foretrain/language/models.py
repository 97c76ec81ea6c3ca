"""The two language models: GPT-2's architecture, and the encoder that Scan and Snap and JoMA train on WikiText."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from foretrain.core.errors import InputError
from foretrain.language.loss import cross_entropy
from foretrain.language.setting import LanguageSetting


def build(setting: LanguageSetting, vocabulary: int) -> nn.Module:
    """A new model, the same for the same seed; torch's own random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(setting.seed)
        model = _gpt(setting, vocabulary) if setting.model == "gpt" else PostNormEncoder(setting, vocabulary)
        if setting.identity_scaling:
            from foretrain.patches.identity import add_identity_scaling

            add_identity_scaling(model)
    return model


def _gpt(setting: LanguageSetting, vocabulary: int) -> nn.Module:
    try:
        from transformers import GPT2Config, GPT2LMHeadModel
    except ImportError as error:
        raise InputError("The model 'gpt' needs transformers; pip install 'foretrain[hf]'.") from error
    config = GPT2Config(
        vocab_size=vocabulary, n_positions=setting.context, n_embd=setting.width, n_layer=setting.layers,
        n_head=setting.heads, n_inner=setting.hidden, resid_pdrop=setting.dropout, embd_pdrop=setting.dropout,
        attn_pdrop=setting.dropout, bos_token_id=0, eos_token_id=0, use_cache=False,
    )  # fmt: skip
    return GPT2LMHeadModel(config)


def logits_of(model: nn.Module, inputs: Int[Tensor, "window token"]) -> Float[Tensor, "window token vocabulary"]:
    """What the model says about the next token."""
    output: Any = model(inputs)
    return output if isinstance(output, Tensor) else output.logits


def next_token_loss(model: nn.Module, windows: Int[Tensor, "window token"]) -> Float[Tensor, ""]:
    """Cross-entropy in nats per token; every window gives its length minus one predictions."""
    logits = logits_of(model, windows[:, :-1])
    return cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


class PostNormEncoder(nn.Module):
    """The encoder of the papers' WikiText experiments: LayerNorm after each block, ReLU, sinusoidal positions, a
    causal mask, and an output layer of its own. Embeddings start uniform in ±0.1 and are multiplied by √width."""

    def __init__(self, setting: LanguageSetting, vocabulary: int) -> None:
        super().__init__()
        width = setting.width
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(PostNormLayer(setting) for _ in range(setting.layers))
        self.head = nn.Linear(width, vocabulary)
        self.dropout = nn.Dropout(setting.dropout)
        self.register_buffer("positions", sinusoids(setting.context, width), persistent=False)
        nn.init.uniform_(self.tokens.weight, -0.1, 0.1)
        nn.init.uniform_(self.head.weight, -0.1, 0.1)
        nn.init.zeros_(self.head.bias)

    def forward(self, tokens: Int[Tensor, "window token"]) -> Float[Tensor, "window token vocabulary"]:
        x = self.dropout(self.embedded(tokens))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)

    def embedded(self, tokens: Int[Tensor, "window token"]) -> Float[Tensor, "window token width"]:
        """Tokens and positions as vectors: the input of the first layer."""
        positions: Any = self.positions
        return self.tokens(tokens) * math.sqrt(self.tokens.embedding_dim) + positions[: tokens.shape[1]]


class PostNormLayer(nn.Module):
    """Attention, then an MLP, each followed by a sum with its input and a LayerNorm."""

    def __init__(self, setting: LanguageSetting) -> None:
        super().__init__()
        width, hidden = setting.width, setting.hidden
        self.attention = CausalAttention(width, setting.heads, setting.dropout)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(setting.dropout)

    def forward(self, x: Float[Tensor, "window token width"]) -> Float[Tensor, "window token width"]:
        x = self.norm1(x + self.dropout(self.attention(x)))
        hidden = self.dropout(F.relu(self.up(x)))
        return self.norm2(x + self.dropout(self.down(hidden)))


class CausalAttention(nn.Module):
    """Softmax attention to the token itself and those before it. Starts as nn.MultiheadAttention does."""

    takes_identity_scaling = True  # see foretrain.add_identity_scaling

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.drop = heads, dropout
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        nn.init.xavier_uniform_(self.qkv.weight)
        nn.init.zeros_(self.qkv.bias)
        nn.init.zeros_(self.out.bias)

    def forward(self, x: Float[Tensor, "window token width"]) -> Float[Tensor, "window token width"]:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        drop, scaling = self.drop if self.training else 0.0, getattr(self, "identity_scaling", None)
        if scaling is None:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=drop)
        else:
            later = torch.full((x.shape[1], x.shape[1]), -torch.inf, device=x.device).triu(1)
            mixed, _ = scaling.attend(q, k, v, later, 1 / math.sqrt(q.shape[-1]), drop)
        return self.out(mixed.transpose(1, 2).flatten(2))


def sinusoids(length: int, width: int) -> Float[Tensor, "position width"]:
    """sin and cos of position/10000^(2k/width), side by side (Vaswani et al. 2017)."""
    angles = torch.arange(length)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = angles.sin()
    table[:, 1::2] = angles.cos()[:, : width // 2]
    return table
