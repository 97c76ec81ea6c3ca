"""The 1-layer transformer of Scan and Snap in its two token-pair matrices: decoder Y and attention logits Z.

For a sequence with token counts k_l and query m:  c_l ∝ k_l·exp(z_ml),  f = c/‖c‖₂,  logits = Yᵀf.

Only entries that can ever receive a gradient are kept. A common token meets several classes and queries;
a distinct token meets one class, hence one query. So the parameters are four blocks,

    Y_common [common, vocab]   Y_distinct [class, distinct, vocab]
    Z_common [query, common]   Z_distinct [class, distinct]

and `full` puts them back into Y and Z over the whole vocabulary. All have leading axes [setting, seed].

A sample is never spread over the vocabulary: it is a row of counts on its slots, the common tokens followed by
the distinct tokens of its class. What belongs to the common tokens is a dense product; what belongs to the
distinct tokens is a sum over a few rows (an embedding bag), so that nothing is padded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag

from foretrain.data.sequence_classes import SequenceBatch, SequenceClasses
from foretrain.errors import require, require_known
from foretrain.streams import stream

Parameters = dict[str, Tensor]
LOG2_E = math.log2(math.e)  # logits are taken to base 2: exp2 costs half as much as exp


@dataclass(frozen=True)
class Samples:
    """One step's samples of all seeds, sorted by seed and class; each (seed, class) pair is a row.

    Y_distinct has rows [seed, class, slot]: `tokens` are those of each sample, and `members` are the samples of
    each, slot by slot (row i of Y_distinct has members[member_starts[i] : member_starts[i + 1]]).
    """

    counts: Float[Tensor, "sample slot"]
    label: Int[Tensor, "sample"]
    row: Int[Tensor, "sample"]
    row_starts: Int[Tensor, "row"]
    tokens: Int[Tensor, "sample distinct"]
    members: Int[Tensor, "member"]
    member_slots: Int[Tensor, "member"]  # sample and slot in one number, to look up f
    member_starts: Int[Tensor, "token"]


class Bilinear:
    """Attention logits Z and decoder Y for a `SequenceClasses` task.

    start     "zero" (the theory), or "uniform": ±1/√vocab in every entry (a Linear layer's default)
    residual  adds the query's own embedding behind the normalisation and normalises again (section 7)
    """

    def __init__(
        self,
        task: SequenceClasses,
        *,
        start: str = "zero",
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
    def _slots(self) -> tuple[np.ndarray, np.ndarray]:
        """Token of each distinct slot [class, slot], and whether the slot is real: some classes have fewer."""
        tokens = self.task.support[:, len(self.task.common_tokens) :]
        alone = self.task.occurs & (self.task.occurs.sum(axis=0) == 1)
        return tokens, np.take_along_axis(alone, tokens, axis=1)

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

    def prepare(self, batches: Sequence[SequenceBatch]) -> Samples:
        """The samples of one batch per seed, sorted by seed and class."""
        classes, distinct = self._slots[0].shape
        row = np.concatenate([batch.classes + seed * classes for seed, batch in enumerate(batches)])
        order = np.argsort(row, kind="stable")
        row = row[order]
        sizes = np.bincount(row, minlength=len(batches) * classes)
        starts = np.cumsum(sizes) - sizes
        row_of_member = np.repeat(row, distinct)
        first = starts[row_of_member]
        slot, place = np.divmod(np.arange(row_of_member.size) - distinct * first, sizes[row_of_member])
        members = first + place
        per_token = np.repeat(sizes, distinct)
        counts = np.concatenate([batch.support_counts for batch in batches])[order]
        arrays = (
            self.task.label[row % classes],
            row,
            starts,
            row[:, None] * distinct + np.arange(distinct),
            members,
            members * distinct + slot,
            np.cumsum(per_token) - per_token,
        )
        return Samples(torch.from_numpy(counts).to(self.dtype), *map(torch.from_numpy, arrays))

    def features(self, parameters: Parameters, batch: Samples) -> Float[Tensor, "setting sample slot"]:
        """f = c/‖c‖₂ on the slots of every sample."""
        z = torch.cat([parameters["Z_common"][..., self.query_of, :], parameters["Z_distinct"]], dim=-1)
        weights = torch.exp(z - z.amax(-1, keepdim=True)).flatten(1, 2)  # [setting, row, slot]
        c = weights.index_select(1, batch.row).mul_(batch.counts)
        return c.mul_(c.square().sum(-1, keepdim=True).rsqrt_())

    def logits(self, parameters: Parameters, batch: Samples, f: Tensor) -> Float[Tensor, "setting sample vocab"]:
        """Yᵀf of every sample, without a residual."""
        Y_common, Y_distinct = parameters["Y_common"], parameters["Y_distinct"]
        settings, seeds, common, vocab = Y_common.shape
        tokens = _for_settings(batch.tokens, settings, Y_distinct[0, ..., 0].numel())
        f_distinct = f[..., common:].reshape(-1, tokens.shape[-1])
        own = embedding_bag(tokens.flatten(0, 1), Y_distinct.view(-1, vocab), per_sample_weights=f_distinct, mode="sum")
        f_common = f.view(settings * seeds, -1, f.shape[-1])[..., :common]
        own.view(settings * seeds, -1, vocab).baddbmm_(f_common, Y_common.flatten(0, 1))
        return own.view(settings, -1, vocab)

    def gradient(self, parameters: Parameters, batch: Samples, samples: int) -> Parameters:
        """Gradient of the mean cross-entropy over `samples` per seed (Lemma 1 with the sign of a loss)."""
        Y_common, Y_distinct = parameters["Y_common"], parameters["Y_distinct"]
        settings, seeds, common, vocab = Y_common.shape
        scale = samples * (2**0.5 if self.residual else 1.0)
        f = self.features(parameters, batch)
        plain = self.logits(parameters, batch, f * LOG2_E)
        error, total = _powers_of_two(self._with_residual(parameters, batch, plain))
        label = batch.label.view(1, -1, 1).expand(settings, -1, 1)
        error.scatter_add_(2, label, -total)  # α − x_{T+1} of eq. 3, times the total
        by_run = error.view(settings * seeds, -1, vocab)

        weights = f / (total * scale)
        grad = {
            "Y_common": (weights.view(settings * seeds, -1, f.shape[-1])[..., :common].mT @ by_run).view_as(Y_common),
            "Y_distinct": self._by_token(weights[..., common:], error, batch).view_as(Y_distinct),
        }
        # Lemma 1: ∂/∂z_l sums f_l(g_l − f_l·fᵀg) over samples, with g = Y·error and fᵀg = logits·error.
        # Of f_l·g_l, the sum over the samples of a distinct token is Y_l·∂/∂Y_l.
        rest = f * _dot(plain, error).div_(-LOG2_E).unsqueeze(-1)
        g_common = Y_common.flatten(0, 1) @ by_run.mT
        rest[..., :common] += g_common.mT.reshape(*f.shape[:2], common)
        by_class = self._by_row(rest.mul_(weights), batch).view(settings, seeds, self.task.classes, -1)
        grad["Z_common"] = self._by_query(by_class[..., :common])
        grad["Z_distinct"] = _dot(Y_distinct, grad["Y_distinct"]).add_(by_class[..., common:])
        if self.residual:
            rows = self._by_row(error.div_(total * scale), batch)
            grad["Y_query"] = self._by_query(rows.view(settings, seeds, self.task.classes, vocab))
        return grad

    def _with_residual(self, parameters: Parameters, batch: Samples, plain: Tensor) -> Tensor:
        if not self.residual:
            return plain
        rows = parameters["Y_query"][..., self.query_of, :].flatten(1, 2).index_select(1, batch.row)
        return rows.mul_(LOG2_E).add_(plain).mul_(0.5**0.5)

    def _by_token(self, weights: Tensor, error: Tensor, batch: Samples) -> Float[Tensor, "token vocab"]:
        """Σ f_l·error over the samples of each distinct token l."""
        settings, number = weights.shape[:2]
        return embedding_bag(
            _for_settings(batch.members, settings, number).flatten(),
            error.view(settings * number, -1),
            _for_settings(batch.member_starts, settings, batch.members.numel()).flatten(),
            per_sample_weights=weights.reshape(settings, -1).index_select(1, batch.member_slots).flatten(),
            mode="sum",
        )

    def _by_row(self, values: Tensor, batch: Samples) -> Tensor:
        """Sums over the samples of each (seed, class): [setting·row, …]."""
        settings, number, width = values.shape
        starts = _for_settings(batch.row_starts, settings, number).flatten()
        return embedding_bag(torch.arange(settings * number), values.view(-1, width), starts, mode="sum")

    def _by_query(self, values: Float[Tensor, "setting seed class *rest"]) -> Float[Tensor, "setting seed query *rest"]:
        queries = len(self.query_tokens)
        shape = (*values.shape[:2], queries, *values.shape[3:])
        return values.new_zeros(shape).index_add_(2, self.query_of, values)

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


def _for_settings(index: Tensor, settings: int, step: int) -> Tensor:
    """The same index for every setting, each shifted by `step` against the one before."""
    return index + (step * torch.arange(settings)).view(-1, *[1] * index.ndim)


def _dot(first: Tensor, second: Tensor) -> Tensor:
    return (first * second).sum(-1)


def _powers_of_two(logits: Tensor) -> tuple[Tensor, Tensor]:
    """2^logits along the last axis, and their sum; both divided by the largest one where float32 would overflow."""
    powers = torch.exp2(logits)
    total = powers.sum(-1, keepdim=True)
    far = ~((total > 1e-30) & (total < 1e30)).squeeze(-1)
    if far.any():
        powers[far] = torch.exp2(logits[far] - logits[far].amax(-1, keepdim=True))
        total[far] = powers[far].sum(-1, keepdim=True)
    return powers, total
