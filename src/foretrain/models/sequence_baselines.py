"""What the template transformer is held against: fully connected (with and without vec(XXᵀ)), RNN and LSTM.

XXᵀ are the products of the embeddings of all pairs of positions. All have a leading axis of runs, learned token
embeddings N(0, 1), two hidden layers and one number as output. They begin as torch's Linear, RNN and LSTM do:
uniform within ±1/√(inputs), ±1/√(hidden) in a recurrent layer. But a recurrent layer has one bias where torch's has two
that are added: the same functions, yet ours begins with half the variance of that sum, and a step of Adam, which moves
both of torch's alike, moves it half as far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foretrain.errors import require_known, require_whole

Parameters = dict[str, Tensor]
MLP, MLP_XX, RNN, LSTM = "MLP", "MLP + XXᵀ", "RNN", "LSTM"
KINDS = (MLP, MLP_XX, RNN, LSTM)
LAYERS = 2


@dataclass(frozen=True)
class Strings:
    values: Int[Tensor, "run sample position"]

    def some(self, samples: Int[Tensor, "run some"]) -> Strings:
        return Strings(self.values.gather(1, samples[:, :, None].expand(-1, -1, self.values.shape[2])))

    def of_runs(self, runs: Int[Tensor, "kept"]) -> Strings:
        return Strings(self.values[runs])


class BaselineRuns:
    """All runs of one baseline."""

    trained = None  # every parameter moves

    def __init__(self, kind: str, *, tokens: int, length: int, embedding: int = 128, hidden: int = 256) -> None:
        require_known("baseline", kind, KINDS)
        for name, size in (("tokens", tokens), ("length", length), ("embedding", embedding), ("hidden", hidden)):
            require_whole(name, size, 1)
        self.kind, self.tokens, self.length, self.embedding, self.hidden = kind, tokens, length, embedding, hidden

    def start(self, draws: Sequence[torch.Generator]) -> Parameters:
        made = [self._start(draw) for draw in draws]
        return {name: torch.stack([one[name] for one in made]) for name in made[0]}

    def _start(self, draw: torch.Generator) -> Parameters:
        def uniform(*size: int, fan_in: int) -> Tensor:
            return (2 * torch.rand(*size, generator=draw) - 1) / fan_in**0.5

        h = self.hidden
        p = {"tokens": torch.randn(self.tokens, self.embedding, generator=draw)}
        inputs = self.embedding
        if self.kind in (MLP, MLP_XX):
            inputs = self.length * self.embedding + (self.length**2 if self.kind == MLP_XX else 0)
        gates = 4 if self.kind == LSTM else 1
        for layer in range(LAYERS):
            fan_in = inputs if self.kind in (MLP, MLP_XX) else h
            p[f"in_{layer}"] = uniform(inputs, gates * h, fan_in=fan_in)
            p[f"bias_{layer}"] = uniform(gates * h, fan_in=fan_in)
            if self.kind in (RNN, LSTM):
                p[f"again_{layer}"] = uniform(h, gates * h, fan_in=h)
            inputs = h
        return {**p, "read": uniform(h, 1, fan_in=h), "read_bias": uniform(1, fan_in=h)}

    def prepare(self, strings: Int[Tensor, "run sample position"], start: Parameters | None = None) -> Strings:
        return Strings(strings)

    def outputs(self, p: Parameters, strings: Strings) -> Float[Tensor, "run sample"]:
        runs, samples, length = strings.values.shape
        flat = (strings.values + self.tokens * torch.arange(runs)[:, None, None]).flatten()
        x = p["tokens"].flatten(0, 1).index_select(0, flat).view(runs, samples, length, -1)
        state = self._connected(p, x) if self.kind in (MLP, MLP_XX) else self._recurrent(p, x)
        return torch.baddbmm(p["read_bias"][:, None], state, p["read"])[..., 0]

    def _connected(self, p: Parameters, x: Float[Tensor, "run sample position d"]) -> Tensor:
        state = x.flatten(2)
        if self.kind == MLP_XX:
            state = torch.cat([state, (x @ x.mT).flatten(2)], dim=2)
        for layer in range(LAYERS):
            state = torch.relu(torch.baddbmm(p[f"bias_{layer}"][:, None], state, p[f"in_{layer}"]))
        return state

    def _recurrent(self, p: Parameters, x: Float[Tensor, "run sample position d"]) -> Tensor:
        """The state behind the last position."""
        runs, samples, length, _ = x.shape
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
