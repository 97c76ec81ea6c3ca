"""Sequence classes (Scan and Snap, section 3.2): the next token n determines the query ψ(n) and the contexts P(l|n).

The model has no positions, so token counts describe a sequence completely, and counts are what is sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int, UInt
from numpy import ndarray as Array
from numpy.typing import ArrayLike

from foretrain.core.errors import InputError, require, require_whole

CELLS = 2**12  # equal parts of [0, 1) in the lookup table for drawing tokens
TOKENS_PER_SLOT = 12  # with more context tokens per slot, a multinomial draw is faster than drawing each (measured)


@dataclass(frozen=True)
class SequenceBatch:
    """Samples as counts over the support of their class; `counts` converts them to the whole vocabulary."""

    task: SequenceClasses
    classes: Int[Array, "sample"]
    support_counts: Int[Array, "sample slot"]
    sequences: Int[Array, "sample position"] | None = None

    @property
    def counts(self) -> Int[Array, "sample vocab"]:
        """How often each token of the vocabulary occurs in each sample."""
        dense = np.zeros((len(self.classes), self.task.vocab), dtype=np.int64)
        np.add.at(dense, (np.arange(len(self.classes))[:, None], self.task.support[self.classes]), self.support_counts)
        return dense

    @property
    def queries(self) -> Int[Array, "sample"]:
        """The query token of each sample."""
        return self.task.query[self.classes]

    @property
    def labels(self) -> Int[Array, "sample"]:
        """The label of each sample."""
        return self.task.label[self.classes]


class SequenceClasses:
    """A mixture of K sequence classes over M tokens.

    probabilities  P(l|n), one row per class, one column per token
    query          ψ(n): the query token of each class
    label          the token that stands for each class in the decoder; by default the first K tokens
    length         T tokens: the query and T − 1 context tokens
    """

    def __init__(
        self,
        probabilities: ArrayLike,
        query: Sequence[int] | Array,
        label: Sequence[int] | Array | None = None,
        *,
        length: int = 128,
        class_weights: Sequence[float] | Array | None = None,
    ) -> None:
        try:
            given = np.asarray(probabilities)
            table = given.astype(np.float64)
        except (ValueError, TypeError) as error:
            raise InputError("probabilities must be rows of numbers, all of the same length.") from error
        require(table.ndim == 2, f"probabilities must have two axes, class and token; got {table.ndim}.")
        classes, vocab = table.shape
        require(classes >= 1, "There must be at least one sequence class; got none.")
        require(vocab >= 2, f"vocab must be at least 2; got {vocab}.")
        if given.dtype in (np.float32, np.float16):  # whose rows sum to 1 only up to their rounding
            table = np.where(
                abs(table.sum(axis=1, keepdims=True) - 1) < 1e-3, table / table.sum(axis=1, keepdims=True), table
            )
        _require_distributions("probabilities of class", table)
        require_whole("length (a query and its context tokens)", length, 2)
        self.probabilities: Float[Array, "class vocab"] = table
        self.query = _tokens("query", query, classes, vocab)
        self.label = _tokens("label", np.arange(classes) if label is None else label, classes, vocab)
        require(len(set(self.label.tolist())) == classes, "Every class needs a label token of its own.")
        weights = np.full(classes, 1 / classes) if class_weights is None else np.asarray(class_weights, float)
        require(weights.shape == (classes,), f"class_weights must have {classes} entries; got {weights.size}.")
        _require_distributions("class_weights in row", weights[None])
        self.class_weights: Float[Array, "class"] = weights
        self.length = int(length)

    def __repr__(self) -> str:
        queries = len(np.unique(self.query))
        classes = f"{self.classes} class{'es' * (self.classes != 1)}"
        asked = f"{queries} quer{'y' if queries == 1 else 'ies'}"
        return f"SequenceClasses({classes}, {self.vocab} tokens, {asked}, length {self.length})"

    @classmethod
    def syn_small(cls, *, length: int = 128) -> SequenceClasses:
        """Syn-Small (Fig 4): 2 classes with one query each; of 34 tokens, 10 are common and 10 distinct per class."""
        return cls._with_common_and_distinct(query=(0, 1), length=length)

    @classmethod
    def syn_medium(cls, queries: int = 3, *, length: int = 128) -> SequenceClasses:
        """Syn-Medium (Fig 6): 2 classes per query; 10 common and 10 distinct tokens per class."""
        require_whole("queries", queries, 1)
        return cls._with_common_and_distinct(query=np.repeat(np.arange(queries), 2), length=length)

    @classmethod
    def _with_common_and_distinct(cls, query: Sequence[int] | Array, length: int) -> SequenceClasses:
        """Number the tokens in this order: 10 common, 10 distinct per class, the queries, the labels."""
        query = np.asarray(query)
        classes, queries = len(query), int(query.max()) + 1
        context = 10 + 10 * classes
        weights = np.zeros((classes, context + queries + classes))
        weights[:, :10] = 1.0
        for n in range(classes):
            weights[n, 10 + 10 * n : 20 + 10 * n] = np.linspace(0.1, 1, 10)
        table = weights / weights.sum(axis=1, keepdims=True)
        return cls(table, context + query, context + queries + np.arange(classes), length=length)

    @property
    def classes(self) -> int:
        """K, the number of classes."""
        return self.probabilities.shape[0]

    @property
    def vocab(self) -> int:
        """M, the number of tokens."""
        return self.probabilities.shape[1]

    @cached_property
    def occurs(self) -> Bool[Array, "class vocab"]:
        """Whether a token can occur in a class."""
        return self.probabilities > 0

    @cached_property
    def common_tokens(self) -> Int[Array, "common"]:
        """Tokens that occur in more than one class."""
        return np.flatnonzero(self.occurs.sum(axis=0) > 1)

    @cached_property
    def distinct_tokens(self) -> tuple[Int[Array, "distinct"], ...]:
        """For each class, the tokens that occur in no other class."""
        alone = self.occurs.sum(axis=0) == 1
        return tuple(np.flatnonzero(row & alone) for row in self.occurs)

    @cached_property
    def support(self) -> Int[Array, "class slot"]:
        """For each class, all common tokens, then its distinct tokens, padded to equal width with tokens never drawn.

        At least one slot follows the common tokens; if every token is common, it repeats token 0.
        """
        number = self.occurs.sum(axis=0)
        kind = np.where(number > 1, 0, np.where(self.occurs, 1, 2))
        width = len(self.common_tokens) + max(1, *map(len, self.distinct_tokens))
        order = np.argsort(kind, axis=1, kind="stable")[:, :width]
        return np.pad(order, ((0, 0), (0, width - order.shape[1])))

    @cached_property
    def _support_probabilities(self) -> Float[Array, "class slot"]:
        table = np.take_along_axis(self.probabilities, self.support, axis=1)
        table[:, self.vocab :] = 0
        return table / table.sum(axis=1, keepdims=True)

    @cached_property
    def _edges(self) -> Float[Array, "class slot"]:
        """Cumulative probabilities: slot i of a class covers the part of [0, 1) from edge i − 1 to edge i."""
        edges = np.cumsum(self._support_probabilities, axis=1)
        return edges / edges[:, -1:]

    @cached_property
    def _slot_of_cell(self) -> UInt[Array, "class cell"]:
        """For each equal cell of [0, 1), the slot that covers it; the number of slots if an edge cuts the cell."""
        first, last = (
            np.stack([edges.searchsorted(np.arange(CELLS) / CELLS + shift, side=side) for edges in self._edges])
            for shift, side in ((0.0, "right"), (1 / CELLS, "left"))
        )
        slots = self.support.shape[1]
        return np.where(first == last, first, slots).astype(np.min_scalar_type(slots))

    def sample(self, n: int, generator: np.random.Generator | int, *, sequences: bool = False) -> SequenceBatch:
        """Draw n sequences as token counts; with `sequences`, also as tokens in order.

        `generator` may be a seed. Without `sequences`, counts of long sequences are drawn directly (multinomial).
        """
        require_whole("n", n, 1)
        draw = np.random.default_rng(generator)
        classes = np.cumsum(self.class_weights)[:-1].searchsorted(draw.random(n), side="right")
        width, context = self.support.shape[1], self.length - 1
        if not sequences and context > TOKENS_PER_SLOT * width:
            return SequenceBatch(self, classes, draw.multinomial(context, self._support_probabilities[classes]))
        slots = self._draw_slots(classes, context, draw)
        place = slots + width * np.arange(n, dtype=np.int32)[:, None]
        counts = np.bincount(place.ravel(), minlength=n * width).reshape(n, width)
        tokens = np.take_along_axis(self.support[classes], slots.astype(np.int64), axis=1) if sequences else None
        return SequenceBatch(self, classes, counts, tokens)

    def _draw_slots(
        self, classes: Int[Array, "sample"], context: int, draw: np.random.Generator
    ) -> UInt[Array, "sample position"]:
        """The slot of every context token. 12 random bits choose a cell; only cells cut by an edge need more bits."""
        size = classes.size * context
        cells = draw.integers(0, 2**64, -(-size // 4), dtype=np.uint64).view(np.uint16)[:size] & np.uint16(CELLS - 1)
        row = np.repeat((classes * CELLS).astype(np.int32), context)
        slots = self._slot_of_cell.ravel().take(row + cells)
        cut = np.flatnonzero(slots == self.support.shape[1])
        exact = (cells[cut] + draw.random(cut.size)) / CELLS
        slots[cut] = (self._edges[classes[cut // context]] <= exact[:, None]).sum(axis=1)
        return slots.reshape(classes.size, context)


def _require_distributions(what: str, table: Float[Array, "row column"]) -> None:
    for row, values in enumerate(table):
        require(bool(np.isfinite(values).all()), f"{what} {row} must be finite numbers; it has nan or infinity.")
        require(
            bool((values >= 0).all()), f"{what} {row} must not be negative; its smallest entry is {values.min():g}."
        )
        total = values.sum()
        require(abs(total - 1) <= 1e-8, f"{what} {row} must sum to 1; it sums to {total:.9g}; divide it by its sum.")


def _tokens(name: str, values: Sequence[int] | Array, classes: int, vocab: int) -> Int[Array, "class"]:
    tokens = np.asarray(values)
    require(tokens.shape == (classes,), f"{name} must name one token per class ({classes}); got {tokens.size}.")
    require(np.issubdtype(tokens.dtype, np.integer), f"{name} must be whole numbers; got {tokens.dtype}.")
    bad = tokens[(tokens < 0) | (tokens >= vocab)]
    require(bad.size == 0, f"{name} must lie between 0 and {vocab - 1}; got {bad[0] if bad.size else ''}.")
    return tokens.astype(np.int64)
