"""Baselines for the template transformer: fully connected (with and without vec(XXᵀ)), RNN and LSTM.

All have a leading axis of runs and one number as output. Fully connected networks have one hidden layer on X, the
one-hot tokens of all positions; XXᵀ tells which positions have equal tokens. Recurrent networks have two layers on
learned token embeddings N(0, 1).

Weights start like those of torch's Linear, RNN and LSTM: uniform within ±1/√(inputs), and ±1/√(hidden) in a recurrent
layer. One difference: torch's recurrent layers have two biases that are added, ours have one. The functions are the
same, but our bias starts with half the variance of that sum, and a step of Adam, which moves both of torch's biases
alike, moves it half as far.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from foretrain.core.errors import require_known, require_whole
from foretrain.core.streams import torch_stream
from foretrain.models.parameters import Key, Parameters, stacked
from foretrain.models.strings import SampleRows, require_fitting

MLP, MLP_XX, RNN, LSTM = "MLP", "MLP + XXᵀ", "RNN", "LSTM"
KINDS = (MLP, MLP_XX, RNN, LSTM)
LAYERS = 2  # of a recurrent network


class BaselineRuns:
    """All runs of one baseline."""

    trained = None  # every parameter is trained

    def __init__(self, kind: str, *, tokens: int, length: int, embedding: int = 128, hidden: int = 256) -> None:
        require_known("baseline", kind, KINDS)
        for name, size in (("tokens", tokens), ("length", length), ("embedding", embedding), ("hidden", hidden)):
            require_whole(name, size, 1)
        self.kind, self.tokens, self.length, self.embedding, self.hidden = kind, tokens, length, embedding, hidden

    @property
    def parameters(self) -> int:
        """How many numbers are trained in one run."""
        return sum(math.prod(size) for size, _ in self._sizes().values())

    def start(self, keys: Sequence[Key]) -> Parameters:
        """Initial parameters, one run per key."""
        return stacked([self._start(torch_stream(*key)) for key in keys])

    def _start(self, draw: torch.Generator) -> Parameters:
        return {
            name: (2 * torch.rand(size, generator=draw) - 1) / fan_in**0.5
            if fan_in
            else torch.randn(size, generator=draw)
            for name, (size, fan_in) in self._sizes().items()
        }

    def _sizes(self) -> dict[str, tuple[tuple[int, ...], int]]:
        """Size and number of inputs of every parameter. It starts uniform within ±1/√inputs; 0 inputs mean N(0, 1)."""
        h = self.hidden
        sizes: dict[str, tuple[tuple[int, ...], int]] = {"read": ((h, 1), h), "read_bias": ((1,), h)}
        if self.kind in (MLP, MLP_XX):
            inputs = self.length * self.tokens + (self.length**2 if self.kind == MLP_XX else 0)
            return {**sizes, "in": ((inputs, h), inputs), "bias": ((h,), inputs)}
        sizes["tokens"] = ((self.tokens, self.embedding), 0)
        inputs, gates = self.embedding, 4 if self.kind == LSTM else 1
        for layer in range(LAYERS):
            sizes[f"in_{layer}"] = ((inputs, gates * h), h)
            sizes[f"bias_{layer}"] = ((gates * h,), h)
            sizes[f"again_{layer}"] = ((h, gates * h), h)
            inputs = h
        return sizes

    def prepare(self, strings: Int[Tensor, "run sample position"], start: Parameters | None = None) -> SampleRows:
        """The strings, checked; `start` does not matter here."""
        require_fitting(strings, self.tokens, self.length)
        return SampleRows(strings)

    def outputs(self, p: Parameters, strings: SampleRows) -> Float[Tensor, "run sample"]:
        """One number per sample."""
        state = (self._connected if self.kind in (MLP, MLP_XX) else self._recurrent)(p, strings.values)
        return torch.baddbmm(p["read_bias"][:, None], state, p["read"])[..., 0]

    def _connected(self, p: Parameters, strings: Int[Tensor, "run sample position"]) -> Float[Tensor, "run sample h"]:
        """One hidden layer. X times the weights is a sum of rows of the weights, one per position."""
        runs, samples, length = strings.shape
        rows = strings + self.tokens * torch.arange(length) + p["in"].shape[1] * torch.arange(runs)[:, None, None]
        read = F.embedding_bag(rows.flatten(0, 1), p["in"].flatten(0, 1), mode="sum").view(runs, samples, -1)
        if self.kind == MLP_XX:
            equal = (strings[..., None] == strings[..., None, :]).flatten(2).to(read.dtype)
            read = torch.baddbmm(read, equal, p["in"][:, length * self.tokens :])
        return torch.relu(read + p["bias"][:, None])

    def _recurrent(self, p: Parameters, strings: Int[Tensor, "run sample position"]) -> Float[Tensor, "run sample h"]:
        """The state after the last position."""
        runs, samples, length = strings.shape
        flat = (strings + self.tokens * torch.arange(runs)[:, None, None]).flatten()
        x = p["tokens"].flatten(0, 1).index_select(0, flat).view(runs, samples, length, -1)
        states = list(x.unbind(2))
        for layer in range(LAYERS):
            h = c = x.new_zeros(runs, samples, self.hidden)
            for place in range(length):
                pushed = torch.baddbmm(p[f"bias_{layer}"][:, None], states[place], p[f"in_{layer}"])
                pushed = torch.baddbmm(pushed, h, p[f"again_{layer}"])
                if self.kind == RNN:
                    h = torch.tanh(pushed)
                else:
                    take, forget, new, show = pushed.chunk(4, dim=-1)
                    c = torch.sigmoid(forget) * c + torch.sigmoid(take) * torch.tanh(new)
                    h = torch.sigmoid(show) * torch.tanh(c)
                states[place] = h
        return states[-1]
