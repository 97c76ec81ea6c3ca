"""Strings by their distinct rows: what depends only on a token and its place is computed once, then looked up.

Words used in this package:

    place  a position of a string, the CLS token included
    fixed  of a place: all samples of a run have the same token there (CLS, or a word of the template). Others are free
    part   the input of the first layer is a token's embedding plus a place's embedding: its two parts. A table of parts
           has a row per place, a row for what a normalisation adds to every input, a row of zeros, and a row per
           distinct token. At a fixed place the token is added to the place's row, and the row of zeros is its token
    pair   a distinct combination of a token and a place
    slot   a distinct token of one string at its free places
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from foretrain.models.stacked.row_index import RowIndex


@dataclass(frozen=True)
class DistinctRows:
    """The strings of every run by the run's distinct tokens and pairs.

    Runs with fewer tokens or pairs than others are padded with their first element, strings with fewer slots with the
    row of zeros.
    """

    strings: Int[Tensor, "run sample place"]
    fixed_places: Int[Tensor, "fixed"]
    fixed_tokens: Int[Tensor, "run fixed"]
    tokens: Int[Tensor, "run token"]  # at free places
    token_counts: Int[Tensor, "run"]  # without padding
    token_part: Int[Tensor, "run sample place"]  # row of the token in a table of parts; at fixed places the zeros
    pairs: Int[Tensor, "run pair 2"]  # row of the token in a table of parts, and the place
    pair_at: Int[Tensor, "run sample place"]
    slot_part: Int[Tensor, "run sample slot"]  # row of the slot's token in a table of parts
    slot_at: Int[Tensor, "run sample place"]  # at fixed places one past the last slot

    @property
    def part_count(self) -> int:
        """Rows of a table of parts."""
        return self.pair_at.shape[2] + 2 + self.tokens.shape[1]

    @cached_property
    def part_counts(self) -> list[int]:
        """Rows of each run's table of parts, without padding."""
        return (self.pair_at.shape[2] + 2 + self.token_counts).tolist()

    @cached_property
    def pair_index(self) -> RowIndex:
        """The pair at [run, sample, place], in a table [run, pair]."""
        runs, pairs = self.pairs.shape[:2]
        return RowIndex.of(_in_stacked_tables(self.pair_at, pairs), runs * pairs)

    @cached_property
    def pair_parts_index(self) -> RowIndex:
        """The token and the place of every pair, in tables of parts."""
        return self._in_parts(self.pairs, terms=2)

    @cached_property
    def query_parts_index(self) -> RowIndex:
        """The token and the place at [run, sample, place], in tables of parts.

        After the last place comes one more query: the row of the normalisation, and the row of zeros.
        """
        places = self.token_part.shape[2]
        at_places = torch.stack([self.token_part, torch.arange(places).expand_as(self.token_part)], dim=-1)
        one_more = torch.tensor([places, places + 1]).expand(*at_places.shape[:2], 1, 2)
        return self._in_parts(torch.cat([at_places, one_more], dim=2), terms=2)

    @cached_property
    def slot_index(self) -> RowIndex:
        """The token at [run, sample, slot], in tables of parts."""
        return self._in_parts(self.slot_part)

    @cached_property
    def slot_index_by_run(self) -> list[RowIndex]:
        """The token at [sample, slot], in each run's own table of parts, without padding."""
        return [RowIndex.of(rows, count) for rows, count in zip(self.slot_part, self.part_counts, strict=True)]

    @cached_property
    def has_slot(self) -> Float[Tensor, "run_and_sample query slot"]:
        """1 where a place has the token of a slot; a row of zeros after the last place, for one more query."""
        slots = self.slot_part.shape[2]
        at_places = F.one_hot(self.slot_at, slots + 1)[..., :slots].flatten(0, 1)
        return F.pad(at_places, (0, 0, 0, 1)).float()

    def _in_parts(self, rows: Int[Tensor, "run *rest"], terms: int = 1) -> RowIndex:
        return RowIndex.of(_in_stacked_tables(rows, self.part_count), len(rows) * self.part_count, terms)

    def select_samples(self, samples: Int[Tensor, "run chosen"]) -> DistinctRows:
        """Keep these samples of each run, with the distinct rows they have."""
        return distinct_rows(self.strings.gather(1, samples[:, :, None].expand(-1, -1, self.strings.shape[2])))

    def select_runs(self, runs: Int[Tensor, "kept"]) -> DistinctRows:
        """Keep these runs, with their padding."""
        tensors = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "fixed_places"}
        return replace(self, **{name: tensor[runs] for name, tensor in tensors.items()})


