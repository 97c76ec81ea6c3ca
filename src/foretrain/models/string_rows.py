"""Strings by their distinct rows: what depends on a token and its position alone is computed once, then looked up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from foretrain.errors import require

PRODUCTS_PER_PLACE = 32  # of parts, that cost as much as looking a place's query and key up and multiplying them
NUMBERS_PER_PAIR = 16  # of a head's dimension, that cost as much as looking four numbers up


@dataclass(frozen=True)
class Places:
    """Rows of a table that are looked up, `terms` of them added at a time, and the other way round for gradients:
    for each row of the table, one behind the other, where it was looked up."""

    place: Int[Tensor, "all"]
    used: Int[Tensor, "all"]
    used_start: Int[Tensor, "row"]
    terms: int = 1

    @classmethod
    def of(cls, place: Int[Tensor, "..."], rows: int, terms: int = 1) -> Places:
        flat = place.flatten()
        counts = torch.bincount(flat, minlength=rows)
        return cls(flat, torch.argsort(flat, stable=True) // terms, counts.cumsum(0) - counts, terms)


@dataclass(frozen=True)
class StringRows:
    """Strings of every run by the run's distinct tokens, and by its distinct pairs of a token and a place.

    Places where all samples hold the same token (CLS, or a word of the template) are `fixed`: there token and place
    are one. Tables of parts are [run, token, then place, then two rows more], of which the first is zero: it stands
    for the token at fixed places. Runs with fewer tokens or pairs repeat their first.
    """

    strings: Int[Tensor, "run sample place"]
    free: Int[Tensor, "free"]  # places that are not fixed
    fixed: Int[Tensor, "fixed"]
    fixed_token: Int[Tensor, "run fixed"]
    token: Int[Tensor, "run row"]  # at free places
    token_row: Int[Tensor, "run sample place"]  # the row of zeros at fixed places
    pair: Int[Tensor, "run pair 2"]  # row of the token, place
    pair_row: Int[Tensor, "run sample place"]
    heads: int
    head: int  # its dimension

    @property
    def parts(self) -> int:
        """Rows of a table of parts."""
        return self.token.shape[1] + self.pair_row.shape[2] + 2

    @property
    def few_parts(self) -> bool:
        """Whether all products between parts are less work than those between the places of every string.

        Those also take numbers, one per head, for all pairs of places of a string, which are many if it is long.
        """
        samples, places = self.pair_row.shape[1:]
        return self.parts**2 <= samples * places * (PRODUCTS_PER_PLACE - NUMBERS_PER_PAIR * places / self.head)

    @cached_property
    def pair_places(self) -> Places:
        """[run, sample, place] into a table [run, pair]."""
        return Places.of(_counted_on(self.pair_row, self.pair.shape[1]), len(self.pair) * self.pair.shape[1])

    @cached_property
    def pair_parts(self) -> Places:
        """The token and the place of every pair, in tables of parts."""
        return Places.of(_counted_on(self._two_parts(self.pair), self.parts), len(self.pair) * self.parts, terms=2)

    @cached_property
    def place_parts(self) -> Places:
        """The token and the place at [run, sample, place], in tables of parts."""
        return Places.of(_counted_on(self._place_parts, self.parts), len(self.pair) * self.parts, terms=2)

    @cached_property
    def product_parts(self) -> Places:
        """The four products of the parts at [run, sample, place, another place], in tables [run, part, part]."""
        two, each = self._place_parts, self.parts**2
        four = (two[:, :, :, None, :, None] * self.parts + two[:, :, None, :, None, :]).flatten(-2)
        return Places.of(_counted_on(four, each), len(two) * each, terms=4)

    @cached_property
    def pair_head_places(self) -> Places:
        """[run, sample, head, place] into a table [run, pair, head]."""
        return self._by_head(self.pair_row, self.pair.shape[1])

    @cached_property
    def token_head_places(self) -> Places:
        """[run, sample, head, free place] into a table [run, token, head]."""
        return self._by_head(self.token_row[:, :, self.free], self.token.shape[1])

    @cached_property
    def _place_parts(self) -> Int[Tensor, "run sample place 2"]:
        places = torch.arange(self.token_row.shape[2]).expand_as(self.token_row)
        return self._two_parts(torch.stack([self.token_row, places], dim=-1))

    def _two_parts(self, pair: Int[Tensor, "run *rest 2"]) -> Int[Tensor, "run *rest 2"]:
        return torch.stack([pair[..., 0], pair[..., 1] + self.token.shape[1]], dim=-1)

    def _by_head(self, row: Int[Tensor, "run sample place"], rows: int) -> Places:
        places = _counted_on(row, rows)[:, :, None] * self.heads + torch.arange(self.heads)[:, None]
        return Places.of(places, len(row) * rows * self.heads)

    def some(self, samples: Int[Tensor, "run some"]) -> StringRows:
        """Those samples of each run, with their own distinct rows."""
        chosen = self.strings.gather(1, samples[:, :, None].expand(-1, -1, self.strings.shape[2]))
        return string_rows(chosen, self.heads, self.head)

    def of_runs(self, runs: Int[Tensor, "kept"]) -> StringRows:
        """The rows of some runs."""
        tensors = ("strings", "fixed_token", "token", "token_row", "pair", "pair_row")
        return replace(self, **{name: getattr(self, name)[runs] for name in tensors})


def string_rows(strings: Int[Tensor, "run sample place"], heads: int, head: int) -> StringRows:
    numbers, places = strings.numpy(), strings.shape[2]
    same = (numbers == numbers[:, :1]).all(axis=(0, 1))
    same[0] &= not same.all()  # some place is free
    free, fixed = np.flatnonzero(~same), np.flatnonzero(same)
    token, free_row = _distinct(numbers[:, :, free])
    token_row = np.full(numbers.shape, token.shape[1] + places)  # the row of zeros
    token_row[:, :, free] = free_row
    pair, pair_row = _distinct(token_row * places + np.arange(places))
    token_and_place = np.stack([pair // places, pair % places], axis=-1)
    as_torch = torch.from_numpy
    return StringRows(
        strings,
        free=as_torch(free),
        fixed=as_torch(fixed),
        fixed_token=as_torch(numbers[:, 0, fixed]),
        token=as_torch(token),
        token_row=as_torch(token_row),
        pair=as_torch(token_and_place),
        pair_row=as_torch(pair_row),
        heads=heads,
        head=head,
    )


def _distinct(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct numbers of every run, and the place of each number among them."""
    found = [np.unique(of_run, return_inverse=True) for of_run in numbers]
    most = max(len(distinct) for distinct, _ in found)
    distinct = np.stack([np.pad(one, (0, most - len(one)), constant_values=one[0]) for one, _ in found])
    return distinct, np.stack([place.reshape(numbers.shape[1:]) for _, place in found])


