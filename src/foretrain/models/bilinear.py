"""The 1-layer transformer of Scan and Snap in its two token-pair matrices: decoder Y and attention logits Z.

For a sequence with token counts k_l and query m:  c_l ∝ k_l·exp(z_ml),  f = c/‖c‖₂,  logits = Yᵀf.

Only entries that can ever receive a gradient are kept. A common token occurs in several classes, with several queries;
a distinct token occurs in one class, hence with one query. So the parameters are four blocks,

    Y_common [common, vocab]   Y_distinct [class, distinct, vocab]
    Z_common [query, common]   Z_distinct [class, distinct]

and `full` puts them back into Y and Z over the whole vocabulary. All have leading axes [setting, seed].

A sample is a row of counts on its slots (the common tokens, then the distinct tokens of its class), never a row over
the whole vocabulary. Common tokens take a dense product; distinct tokens take a sum over a few rows (an embedding bag),
so that nothing is padded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag

from foretrain.core.errors import require, require_known
from foretrain.core.streams import stream
from foretrain.data.sequence_classes import SequenceBatch, SequenceClasses
from foretrain.models.parameters import Key, Parameters, stacked

_NUMPY = {torch.float32: np.float32, torch.float64: np.float64}


@dataclass(frozen=True)
class Samples:
    """One step's samples of all seeds, sorted by seed and class; each (seed, class) pair is a row.

    `tokens` are each sample's rows in Y_distinct, which is flattened from [seed, class, slot]. `members` are the other
    way round: row i of Y_distinct is used by the samples members[member_starts[i] : member_starts[i + 1]].
    """

    counts: Float[Tensor, "sample slot"]
    label: Int[Tensor, "sample"]
    row: Int[Tensor, "sample"]
    in_class: Float[Tensor, "seed class sample_of_seed"]  # 1 where the sample is of the class
    tokens: Int[Tensor, "sample distinct"]
    members: Int[Tensor, "member"]
    member_slots: Int[Tensor, "member"]  # sample and slot flattened into one number, to look up f
    member_starts: Int[Tensor, "token"]


class Bilinear:
    """Attention logits Z and decoder Y for a `SequenceClasses` task.

    start     "zero" (as in the theory), or "uniform": every entry within ±1/√vocab (a Linear layer's default)
    residual  adds the query's own embedding after the normalisation and normalises again (section 7)
    """

    def __init__(
        self, task: SequenceClasses, *, start: str = "zero", residual: bool = False, dtype: torch.dtype = torch.float32
    ) -> None:
        require_known("start", start, ("zero", "uniform"))
        self.task, self.start_from, self.residual, self.dtype = task, start, residual, dtype
        if residual:
            require(
                not task.occurs[:, task.query].any(), "With a residual, query tokens must not occur in the context."
            )

    def __repr__(self) -> str:
        residual = ", with a residual connection" if self.residual else ""
        return f"Bilinear({self.task}, start {self.start_from}{residual})"

    @cached_property
    def common(self) -> Int[Tensor, "common"]:
        """The tokens that occur in more than one class."""
        return torch.from_numpy(self.task.common_tokens)

    @cached_property
    def _slots(self) -> tuple[np.ndarray, np.ndarray]:
        """Token of each distinct slot [class, slot], and whether the slot is used: some classes have fewer."""
        tokens = self.task.support[:, len(self.task.common_tokens) :]
        alone = self.task.occurs & (self.task.occurs.sum(axis=0) == 1)
        return tokens, np.take_along_axis(alone, tokens, axis=1)

    @cached_property
    def query_tokens(self) -> Int[Tensor, "query"]:
        """The tokens that are the query of some class."""
        return torch.from_numpy(np.unique(self.task.query))

    @cached_property
    def query_of(self) -> Int[Tensor, "class"]:
        """Row of each class's query in `query_tokens`."""
        return torch.from_numpy(np.searchsorted(np.unique(self.task.query), self.task.query))

    def start(self, keys: Sequence[Key]) -> Parameters:
        """Initial parameters, one run per key."""
        return stacked([self._start(stream(*key)) for key in keys])

    def _start(self, draw: np.random.Generator) -> Parameters:
        vocab, (tokens, used) = self.task.vocab, self._slots
        shape = (vocab, vocab)
        if self.start_from == "uniform":
            bound = vocab**-0.5
            Y, Z = draw.uniform(-bound, bound, shape), draw.uniform(-bound, bound, shape)
        else:
            Y, Z = np.zeros(shape), np.zeros(shape)
        queries, common = self.query_tokens.numpy(), self.task.common_tokens
        blocks = {
            "Y_common": Y[common],
            "Y_distinct": Y[tokens] * used[..., None],
            "Z_common": Z[np.ix_(queries, common)],
            "Z_distinct": Z[self.task.query[:, None], tokens] * used,
        }
        if self.residual:
            blocks["Y_query"] = Y[queries]
        return {name: torch.from_numpy(block).to(self.dtype) for name, block in blocks.items()}

    def prepare(self, batches: Sequence[SequenceBatch]) -> Samples:
        """The samples of one batch per seed, sorted by seed and class."""
        return self.prepare_steps(batches, 1)[0]

    def prepare_steps(self, batches: Sequence[SequenceBatch], steps: int) -> list[Samples]:
        """The same for several steps at once: each seed's batch holds the samples of all steps, one after the other."""
        (classes, distinct), seeds = self._slots[0].shape, len(batches)
        size = len(batches[0].classes) // steps  # samples of one seed in one step
        slots = batches[0].support_counts.shape[1]
        n = np.stack([batch.classes for batch in batches]).reshape(seeds, steps, size).swapaxes(0, 1)
        row = n + classes * np.arange(seeds)[:, None]  # [step, seed, sample]
        order = np.argsort(row, axis=-1, kind="stable")
        row = np.take_along_axis(row, order, axis=-1).reshape(steps, -1)
        counts = np.stack([batch.support_counts for batch in batches]).reshape(seeds, steps, size, slots).swapaxes(0, 1)
        counts = np.take_along_axis(counts, order[..., None], axis=2)

        sizes = (row[..., None] == np.arange(seeds * classes)).sum(axis=1)  # [step, row]
        starts = np.cumsum(sizes, axis=1) - sizes
        member_row = np.repeat(row, distinct, axis=1)  # [step, member]
        first = np.take_along_axis(starts, member_row, axis=1)
        within_row = np.arange(member_row.shape[1]) - distinct * first
        slot, nth = np.divmod(within_row, np.take_along_axis(sizes, member_row, axis=1))
        members = first + nth
        per_token = np.repeat(sizes, distinct, axis=1)
        dtype = _NUMPY[self.dtype]
        arrays = {
            "counts": counts.reshape(steps, -1, slots).astype(dtype),
            "label": self.task.label[row % classes],
            "row": row,
            "in_class": (np.sort(n, axis=-1)[:, :, None] == np.arange(classes)[:, None]).astype(dtype),
            "tokens": row[..., None] * distinct + np.arange(distinct),
            "members": members,
            "member_slots": members * slots + slots - distinct + slot,
            "member_starts": np.cumsum(per_token, axis=1) - per_token,
        }
        tensors = {name: torch.from_numpy(array).unbind() for name, array in arrays.items()}
        return [Samples(**{name: parts[step] for name, parts in tensors.items()}) for step in range(steps)]

    def features(self, parameters: Parameters, batch: Samples) -> Float[Tensor, "setting sample slot"]:
        """f = c/‖c‖₂ on the slots of every sample."""
        z = torch.cat([parameters["Z_common"].index_select(2, self.query_of), parameters["Z_distinct"]], dim=-1)
        weights = torch.softmax(z, dim=-1).flatten(1, 2)  # exp(z) up to a factor, which the norm cancels
        c = weights.index_select(1, batch.row).mul_(batch.counts)
        norm = torch.linalg.vector_norm(c, dim=-1, keepdim=True)
        if bool((norm < 1e-12).any()):  # samples without the tokens that have nearly all attention
            setting, sample = torch.nonzero(norm.squeeze(-1) < 1e-12, as_tuple=True)
            counts = batch.counts[sample]
            present = z.flatten(1, 2)[setting, batch.row[sample]].masked_fill(counts == 0, -torch.inf)
            c[setting, sample] = torch.softmax(present, dim=-1).mul_(counts)
            norm = torch.linalg.vector_norm(c, dim=-1, keepdim=True)
        return c.div_(norm)

    def logits(self, parameters: Parameters, batch: Samples, f: Tensor) -> Float[Tensor, "setting sample vocab"]:
        """Yᵀf of every sample, without a residual."""
        Y_common, Y_distinct = parameters["Y_common"], parameters["Y_distinct"]
        settings, seeds, common, vocab = Y_common.shape
        tokens = _for_settings(batch.tokens, settings, Y_distinct[0, ..., 0].numel()).flatten(0, 1)
        f_distinct = f[..., common:].reshape(tokens.shape)
        scores = embedding_bag(tokens, Y_distinct.view(-1, vocab), per_sample_weights=f_distinct, mode="sum")
        by_run = scores.view(settings * seeds, -1, vocab)
        by_run.baddbmm_(_common(f, seeds, common), Y_common.flatten(0, 1))
        return scores.view(settings, -1, vocab)

    def gradient(self, parameters: Parameters, batch: Samples, samples: int) -> Parameters:
        """Gradient of the mean cross-entropy over `samples` per seed (Lemma 1, with the sign of a loss)."""
        Y_common, Y_distinct = parameters["Y_common"], parameters["Y_distinct"]
        settings, seeds, common, vocab = Y_common.shape
        f = self.features(parameters, batch)
        logits = self.logits(parameters, batch, f)
        error = torch.softmax(self._with_residual(parameters, batch, logits), dim=-1)
        error.scatter_add_(2, batch.label.view(1, -1, 1).expand(settings, -1, 1), _minus_one(f))  # α − x_{T+1} of eq. 3
        by_run = error.view(settings * seeds, -1, vocab)

        weights = f / (samples * (2**0.5 if self.residual else 1.0))
        grad = {
            "Y_common": (_common(weights, seeds, common).mT @ by_run).view_as(Y_common),
            "Y_distinct": self._by_token(weights, error, batch).view_as(Y_distinct),
        }
        # Lemma 1: ∂/∂z_l sums f_l(g_l − f_l·fᵀg) over samples, with g = Y·error and fᵀg = logits·error.
        # Of f_l·g_l, the sum over the samples of a distinct token is Y_l·∂/∂Y_l.
        rest = f * -logits.mul_(error).sum(-1, keepdim=True)
        _common(rest, seeds, common).add_((Y_common.flatten(0, 1) @ by_run.mT).mT)
        by_class = batch.in_class @ rest.mul_(weights).unflatten(1, (seeds, -1))
        grad["Z_common"] = self._class_of_query @ by_class[..., :common]
        grad["Z_distinct"] = (Y_distinct * grad["Y_distinct"]).sum(-1).add_(by_class[..., common:])
        if self.residual:
            by_class = batch.in_class @ error.unflatten(1, (seeds, -1))
            grad["Y_query"] = (self._class_of_query @ by_class) / (samples * 2**0.5)
        return grad

    def _with_residual(self, parameters: Parameters, batch: Samples, logits: Tensor) -> Tensor:
        if not self.residual:
            return logits
        rows = parameters["Y_query"].index_select(2, self.query_of).flatten(1, 2)
        return rows.index_select(1, batch.row).add_(logits).mul_(0.5**0.5)

    def _by_token(self, weights: Tensor, error: Tensor, batch: Samples) -> Float[Tensor, "token vocab"]:
        """Σ f_l·error over the samples of each distinct token l."""
        settings, number = weights.shape[:2]
        return embedding_bag(
            _for_settings(batch.members, settings, number).flatten(),
            error.view(settings * number, -1),
            _for_settings(batch.member_starts, settings, batch.members.numel()).flatten(),
            per_sample_weights=weights.view(settings, -1).index_select(1, batch.member_slots).flatten(),
            mode="sum",
        )

    @cached_property
    def _class_of_query(self) -> Float[Tensor, "query class"]:
        """1 where the class has this query."""
        return (self.query_of == torch.arange(len(self.query_tokens))[:, None]).to(self.dtype)

    def attention(self, parameters: Mapping[str, Tensor]) -> Float[Tensor, "*run class vocab"]:
        """c_n over the vocabulary in the limit of long sequences (eq. 5)."""
        P = torch.from_numpy(self.task.probabilities)
        z = self.attention_logits(parameters)[..., self.query_of, :].double()
        weights = P * torch.exp(z - z.amax(-1, keepdim=True))
        return weights / weights.sum(-1, keepdim=True)

    def attention_logits(self, parameters: Mapping[str, Tensor]) -> Float[Tensor, "*run query vocab"]:
        """The rows of Z that belong to query tokens; entries that cannot move are 0."""
        Z_common, Z_distinct = parameters["Z_common"], parameters["Z_distinct"]
        n, slot, token = self._own_tokens
        rows = Z_common.new_zeros(*Z_common.shape[:-1], self.task.vocab)
        rows[..., self.common] = Z_common
        rows[..., self.query_of[n], token] = Z_distinct[..., n, slot]
        return rows

    def full(self, parameters: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Y and Z over the whole vocabulary; entries that cannot move are 0."""
        Y_common, Y_distinct = parameters["Y_common"], parameters["Y_distinct"]
        n, slot, token = self._own_tokens
        Y = Y_common.new_zeros(*Y_common.shape[:-2], self.task.vocab, self.task.vocab)
        Z = torch.zeros_like(Y)
        Y[..., self.common, :] = Y_common
        Y[..., token, :] = Y_distinct[..., n, slot, :]
        Z[..., self.query_tokens, :] = self.attention_logits(parameters)
        if self.residual:
            Y[..., self.query_tokens, :] += parameters["Y_query"]
        return Y, Z

    @cached_property
    def _own_tokens(self) -> tuple[Tensor, Tensor, Tensor]:
        """Class, slot and token of every distinct slot that is used."""
        tokens, used = self._slots
        n, slot = np.nonzero(used)
        return torch.from_numpy(n), torch.from_numpy(slot), torch.from_numpy(tokens[n, slot])


def _common(values: Tensor, seeds: int, common: int) -> Tensor:
    """The slots of the common tokens, by run: [setting, sample, slot] -> [run, sample, common]; a view."""
    return values.view(values.shape[0] * seeds, -1, values.shape[-1])[..., :common]


def _for_settings(index: Tensor, settings: int, step: int) -> Tensor:
    """The same index for every setting, each `step` further than the one before."""
    return index + _shifts(settings, step).view(-1, *[1] * index.ndim)


@lru_cache(maxsize=64)
def _shifts(settings: int, step: int) -> Tensor:
    return step * torch.arange(settings)


def _minus_one(f: Tensor) -> Tensor:
    return f.new_tensor(-1.0).expand(*f.shape[:2], 1)