def distinct_rows(strings: Int[Tensor, "run sample place"]) -> DistinctRows:
    """Find the distinct tokens, pairs and slots of strings."""
    numbers, places = strings.numpy(), strings.shape[2]
    is_fixed = (numbers == numbers[:, :1]).all(axis=(0, 1))  # [place]
    is_fixed[0] &= not is_fixed.all()  # at least one place is free
    free, fixed = np.flatnonzero(~is_fixed), np.flatnonzero(is_fixed)
    tokens, token_row = _distinct(numbers[:, :, free])  # [run, token], [run, sample, free]
    zero_part, free_part = places + 1, token_row + places + 2
    token_part = np.full(numbers.shape, zero_part)  # [run, sample, place]
    token_part[:, :, free] = free_part
    pairs, pair_at = _distinct(token_part * places + np.arange(places))  # [run, pair], [run, sample, place]
    slot_part, free_slot = _distinct_along_last_axis(free_part, zero_part)  # [run, sample, slot], [run, sample, free]
    slot_at = np.full(numbers.shape, slot_part.shape[2])  # [run, sample, place]
    slot_at[:, :, free] = free_slot
    as_torch = torch.from_numpy
    return DistinctRows(
        strings,
        fixed_places=as_torch(fixed),
        fixed_tokens=as_torch(numbers[:, 0, fixed]),
        tokens=as_torch(tokens),
        token_counts=as_torch(token_row.max(axis=(1, 2)) + 1),
        token_part=as_torch(token_part),
        pairs=as_torch(np.stack([pairs // places, pairs % places], axis=-1)),
        pair_at=as_torch(pair_at),
        slot_part=as_torch(slot_part),
        slot_at=as_torch(slot_at),
    )


def _distinct(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct numbers of every run, padded with their first, and the index of each number among them."""
    by_run = [np.unique(of_run, return_inverse=True) for of_run in numbers]
    most = max(len(distinct) for distinct, _ in by_run)
    padded = [np.pad(distinct, (0, most - len(distinct)), constant_values=distinct[0]) for distinct, _ in by_run]
    return np.stack(padded), np.stack([index.reshape(numbers.shape[1:]) for _, index in by_run])


def _distinct_along_last_axis(numbers: np.ndarray, padding: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct numbers along the last axis, padded, and the index of each number among them."""
    order = np.argsort(numbers, axis=-1)
    ordered = np.take_along_axis(numbers, order, axis=-1)
    rank = np.diff(ordered, axis=-1, prepend=ordered[..., :1]).astype(bool).cumsum(axis=-1)
    distinct = np.full((*numbers.shape[:-1], rank.max() + 1), padding)
    np.put_along_axis(distinct, rank, ordered, axis=-1)
    index = np.empty_like(rank)
    np.put_along_axis(index, order, rank, axis=-1)
    return distinct, index


def _in_stacked_tables(rows: Int[Tensor, "run *rest"], table_rows: int) -> Int[Tensor, "run *rest"]:
    """Rows of each run's own table as rows of all runs' tables, stacked into one."""
    return rows + table_rows * torch.arange(len(rows)).view(-1, *[1] * (rows.ndim - 1))
