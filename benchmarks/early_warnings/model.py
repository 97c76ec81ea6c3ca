"""A small transformer, written out by hand, with the faults that can be built into it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.early_warnings.settings import Setting

WIDTH, HEADS = 64, 4


class SmallTransformer(nn.Module):
    """A decoder or an encoder of symbols, or a vision transformer, which reads patches and says one class per image.

    Without `normed` it has no LayerNorm; see `Attention` for the other two faults.
    """

    def __init__(self, setting: Setting, inputs: int, outputs: int, context: int) -> None:
        super().__init__()
        self.pooled = setting.architecture == "vision"
        self.tokens = nn.Linear(inputs, WIDTH) if self.pooled else nn.Embedding(inputs, WIDTH)
        self.positions = nn.Embedding(context, WIDTH)
        self.blocks = nn.ModuleList(Block(setting) for _ in range(setting.layers))
        self.norm = nn.LayerNorm(WIDTH) if setting.normed else nn.Identity()
        self.head = nn.Linear(WIDTH, outputs, bias=False)
        for name, parameter in self.named_parameters():  # as GPT-2 starts, but wider: these models are narrow
            if parameter.ndim == 2:
                deep = name.endswith(("output.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.05 / math.sqrt(2 * setting.layers) if deep else 0.05)

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.tokens(inputs) + self.positions.weight[: inputs.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1) if self.pooled else self.norm(x))


class Block(nn.Module):
    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(WIDTH) if setting.normed else nn.Identity() for _ in range(2))
        causal = setting.architecture == "decoder"
        self.attention = Attention(causal, setting.logit_scale, setting.bf16_softmax)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Attention(nn.Module):
    """Queries and keys are each multiplied by √`logit_scale`. `bf16_softmax` computes the softmax in bfloat16, which
    has 8 bits of precision: logits above 128 are then rounded to whole numbers, or worse."""

    def __init__(self, causal: bool, logit_scale: float, bf16_softmax: bool) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.causal, self.factor, self.bf16 = causal, logit_scale / math.sqrt(WIDTH // HEADS), bf16_softmax

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            project(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for project in (self.query, self.key, self.value)
        )  # [sample, head, position, width / heads]
        if not self.bf16:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, scale=self.factor)
        else:
            logits = (self.factor * (q @ k.mT)).to(torch.bfloat16)
            if self.causal:
                allowed = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
                logits = logits.masked_fill(~allowed, -torch.inf)
            mixed = torch.softmax(logits, dim=-1).float() @ v
        return self.output(mixed.transpose(1, 2).flatten(2))
