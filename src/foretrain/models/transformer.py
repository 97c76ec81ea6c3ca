"""The small transformer of abstract symbols (appendix A and B), as an ordinary module.

It reads a string of tokens and answers with a number (regression) or with a score per token (next token). Two options
add a trainable multiple of the identity to every head: `identity_kq` adds a_h·I to W_K·W_Qᵀ, and `identity_vo` adds
b_h·I to W_V·W_Oᵀ. `foretrain.models.stacked` computes many of these networks at once, with the same parameters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from foretrain.core.errors import require, require_known, require_positive, require_whole
from foretrain.models.strings import require_length

OUTPUTS = ("number", "token")
READOUTS = ("cls", "last")
NORMS = ("pre", "post")


@dataclass(frozen=True)
class TransformerShape:
    """Sizes and options. The defaults are the paper's base setting, with one rate for all parameters.

    tokens      size of the vocabulary, all alphabets included
    length      number of positions, without the CLS token
    mlp         width of the MLP; 0 means attention only
    output      "number", or "token": one score per token of the vocabulary
    tied        scores are products with the token embeddings, times `score_scale`
    readout     "cls": at a CLS token after the string; "last": at its last token
    residual    each layer adds its output to its input; without it, the output replaces the input
    scaling_multiplier    a head adds this many times a_h·I and b_h·I. Adam's steps do not depend on the size of the
                          gradient, so with Adam this is a learning rate for a and b, relative to the others'
    attention_multiplier  multiplies the attention logits. At the start the network is the same as with a W_Q this many
                          times as large. In training it is not: Adam's steps do not depend on the size of the
                          gradient, so attention_multiplier·W_Q moves this many times as far
    """

    tokens: int
    length: int
    depth: int = 2
    heads: int = 16
    embedding: int = 128
    head: int = 64
    mlp: int = 256
    output: str = "number"
    tied: bool = False
    score_scale: float = 1.0
    readout: str = "cls"
    norm: str = "pre"
    positions: bool = True
    residual: bool = True
    identity_kq: bool = False
    identity_vo: bool = False
    scaling_multiplier: float = 1.0
    attention_multiplier: float = 1.0

    def __post_init__(self) -> None:
        for name in ("tokens", "length", "depth", "heads", "embedding", "head"):
            require_whole(name, getattr(self, name), 1)
        require_whole("mlp", self.mlp, 0)
        require_known("output", self.output, OUTPUTS)
        require_known("readout", self.readout, READOUTS)
        require_known("norm placement", self.norm, NORMS)
        for name in ("attention_multiplier", "scaling_multiplier", "score_scale"):
            require_positive(name, getattr(self, name))
        require(self.output == "token" or not self.tied, 'tied embeddings need output="token"; set tied to false.')

    @property
    def cls(self) -> bool:
        """Whether a CLS token is added and read out."""
        return self.readout == "cls"

    @property
    def places(self) -> int:
        """Positions with the CLS token."""
        return self.length + self.cls

    @property
    def parameters(self) -> int:
        """How many numbers are trained."""
        d, m = self.embedding, self.mlp
        block = 2 * d + 4 * d * self.heads * self.head + self.heads * (self.identity_kq + self.identity_vo)
        block += (2 * d + 2 * d * m + m + d) if m else 0
        read = 0 if self.tied else (d + 1) * (1 if self.output == "number" else self.tokens)
        return d * (self.tokens + self.cls + self.positions * self.places) + self.depth * block + read

    @property
    def logit_scale(self) -> float:
        """What attention logits are multiplied by."""
        return self.attention_multiplier / math.sqrt(self.head)


class Attention(nn.Module):
    """softmax(s·X·W_Q·W_KᵀXᵀ + a·XXᵀ)·X·(W_V·W_O + b·I), summed over heads; no biases. s = multiplier/√d_head."""

    def __init__(self, shape: TransformerShape, draw: torch.Generator | None) -> None:
        super().__init__()
        self.shape = shape
        d, inner = shape.embedding, shape.heads * shape.head
        self.query, self.key, self.value = (_uniform(d, inner, fan_in=d, draw=draw) for _ in range(3))
        self.out = _uniform(inner, d, fan_in=inner, draw=draw)
        if shape.identity_kq:
            self.a = nn.Parameter(torch.zeros(shape.heads))
        if shape.identity_vo:
            self.b = nn.Parameter(torch.zeros(shape.heads))

    def forward(self, x: Float[Tensor, "sample place d"]) -> Float[Tensor, "sample place d"]:
        def by_head(projected: Tensor) -> Tensor:  # [sample, head, place, d_head]
            return projected.unflatten(-1, (self.shape.heads, self.shape.head)).transpose(1, 2)

        q, k, v = by_head(x @ self.query), by_head(x @ self.key), by_head(x @ self.value)
        logits = self.shape.logit_scale * (q @ k.mT)  # [sample, head, place, place]
        if self.shape.identity_kq:
            logits = logits + self.shape.scaling_multiplier * self.a[:, None, None] * (x @ x.mT)[:, None]
        weights = torch.softmax(logits, dim=-1)
        out = (weights @ v).transpose(1, 2).flatten(2) @ self.out
        if self.shape.identity_vo:
            out = out + torch.einsum("h,shqk->sqk", self.shape.scaling_multiplier * self.b, weights) @ x
        return out


class Block(nn.Module):
    """Attention, then a GELU MLP, each with a LayerNorm before it ("pre") or after it ("post")."""

    def __init__(self, shape: TransformerShape, draw: torch.Generator | None) -> None:
        super().__init__()
        self.shape = shape
        d, m = shape.embedding, shape.mlp
        self.attention_norm, self.attention = nn.LayerNorm(d), Attention(shape, draw)
        if m:
            self.mlp_norm = nn.LayerNorm(d)
            self.lower, self.lower_bias = _uniform(d, m, fan_in=d, draw=draw), _uniform(m, fan_in=d, draw=draw)
            self.upper, self.upper_bias = _uniform(m, d, fan_in=m, draw=draw), _uniform(d, fan_in=m, draw=draw)

    def forward(self, x: Float[Tensor, "sample place d"]) -> Float[Tensor, "sample place d"]:
        x = self._around(x, self.attention_norm, self.attention)
        return self._around(x, self.mlp_norm, self._mlp) if self.shape.mlp else x

    def _mlp(self, x: Tensor) -> Tensor:
        return F.gelu(x @ self.lower + self.lower_bias) @ self.upper + self.upper_bias

    def _around(self, x: Tensor, norm: nn.Module, layer: object) -> Tensor:
        before = norm(x) if self.shape.norm == "pre" else x
        out = layer(before)  # type: ignore[operator]
        out = x + out if self.shape.residual else out
        return norm(out) if self.shape.norm == "post" else out


class Transformer(nn.Module):
    """Embeddings N(0, 1), `depth` blocks, and a read-out at one position through a LayerNorm without parameters.

    `generator` draws the parameters; without one, torch's global random state does. Matrices are [in, out].
    """

    def __init__(self, shape: TransformerShape, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.shape, d = shape, shape.embedding
        self.tokens = nn.Parameter(torch.randn(shape.tokens, d, generator=generator))
        if shape.positions:
            self.positions = nn.Parameter(torch.randn(shape.places, d, generator=generator))
        if shape.cls:
            self.cls = nn.Parameter(torch.randn(d, generator=generator))
        self.blocks = nn.ModuleList(Block(shape, generator) for _ in range(shape.depth))
        if not shape.tied:
            outputs = 1 if shape.output == "number" else shape.tokens
            self.read = _uniform(d, outputs, fan_in=d, draw=generator)
            self.read_bias = _uniform(outputs, fan_in=d, draw=generator)

    def forward(self, tokens: Int[Tensor, "sample position"]) -> Tensor:
        """[sample] for numbers, [sample, token] for scores."""
        features = self.features(tokens)
        if self.shape.tied:
            return self.shape.score_scale * (features @ self.tokens.T)
        out = features @ self.read + self.read_bias
        return out[:, 0] if self.shape.output == "number" else out

    def features(self, tokens: Int[Tensor, "sample position"]) -> Float[Tensor, "sample d"]:
        """What the last layer reads: a LayerNorm of the state at the read-out position."""
        require_length(tokens, self.shape.length)
        x = F.embedding(tokens, self.tokens)  # unlike indexing, this refuses −1
        if self.shape.cls:
            x = torch.cat([x, self.cls.expand(len(x), 1, -1)], dim=1)
        if self.shape.positions:
            x = x + self.positions
        for block in self.blocks:
            x = block(x)
        return F.layer_norm(x[:, -1], (self.shape.embedding,))


def _uniform(*size: int, fan_in: int, draw: torch.Generator | None) -> nn.Parameter:
    """The initial values of torch's Linear: uniform within ±1/√fan_in."""
    return nn.Parameter((2 * torch.rand(*size, generator=draw) - 1) / math.sqrt(fan_in))
