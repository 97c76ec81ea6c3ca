"""Strings by their distinct rows: what depends on a token and its position alone is computed once, then looked up."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from foretrain.core.errors import require


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

    def added_up(self, gradient: Float[Tensor, "found a"]) -> Float[Tensor, "row a"]:
        """The gradient of the table from that of the rows that were found, in an order that is known beforehand."""
        return F.embedding_bag(self.used, gradient, self.used_start, mode="sum")


@dataclass(frozen=True)
class StringRows:
    """Strings of every run by the run's distinct tokens, and by its distinct pairs of a token and a place.

    Places where all samples hold the same token (CLS, or a word of the template) are `fixed`: there token and place
    are one. Tables of parts are [run, place, then two rows more, then token]; the first of the two is for what a
    normalisation adds to all rows, the second is zero and stands for the token at fixed places. Runs with fewer tokens
    or pairs repeat their first behind. The distinct tokens of one string at free places are its slots; a string with
    fewer has rows of zeros behind.
    """

    strings: Int[Tensor, "run sample place"]
    fixed: Int[Tensor, "fixed"]
    fixed_token: Int[Tensor, "run fixed"]
    token: Int[Tensor, "run row"]  # at free places
    token_count: Int[Tensor, "run"]  # of those, the run's own
    token_part: Int[Tensor, "run sample place"]  # its row in tables of parts; of zeros at fixed places
    pair: Int[Tensor, "run pair 2"]  # row of the token in tables of parts, place
    pair_row: Int[Tensor, "run sample place"]
    slot_part: Int[Tensor, "run sample slot"]  # row of the token in tables of parts
    slot: Int[Tensor, "run sample place"]  # one past the last at fixed places

    @property
    def parts(self) -> int:
        """Rows of a table of parts."""
        return self.pair_row.shape[2] + 2 + self.token.shape[1]

    @cached_property
    def parts_by_run(self) -> list[int]:
        """Rows of a table of parts but for those that fill it up."""
        return (self.pair_row.shape[2] + 2 + self.token_count).tolist()

    @cached_property
    def pair_places(self) -> Places:
        """[run, sample, place] into a table [run, pair]."""
        return Places.of(_counted_on(self.pair_row, self.pair.shape[1]), len(self.pair) * self.pair.shape[1])

    @cached_property
    def pair_parts(self) -> Places:
        """The token and the place of every pair, in tables of parts."""
        return self._in_parts(self.pair, terms=2)

    @cached_property
    def query_parts(self) -> Places:
        """The token and the place at [run, sample, place], and behind them the two rows more, in tables of parts."""
        places = self.token_part.shape[2]
        at_places = torch.stack([self.token_part, torch.arange(places).expand_as(self.token_part)], dim=-1)
        more = torch.tensor([places, places + 1]).expand(*at_places.shape[:2], 1, 2)
        return self._in_parts(torch.cat([at_places, more], dim=2), terms=2)

    @cached_property
    def slot_parts(self) -> Places:
        """The token at [run, sample, slot], in tables of parts."""
        return self._in_parts(self.slot_part)

    @cached_property
    def slot_parts_by_run(self) -> list[Places]:
        """The token at [sample, slot], in the run's own table of parts, which is not filled up."""
        return [Places.of(rows, parts) for rows, parts in zip(self.slot_part, self.parts_by_run, strict=True)]

    @cached_property
    def is_slot(self) -> Float[Tensor, "sample query slot"]:
        """1 where a place holds the token of a slot, and a row of zeros; runs and samples are counted through."""
        slots = self.slot_part.shape[2]
        at_places = F.one_hot(self.slot, slots + 1)[..., :slots].flatten(0, 1)
        return F.pad(at_places, (0, 0, 0, 1)).float()

    def _in_parts(self, rows: Int[Tensor, "run *rest"], terms: int = 1) -> Places:
        return Places.of(_counted_on(rows, self.parts), len(rows) * self.parts, terms)

    def some(self, samples: Int[Tensor, "run some"]) -> StringRows:
        """Those samples of each run, with their own distinct rows."""
        chosen = self.strings.gather(1, samples[:, :, None].expand(-1, -1, self.strings.shape[2]))
        return string_rows(chosen)

    def of_runs(self, runs: Int[Tensor, "kept"]) -> StringRows:
        """The rows of some runs."""
        of_all_runs = {"fixed"}
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in of_all_runs}
        return replace(self, **{name: tensor[runs] for name, tensor in own.items()})


