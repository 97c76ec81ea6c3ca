"""Looks up rows of tables, and adds up their gradients in an order that is fixed beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class RowIndex:
    """Which rows of a table to look up, and for the gradient the other way round: which look-ups used each row.

    Each look-up adds `terms` rows. Row i of the table is used by the look-ups users[user_start[i] : user_start[i + 1]].
    """

    rows: Int[Tensor, "entry"]  # flattened
    users: Int[Tensor, "entry"]
    user_start: Int[Tensor, "row"]
    terms: int = 1

    @classmethod
    def of(cls, rows: Int[Tensor, "..."], table_rows: int, terms: int = 1) -> RowIndex:
        flat = rows.flatten()
        counts = torch.bincount(flat, minlength=table_rows)
        return cls(flat, torch.argsort(flat, stable=True) // terms, counts.cumsum(0) - counts, terms)

    def add_up(self, gradient: Float[Tensor, "look_up a"]) -> Float[Tensor, "row a"]:
        """The gradient of the table, from the gradients of all look-ups."""
        return F.embedding_bag(self.users, gradient, self.user_start, mode="sum")


class _LookUp(torch.autograd.Function):
    """Rows of a table, or sums of them."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: RowIndex) -> Tensor:
        ctx.index = index
        if index.terms == 1:
            return F.embedding(index.rows, table)
        return F.embedding_bag(index.rows.view(-1, index.terms), table, mode="sum")

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = gradients
        return ctx.index.add_up(gradient), None


def look_up(tables: Tensor, index: RowIndex) -> Tensor:
    """Rows of the tables of all runs, stacked into one table: [look-up, column]."""
    rows: Tensor = _LookUp.apply(tables.reshape(-1, tables.shape[-1]), index)
    return rows