def _counted_on(rows: Int[Tensor, "run *rest"], each: int) -> Int[Tensor, "run *rest"]:
    """Rows of each run's table as rows of all tables, one behind the other."""
    return rows + each * torch.arange(len(rows)).view(-1, *[1] * (rows.ndim - 1))


def require_fitting(strings: Int[Tensor, "run sample position"], tokens: int, length: int) -> None:
    """Refuse strings that a network of so many tokens and positions cannot read."""
    most = int(strings.max())
    require(most < tokens, f"The strings hold token {most}; the network knows {tokens}, the last {tokens - 1}.")
    require(strings.shape[2] == length, f"Strings have {strings.shape[2]} tokens; the network reads {length}.")


class _LookUp(torch.autograd.Function):
    """Sums of rows of a table. Gradients are added up row by row of the table, in an order that is known beforehand."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, places: Places) -> Tensor:
        ctx.places = places
        if places.terms == 1:
            return F.embedding(places.place, table)
        return F.embedding_bag(places.place.view(-1, places.terms), table, mode="sum")

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = gradients
        return F.embedding_bag(ctx.places.used, gradient, ctx.places.used_start, mode="sum"), None


def look_up(table: Tensor, places: Places) -> Tensor:
    """Rows of a table whose leading axes are counted through."""
    found: Tensor = _LookUp.apply(table.reshape(-1, table.shape[-1]), places)
    return found
