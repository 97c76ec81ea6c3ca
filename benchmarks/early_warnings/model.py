"""A small GPT, written out by hand, with the faults that can be built into it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class SmallGPT(nn.Module):
    """Predicts the next byte. `normed=False` leaves out every LayerNorm; see `Attention` for the other two faults."""

    def __init__(
        self,
        vocab: int,
        *,
        width: int = 64,
        heads: int = 4,
        layers: int = 2,
        context: int = 64,
        normed: bool = True,
        logit_scale: float = 1.0,
        bf16_softmax: bool = False,
    ) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, normed, logit_scale, bf16_softmax) for _ in range(layers))
        self.norm = nn.LayerNorm(width) if normed else nn.Identity()
        self.head = nn.Linear(width, vocab, bias=False)
        for name, parameter in self.named_parameters():  # as GPT-2 starts, but wider: these models are narrow
            if parameter.ndim == 2:
                deep = name.endswith(("output.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.05 / math.sqrt(2 * layers) if deep else 0.05)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, normed: bool, logit_scale: float, bf16_softmax: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(width) if normed else nn.Identity() for _ in range(2))
        self.attention = Attention(width, heads, logit_scale, bf16_softmax)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Attention(nn.Module):
    """Causal attention. Queries and keys are each multiplied by √`logit_scale`. `bf16_softmax` computes the softmax in
    bfloat16, which has 8 bits of precision: logits above 128 are then rounded to whole numbers, or worse."""

    def __init__(self, width: int, heads: int, logit_scale: float, bf16_softmax: bool) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.heads, self.factor, self.bf16 = heads, logit_scale / math.sqrt(width // heads), bf16_softmax

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            project(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for project in (self.query, self.key, self.value)
        )  # [sample, head, position, width / heads]
        if not self.bf16:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.factor)
        else:
            allowed = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
            logits = (self.factor * (q @ k.mT)).to(torch.bfloat16).masked_fill(~allowed, -torch.inf)
            mixed = torch.softmax(logits, dim=-1).float() @ v
        return self.output(mixed.transpose(1, 2).flatten(2))
