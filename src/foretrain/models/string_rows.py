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
    """Strings of every run by the run's distinct tokens, and by its distinct pairs of a token and a position.

    Runs with fewer tokens or pairs repeat their first.
    """

    strings: Int[Tensor, "run sample place"]
    token: Int[Tensor, "run row"]
    token_row: Int[Tensor, "run sample place"]
    pair: Int[Tensor, "run pair 2"]  # row of the token, position
    pair_row: Int[Tensor, "run sample place"]
    heads: int

    @cached_property
    def pair_places(self) -> Places:
        """[run, sample, place] into a table [run, pair]."""
        return Places.of(_counted_on(self.pair_row, self.pair.shape[1]), len(self.pair) * self.pair.shape[1])

    @cached_property
    def pair_parts(self) -> Places:
        """The token and the position of every pair, in tables [run, token, then position, then one row more]."""
        tokens, places = self.token.shape[1], self.pair_row.shape[2]
        rows = torch.stack([self.pair[..., 0], self.pair[..., 1] + tokens], dim=-1)
        each = tokens + places + 1
        return Places.of(_counted_on(rows, each), len(rows) * each, terms=2)

    @cached_property
    def pair_head_places(self) -> Places:
        """[run, sample, head, place] into a table [run, pair, head]."""
        return self._by_head(self.pair_row, self.pair.shape[1])

    @cached_property
    def token_head_places(self) -> Places:
        """[run, sample, head, place] into a table [run, token, head]."""
        return self._by_head(self.token_row, self.token.shape[1])

    def _by_head(self, row: Int[Tensor, "run sample place"], rows: int) -> Places:
        places = _counted_on(row, rows)[:, :, None] * self.heads + torch.arange(self.heads)[:, None]
        return Places.of(places, len(row) * rows * self.heads)

    def some(self, samples: Int[Tensor, "run some"]) -> StringRows:
        """Those samples of each run, with their own distinct rows."""
        chosen = self.strings.gather(1, samples[:, :, None].expand(-1, -1, self.strings.shape[2]))
        return string_rows(chosen, self.heads)

    def of_runs(self, runs: Int[Tensor, "kept"]) -> StringRows:
        """The rows of some runs."""
        tensors = ("strings", "token", "token_row", "pair", "pair_row")
        return replace(self, **{name: getattr(self, name)[runs] for name in tensors})


def string_rows(strings: Int[Tensor, "run sample place"], heads: int) -> StringRows:
    places = strings.shape[2]
    token, token_row = _distinct(strings.numpy())
    pair, pair_row = _distinct(token_row * places + np.arange(places))
    token_and_place = np.stack([pair // places, pair % places], axis=-1)
    as_torch = torch.from_numpy
    return StringRows(
        strings, as_torch(token), as_torch(token_row), as_torch(token_and_place), as_torch(pair_row), heads
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
