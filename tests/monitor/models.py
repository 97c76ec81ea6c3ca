"""Small models of every family that the monitor is tested on, built from configurations, and a hand-written one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn

SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 50}
NO_SPECIAL = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
GROUPED = {**SIZES, **NO_SPECIAL, "num_key_value_heads": 2, "max_position_embeddings": 64, "head_dim": 8}


def _gpt2() -> Any:
    return hf.GPT2LMHeadModel(
        hf.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=64, vocab_size=50, **NO_SPECIAL)
    )


def _opt() -> Any:
    sizes = {"hidden_size": 32, "ffn_dim": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 50}
    return hf.OPTForCausalLM(hf.OPTConfig(**sizes, max_position_embeddings=64, word_embed_proj_dim=32, **NO_SPECIAL))


def _neox() -> Any:
    return hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**SIZES, **NO_SPECIAL, max_position_embeddings=64))


def _bert() -> Any:
    return hf.BertForMaskedLM(hf.BertConfig(**SIZES, pad_token_id=0))


DECODERS: dict[str, Callable[[], Any]] = {
    "GPT-2": _gpt2,
    "GPT-NeoX": _neox,
    "OPT": _opt,
    "Llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**GROUPED)),
    "Mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**GROUPED, sliding_window=7)),
    "Qwen": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**GROUPED)),
    "Gemma": lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(**GROUPED, sliding_window=7)),
}
ENCODERS: dict[str, Callable[[], Any]] = {"BERT": _bert}


def t5() -> Any:
    return hf.T5ForConditionalGeneration(
        hf.T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=50, decoder_start_token_id=0)
    )


def vit() -> Any:
    sizes = {key: value for key, value in SIZES.items() if key != "vocab_size"}
    return hf.ViTForImageClassification(hf.ViTConfig(**sizes, image_size=16, patch_size=4, num_channels=3))


class NanoGPT(nn.Module):
    """A transformer as people write it by hand: one file, an explicit softmax, a causal mask of −inf."""

    def __init__(self, vocab: int = 50, width: int = 32, heads: int = 4, layers: int = 2, fused: bool = False) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(_Block(width, heads, fused) for _ in range(layers))
        self.head = nn.Linear(width, vocab)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class _Block(nn.Module):
    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), _Attention(width, heads, fused)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm(x))
        return x + self.mlp(x)


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.qkv, self.out, self.heads, self.fused = nn.Linear(width, 3 * width), nn.Linear(width, width), heads, fused
        self.weights = torch.empty(0)  # of the last call, for the tests

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        if self.fused:
            mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            logits = q @ k.mT / math.sqrt(q.shape[-1])
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
            self.weights = torch.softmax(logits.masked_fill(~mask, -torch.inf), dim=-1)
            mixed = self.weights @ v
        return self.out(mixed.transpose(1, 2).flatten(2))
