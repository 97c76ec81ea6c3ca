"""One transformer layer of JoMA: attention logits Z and the lower MLP matrix W, trained together (eq. 1 and 2).

    h_k = φ(w_kᵀf),   f = U_C b + u_q,   b = σ(z_q/T)∘x/A

    W [node, dimension]    lower MLP layer; attention sees v_k = U_Cᵀw_k of it
    Z [query, context]     attention logits, one row per query

W and Z have any leading axes of runs. A batch may have some too; they are broadcast against those of W and Z.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from foretrain.core.errors import require, require_at_least, require_known, require_positive, require_whole
from foretrain.core.streams import stream
from foretrain.models.parameters import Key, Parameters, stacked

ATTENTIONS = ("linear", "exp", "softmax")


@dataclass(frozen=True)
class Activation:
    """φ and φ′, and whether φ′ jumps."""

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]
    kinked: bool = False


def leaky(below: float) -> Activation:
    """φ(u) = u above 0 and `below`·u under it; `below` = 0 is ReLU."""
    return Activation(
        lambda u: torch.where(u > 0, u, below * u), lambda u: torch.where(u > 0, torch.ones_like(u), below), kinked=True
    )


def power(exponent: int) -> Activation:
    """φ(u) = u^exponent."""
    require_whole("exponent", exponent, 1)
    return Activation(lambda u: u**exponent, lambda u: exponent * u ** (exponent - 1))


ACTIVATIONS: Mapping[str, Activation] = {
    "linear": Activation(lambda u: u, torch.ones_like),
    "relu": leaky(0.0),
    "leaky_relu": leaky(0.1),
    "square": power(2),
    "cube": power(3),
}


@dataclass(frozen=True)
class JointBatch:
    """Samples: token frequencies, query, and what drives the hidden nodes.

    With `labels`, the loss is cross-entropy with the hidden nodes as logits; `signal` is a back-propagated gradient g_h
    that stays fixed (Assumption 1). Exactly one of the two is given.
    """

    x: Float[Tensor, "*run sample context"]
    query: Int[Tensor, "*run sample"]
    labels: Int[Tensor, "*run sample"] | None = None
    signal: Float[Tensor, "*run sample node"] | None = None

    def __post_init__(self) -> None:
        require((self.labels is None) != (self.signal is None), "A batch needs either labels or a signal, not both.")
        for name in ("x", "query", "labels", "signal"):
            value = getattr(self, name)
            require(
                value is None or isinstance(value, Tensor),
                f"{name} must be a torch tensor; got {type(value).__name__}, give torch.as_tensor({name}).",
            )
        driven = self.signal[..., 0] if self.labels is None and self.signal is not None else self.labels
        require(
            self.x.shape[-2] >= 1 and self.query.shape[-1:] == self.x.shape[-2:-1],
            f"A batch needs a query for each of its samples; got {tuple(self.x.shape)} for x and "
            f"{tuple(self.query.shape)} for query.",
        )
        require(
            driven is not None and driven.shape[-1:] == self.x.shape[-2:-1],
            f"A batch needs a label, or a row of the signal, for each of its {self.x.shape[-2]} samples.",
        )
        least, rows = self.x.amin(), self.x.sum(-1)
        require(
            bool(torch.isfinite(rows).all()) and bool(least >= 0) and bool((rows > 0).all()),
            "x must hold finite frequencies of at least 0, with at least one above 0 in every sample; its smallest "
            f"entry is {least:g}, and its smallest row sum is {rows.amin():g}.",
        )

    @classmethod
    def stack(cls, batches: Sequence[JointBatch]) -> JointBatch:
        """Batches of equal size along a new leading axis."""
        columns = [[getattr(batch, name) for batch in batches] for name in ("x", "query", "labels", "signal")]
        fields: list[Any] = [None if column[0] is None else torch.stack(column) for column in columns]
        return cls(*fields)


class Joint:
    """The layer of eq. 1.

    attention    "linear": σ(z) = z; "exp": σ = exp with A constant; "softmax": σ = exp with A = Σσ(z)∘x
    activation   a name in ACTIVATIONS, or any φ with its φ′: `leaky(.3)`, `power(4)`, Activation(torch.tanh, …)
    embeddings   [*run, dimension, contexts + queries], a column per token; None: orthonormal, one axis per token
    temperature  T: attention uses z/T (the theorems have T = 1)
    start        W and Z start as normal numbers with this standard deviation
    """

    def __init__(
        self,
        attention: str = "softmax",
        activation: str | Activation = "linear",
        *,
        nodes: int,
        contexts: int,
        queries: int = 1,
        embeddings: Float[Tensor, "*run dimension token"] | None = None,
        temperature: float = 1.0,
        start: float = 0.01,
    ) -> None:
        require_known("attention", attention, ATTENTIONS)
        if isinstance(activation, str):
            require_known("activation", activation, ACTIVATIONS)
            activation = ACTIVATIONS[activation]
        require(
            isinstance(activation, Activation),
            f"activation must be one of {', '.join(ACTIVATIONS)}, or an Activation(φ, φ′); got {activation!r}.",
        )
        for name, count in (("nodes", nodes), ("contexts", contexts), ("queries", queries)):
            require_whole(name, count, 1)
        require_positive("temperature", temperature)
        require_at_least("start", start, 0)
        tokens = contexts + queries
        require(
            embeddings is None or embeddings.shape[-1] == tokens,
            f"embeddings must have {tokens} columns, one per context and query token; "
            f"got {None if embeddings is None else embeddings.shape[-1]}.",
        )
        self.attention, self.activation = attention, activation
        self.nodes, self.contexts, self.queries = nodes, contexts, queries
        self.embeddings = None if embeddings is None else embeddings.to(torch.float64)
        self.dimension = tokens if embeddings is None else embeddings.shape[-2]
        self.temperature, self.start_size = temperature, start
        self._prepared: tuple[Sequence[JointBatch], JointBatch] | None = None

    def start(self, keys: Sequence[Key]) -> Parameters:
        """Initial parameters, one run per key."""
        return stacked([self._start(stream(*key)) for key in keys])

    def _start(self, draw: np.random.Generator) -> Parameters:
        W = draw.standard_normal((self.nodes, self.dimension)) * self.start_size
        Z = draw.standard_normal((self.queries, self.contexts)) * self.start_size
        return {"W": torch.from_numpy(W), "Z": torch.from_numpy(Z)}

    def prepare(self, batches: Sequence[JointBatch]) -> JointBatch:
        """One batch per run along a leading axis. Whole-batch training repeats its batches: they are stacked once."""
        if self._prepared is None or not _same_objects(batches, self._prepared[0]):
            self._prepared = tuple(batches), self._fitting(JointBatch.stack(batches))
        return self._prepared[1]

    def gradient(self, parameters: Parameters, batch: JointBatch, samples: int = 0) -> Parameters:
        """Gradient of the loss, which training descends; the number of samples does not matter, since it is a mean."""
        return {name: -value for name, value in self._ascent(parameters, batch).items()}

    def ascent(self, parameters: Parameters, batch: JointBatch, slopes: Tensor | None = None) -> Parameters:
        """Eq. 2: Ẇ = E[g_h h′ fᵀ] and Ż = E[(∂b/∂z)ᵀ U_Cᵀ g_f], means over all samples of the batch.

        `slopes` replaces h′, and h is then h′·w_kᵀf, which is what a homogeneous φ does between its kinks.
        """
        return self._ascent(parameters, self._fitting(batch), slopes)

    def _ascent(self, parameters: Parameters, batch: JointBatch, slopes: Tensor | None = None) -> Parameters:
        W, Z = parameters["W"], parameters["Z"]
        b = self.scores(Z, batch)
        pre = self._preactivation(W, b, batch.query)
        h, slopes = (
            (self.activation.value(pre), self.activation.slope(pre)) if slopes is None else (slopes * pre, slopes)
        )
        s = self.signal(h, batch) * slopes / batch.x.shape[-2]  # g_h h′ / samples
        reach = s @ self.context_weights(W)  # U_Cᵀ g_f: [*run, sample, context]
        if self.attention == "linear":
            rows = batch.x * reach / self.temperature
        elif self.attention == "exp":
            rows = b * reach / self.temperature
        else:
            rows = b * (reach - (b * reach).sum(-1, keepdim=True)) / self.temperature
        return {"W": self._into_weights(s, b, batch.query), "Z": self._by_query(rows, batch.query)}

    def scores(self, Z: Tensor, batch: JointBatch) -> Float[Tensor, "*run sample context"]:
        """b = σ(z_q/T)∘x/A, with A = 1 for linear and exp attention."""
        rows = Z if self.queries == 1 else self._one_hot(batch.query, Z) @ Z
        if self.attention == "linear":
            return batch.x * rows / self.temperature
        if self.attention == "exp":
            return batch.x * torch.exp(rows / self.temperature)
        # Subtract the largest logit of the tokens that occur: next to a larger one that does not, all could underflow.
        seen = torch.where(batch.x > 0, rows, -torch.inf)
        weights = batch.x * torch.exp((rows - seen.amax(-1, keepdim=True)).clamp(max=0) / self.temperature)
        return weights / weights.sum(-1, keepdim=True)

    def hidden(self, parameters: Parameters, batch: JointBatch) -> Float[Tensor, "*run sample node"]:
        """h_k of every sample."""
        b = self.scores(parameters["Z"], self._fitting(batch))
        return self.activation.value(self._preactivation(parameters["W"], b, batch.query))

    def slopes(self, parameters: Parameters, batch: JointBatch) -> Float[Tensor, "*run sample node"]:
        """h′_k of every sample."""
        b = self.scores(parameters["Z"], self._fitting(batch))
        return self.activation.slope(self._preactivation(parameters["W"], b, batch.query))

    def signal(self, h: Tensor, batch: JointBatch) -> Float[Tensor, "*run sample node"]:
        """g_h: the given one, or label minus softmax of the hidden nodes h."""
        if batch.signal is not None:
            return batch.signal
        assert batch.labels is not None
        return torch.nn.functional.one_hot(batch.labels, self.nodes).to(h.dtype) - torch.softmax(h, dim=-1)

    def context_weights(self, W: Tensor) -> Float[Tensor, "*run node context"]:
        """v_k = U_Cᵀw_k."""
        if self.embeddings is None:
            return W[..., : self.contexts]
        return W @ self.embeddings[..., : self.contexts]

    def field(
        self, batch: JointBatch, slopes: Tensor | None = None
    ) -> Callable[[float, Mapping[str, np.ndarray]], dict[str, np.ndarray]]:
        """Eq. 2 on numpy arrays, for `foretrain.dynamics.integrate`; `slopes` as in `ascent`."""
        self._fitting(batch)

        def field(_: float, state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            parameters = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in state.items()}
            return {name: value.numpy() for name, value in self._ascent(parameters, batch, slopes).items()}

        return field

    def _fitting(self, batch: JointBatch) -> JointBatch:
        """The batch, if its sizes and numbers fit this layer."""
        widths = [("x", batch.x, self.contexts, "context token"), ("signal", batch.signal, self.nodes, "hidden node")]
        for name, values, count, what in widths:
            if values is not None:
                columns = values.shape[-1]
                require(columns == count, f"{name} must have {count} columns, one per {what}; got {columns}.")
        for name, numbers, count in (("query", batch.query, self.queries), ("labels", batch.labels, self.nodes)):
            if numbers is not None:
                low, high = int(numbers.min()), int(numbers.max())
                require(low >= 0 and high < count, f"{name} must lie between 0 and {count - 1}; got {low} to {high}.")
        return batch

    def _preactivation(self, W: Tensor, b: Tensor, query: Tensor) -> Tensor:
        """w_kᵀf without forming f."""
        from_context = b @ self.context_weights(W).mT
        query_weights = (
            W[..., self.contexts :] if self.embeddings is None else W @ self.embeddings[..., self.contexts :]
        ).mT  # [*run, query, node]
        if self.queries == 1:
            return from_context + query_weights
        return from_context + self._one_hot(query, W) @ query_weights

    def _into_weights(self, s: Tensor, b: Tensor, query: Tensor) -> Tensor:
        """Σ_i s_i f_iᵀ."""
        by_query = s.sum(-2, keepdim=True) if self.queries == 1 else self._one_hot(query, s).mT @ s
        by_token = torch.cat([s.mT @ b, by_query.mT], dim=-1)  # [*run, node, token]
        return by_token if self.embeddings is None else by_token @ self.embeddings.mT

    def _by_query(self, rows: Tensor, query: Tensor) -> Tensor:
        """Sum of the samples' rows, one sum per query."""
        return rows.sum(-2, keepdim=True) if self.queries == 1 else self._one_hot(query, rows).mT @ rows

    def _one_hot(self, query: Tensor, like: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(query, self.queries).to(like.dtype)


def _same_objects(first: Sequence[object], second: Sequence[object]) -> bool:
    return len(first) == len(second) and all(map(operator.is_, first, second))