def string_rows(strings: Int[Tensor, "run sample place"]) -> StringRows:
    numbers, places = strings.numpy(), strings.shape[2]
    same = (numbers == numbers[:, :1]).all(axis=(0, 1))
    same[0] &= not same.all()  # some place is free
    free, fixed = np.flatnonzero(~same), np.flatnonzero(same)
    token, free_row = _distinct(numbers[:, :, free])
    zero, free_part = places + 1, free_row + places + 2
    token_part = np.full(numbers.shape, zero)
    token_part[:, :, free] = free_part
    pair, pair_row = _distinct(token_part * places + np.arange(places))
    slot_part, free_slot = _slots(free_part, zero)
    slot = np.full(numbers.shape, slot_part.shape[2])
    slot[:, :, free] = free_slot
    as_torch = torch.from_numpy
    return StringRows(
        strings,
        fixed=as_torch(fixed),
        fixed_token=as_torch(numbers[:, 0, fixed]),
        token=as_torch(token),
        token_count=as_torch(free_row.max(axis=(1, 2)) + 1),
        token_part=as_torch(token_part),
        pair=as_torch(np.stack([pair // places, pair % places], axis=-1)),
        pair_row=as_torch(pair_row),
        slot_part=as_torch(slot_part),
        slot=as_torch(slot),
    )


def _distinct(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct numbers of every run, and the place of each number among them."""
    found = [np.unique(of_run, return_inverse=True) for of_run in numbers]
    most = max(len(distinct) for distinct, _ in found)
    distinct = np.stack([np.pad(one, (0, most - len(one)), constant_values=one[0]) for one, _ in found])
    return distinct, np.stack([place.reshape(numbers.shape[1:]) for _, place in found])


def _slots(numbers: np.ndarray, filling: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct numbers along the last axis, filled up, and the place of each number among them."""
    order = np.argsort(numbers, axis=-1)
    ordered = np.take_along_axis(numbers, order, axis=-1)
    rank = np.diff(ordered, axis=-1, prepend=ordered[..., :1]).astype(bool).cumsum(axis=-1)
    distinct = np.full((*numbers.shape[:-1], rank.max() + 1), filling)
    np.put_along_axis(distinct, rank, ordered, axis=-1)
    place = np.empty_like(rank)
    np.put_along_axis(place, order, rank, axis=-1)
    return distinct, place


def _counted_on(rows: Int[Tensor, "run *rest"], each: int) -> Int[Tensor, "run *rest"]:
    """Rows of each run's table as rows of all tables, one behind the other."""
    return rows + each * torch.arange(len(rows)).view(-1, *[1] * (rows.ndim - 1))


def require_fitting(strings: Int[Tensor, "run sample position"], tokens: int, length: int) -> None:
    """Refuse strings that a network of so many tokens and positions cannot read."""
    require(strings.numel() > 0, "There must be at least one string; got none.")
    least, most = int(strings.min()), int(strings.max())
    unknown = least if least < 0 else most
    require(0 <= unknown < tokens, f"The strings hold token {unknown}; the network knows 0 to {tokens - 1}.")
    require_length(strings, length)


def require_length(strings: Int[Tensor, "*rest position"], length: int) -> None:
    require(strings.shape[-1] == length, f"Strings have {strings.shape[-1]} tokens; the network reads {length}.")


class _LookUp(torch.autograd.Function):
    """Sums of rows of a table."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, places: Places) -> Tensor:
        ctx.places = places
        if places.terms == 1:
            return F.embedding(places.place, table)
        return F.embedding_bag(places.place.view(-1, places.terms), table, mode="sum")

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = gradients
        return ctx.places.added_up(gradient), None


def look_up(table: Tensor, places: Places) -> Tensor:
    """Rows of a table whose leading axes are counted through."""
    found: Tensor = _LookUp.apply(table.reshape(-1, table.shape[-1]), places)
    return found
