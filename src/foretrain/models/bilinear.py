"""The 1-layer transformer of Scan and Snap in its two token-pair matrices: decoder Y and attention logits Z.

For a sequence with token counts k_l and query m:  c_l ∝ k_l·exp(z_ml),  f = c/‖c‖₂,  logits = Yᵀf.

Only entries that can ever receive a gradient are kept. A common token meets every class and every query;
a distinct token meets one class, hence one query. So the parameters are four blocks,

    Y_common [common, vocab]   Y_distinct [class, distinct, vocab]
    Z_common [query, common]   Z_distinct [class, distinct]

and `full` puts them back into Y and Z over the whole vocabulary. All have leading axes [setting, seed].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from foretrain.data.sequence_classes import SequenceBatch, SequenceClasses
from foretrain.errors import require, require_known
from foretrain.streams import stream

Parameters = dict[str, Tensor]
Counts = tuple[Tensor, Tensor]  # [seed, class, sample, common], [seed, class, sample, distinct]


class Bilinear:
    """Attention logits Z and decoder Y for a `SequenceClasses` task.

    start     "zero" (the theory), or "uniform": ±1/√vocab in every entry (a Linear layer's default)
    residual  adds the query's own embedding behind the normalisation and normalises again (section 7)
    """

    def __init__(
        self,
        task: SequenceClasses,
        *,
        start: Literal["zero", "uniform"] = "zero",
        residual: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        require_known("start", start, ("zero", "uniform"))
        self.task, self.start_from, self.residual, self.dtype = task, start, residual, dtype
        if residual:
            require(
                not task.occurs[:, task.query].any(), "With a residual, query tokens must not occur in the context."
            )

    @cached_property
    def common(self) -> Int[Tensor, "common"]:
        return torch.from_numpy(self.task.common_tokens)

    @cached_property
    def distinct(self) -> Int[Tensor, "class distinct"]:
        """Distinct tokens of each class, padded (with tokens of that class's own row, count 0) to one width."""
        return torch.from_numpy(self._slots[0])

    @cached_property
    def _slots(self) -> tuple[np.ndarray, np.ndarray]:
        """Token of each distinct slot, and whether the slot is real."""
        per_class = self.task.distinct_tokens
        width = max((len(tokens) for tokens in per_class), default=0)
        tokens = np.zeros((self.task.classes, width), dtype=np.int64)
        real = np.zeros((self.task.classes, width), dtype=bool)
        for n, own in enumerate(per_class):
            tokens[n, : len(own)], real[n, : len(own)] = own, True
        return tokens, real

    @cached_property
    def query_tokens(self) -> Int[Tensor, "query"]:
        return torch.from_numpy(np.unique(self.task.query))

    @cached_property
    def query_of(self) -> Int[Tensor, "class"]:
        """Row of each class's query in `query_tokens`."""
        return torch.from_numpy(np.searchsorted(np.unique(self.task.query), self.task.query))

    def start(self, seeds: Sequence[int], experiment: str) -> Parameters:
        """Initial parameters [seed, …], each seed from its own stream."""
        made = [self._start(stream(experiment, seed, "start")) for seed in seeds]
        return {name: torch.stack([m[name] for m in made]) for name in made[0]}

    def _start(self, draw: np.random.Generator) -> Parameters:
        vocab, (tokens, real) = self.task.vocab, self._slots
        shape = (vocab, vocab)
        if self.start_from == "uniform":
            bound = vocab**-0.5
            Y, Z = draw.uniform(-bound, bound, shape), draw.uniform(-bound, bound, shape)
        else:
            Y, Z = np.zeros(shape), np.zeros(shape)
        queries, common = self.query_tokens.numpy(), self.task.common_tokens
        blocks = {
            "Y_common": Y[common],
            "Y_distinct": Y[tokens] * real[..., None],
            "Z_common": Z[np.ix_(queries, common)],
            "Z_distinct": Z[self.task.query[:, None], tokens] * real,
        }
        if self.residual:
            blocks["Y_query"] = Y[queries]
        return {name: torch.from_numpy(block).to(self.dtype) for name, block in blocks.items()}

    def prepare(self, batches: Sequence[SequenceBatch]) -> Counts:
        """Counts grouped by class, one batch per seed, padded with empty samples (their f is 0)."""
        classes, (tokens, real) = self.task.classes, self._slots
        most = max(int(np.bincount(b.classes, minlength=classes).max()) for b in batches)
        common = np.zeros((len(batches), classes, most, len(self.task.common_tokens)), dtype=np.float32)
        distinct = np.zeros((len(batches), classes, most, tokens.shape[1]), dtype=np.float32)
        for s, batch in enumerate(batches):
            order = np.argsort(batch.classes, kind="stable")
            n = batch.classes[order]
            starts = np.searchsorted(n, np.arange(classes))
            place = np.arange(len(n)) - starts[n]
            counts = batch.counts[order]
            common[s, n, place] = counts[:, self.task.common_tokens]
            distinct[s, n, place] = np.take_along_axis(counts, tokens[n], axis=1) * real[n]
        return torch.from_numpy(common).to(self.dtype), torch.from_numpy(distinct).to(self.dtype)

    def features(self, parameters: Parameters, counts: Counts) -> tuple[Tensor, Tensor]:
        """f = c/‖c‖₂ on common and on distinct tokens: [setting, seed, class, sample, slot]."""
        z_common = parameters["Z_common"][..., self.query_of, :]
        z_distinct = parameters["Z_distinct"]
        top = _largest(z_common, z_distinct)
        common = counts[0] * torch.exp(z_common - top).unsqueeze(-2)
        distinct = counts[1] * torch.exp(z_distinct - top).unsqueeze(-2)
        square = common.square().sum(-1, keepdim=True) + distinct.square().sum(-1, keepdim=True)
        scale = torch.rsqrt(square.clamp_min(torch.finfo(self.dtype).tiny))
        return common.mul_(scale), distinct.mul_(scale)

    def logits(self, parameters: Parameters, f: tuple[Tensor, Tensor]) -> Tensor:
        """Yᵀf: [setting, seed, class, sample, vocab]."""
        classes, most = f[0].shape[-3:-1]
        from_common = f[0].flatten(-3, -2) @ parameters["Y_common"]
        out = (f[1] @ parameters["Y_distinct"]).add_(from_common.unflatten(-2, (classes, most)))
        if self.residual:
            out.add_(parameters["Y_query"][..., self.query_of, :].unsqueeze(-2)).mul_(0.5**0.5)
        return out

    def gradient(self, parameters: Parameters, counts: Counts, samples: int) -> Parameters:
        """Gradient of the mean cross-entropy over `samples` (Lemma 1 with the sign of a loss)."""
        f_common, f_distinct = f = self.features(parameters, counts)
        error = torch.softmax(self.logits(parameters, f), dim=-1)  # α − x_{T+1}, scaled by 1/samples below
        classes = torch.arange(self.task.classes)
        error[..., classes, :, self._labels] -= 1.0
        error.div_(samples * (2**0.5 if self.residual else 1.0))
        if self.residual:  # padding has f = 0 but not (f + e_m) = 0
            error.mul_((f_common.sum(-1, keepdim=True) + f_distinct.sum(-1, keepdim=True)) > 0)
        flat = error.flatten(-3, -2)
        grad = {
            "Y_common": f_common.flatten(-3, -2).mT @ flat,
            "Y_distinct": f_distinct.mT @ error,
        }
        g_common = (flat @ parameters["Y_common"].mT).unflatten(-2, error.shape[-3:-1])
        g_distinct = error @ parameters["Y_distinct"].mT
        along = (f_common * g_common).sum(-1, keepdim=True) + (f_distinct * g_distinct).sum(-1, keepdim=True)
        z_common = (f_common * (g_common - f_common * along)).sum(-2)
        grad["Z_common"] = torch.zeros_like(parameters["Z_common"]).index_add_(-2, self.query_of, z_common)
        grad["Z_distinct"] = (f_distinct * (g_distinct - f_distinct * along)).sum(-2)
        if self.residual:
            by_class = error.sum(-2)
            grad["Y_query"] = torch.zeros_like(parameters["Y_query"]).index_add_(-2, self.query_of, by_class)
        return grad

    @cached_property
    def _labels(self) -> Int[Tensor, "class"]:
        return torch.from_numpy(self.task.label)

    def attention(self, parameters: Mapping[str, Tensor]) -> Float[Tensor, "*run class vocab"]:
        """c_n over the vocabulary in the limit of long sequences (eq. 5)."""
        P = torch.from_numpy(self.task.probabilities)
        z = self.full(parameters)[1][..., torch.from_numpy(self.task.query), :].double()
        weights = P * torch.exp(z - z.amax(-1, keepdim=True))
        return weights / weights.sum(-1, keepdim=True)

    def full(self, parameters: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Y and Z over the whole vocabulary; entries that cannot move are 0."""
        lead = parameters["Y_common"].shape[:-2]
        vocab, (tokens, real) = self.task.vocab, self._slots
        Y = torch.zeros(*lead, vocab, vocab, dtype=self.dtype)
        Z = torch.zeros_like(Y)
        Y[..., self.common, :] = parameters["Y_common"]
        Z[..., self.query_tokens[:, None], self.common[None, :]] = parameters["Z_common"]
        n, slot = np.nonzero(real)
        own = torch.from_numpy(tokens[n, slot])
        Y[..., own, :] = parameters["Y_distinct"][..., n, slot, :]
        Z[..., torch.from_numpy(self.task.query[n]), own] = parameters["Z_distinct"][..., n, slot]
        if self.residual:
            Y[..., self.query_tokens, :] += parameters["Y_query"]
        return Y, Z


def _largest(first: Tensor, second: Tensor) -> Tensor:
    """Largest logit of each class, to keep exp in range."""
    parts = [part.amax(-1, keepdim=True) for part in (first, second) if part.shape[-1]]
    return parts[0] if len(parts) == 1 else torch.maximum(*parts)
