"""What a network takes and returns: rows as one tensor or as a dictionary of tensors, outputs as one tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from foretrain.core.errors import require

Inputs = Tensor | Mapping[str, Any]  # rows of a batch; a dictionary is passed by name


def checked_inputs(name: str, rows: Inputs) -> Tensor | dict[str, Tensor]:
    """Rows as a tensor or a plain dictionary of tensors that agree on how many there are; at least one."""
    if isinstance(rows, Tensor):
        require(rows.ndim >= 1 and len(rows) >= 1, f"{name} must have at least one row; its shape is {_shape(rows)}.")
        return rows
    require(
        isinstance(rows, Mapping) and len(rows) >= 1,
        f"{name} must be a tensor of rows, or a dictionary of tensors by the names of the network's arguments; "
        f"got {type(rows).__name__}.",
    )
    for key, value in rows.items():
        require(
            isinstance(value, Tensor) and value.ndim >= 1,
            f"{name}[{key!r}] must be a tensor with one row per input; got {type(value).__name__}. "
            "For a Hugging Face tokenizer pass return_tensors='pt'.",
        )
    lengths = {key: len(value) for key, value in rows.items()}
    require(
        len(set(lengths.values())) == 1 and min(lengths.values()) >= 1,
        f"The tensors of {name} must have the same number of rows, at least one; got {lengths}.",
    )
    return dict(rows)


def row_count(rows: Inputs) -> int:
    return len(rows) if isinstance(rows, Tensor) else len(next(iter(rows.values())))


def split_rows(rows: Inputs, chunk: int | None) -> list[Any]:
    """The rows in pieces of at most `chunk`; all in one piece, the very same object, if they fit."""
    count = row_count(rows)
    if chunk is None or chunk >= count:
        return [rows]
    starts = range(0, count, chunk)
    if isinstance(rows, Tensor):
        return [rows[i : i + chunk] for i in starts]
    return [{key: value[i : i + chunk] for key, value in rows.items()} for i in starts]


def each_row(rows: Inputs) -> Iterator[Any]:
    """Row by row, without the axis of rows."""
    for i in range(row_count(rows)):
        yield rows[i] if isinstance(rows, Tensor) else {key: value[i] for key, value in rows.items()}


def call_on(module: torch.nn.Module, rows: Inputs) -> Tensor:
    """The outputs of a module on a batch: [row, …]."""
    returned = module(rows) if isinstance(rows, Tensor) else module(**rows)
    return single_output(returned, row_count(rows))


def single_output(returned: Any, rows: int) -> Tensor:
    """The one tensor that a network returned, or its `logits`, as a Hugging Face model with a head has."""
    outputs = returned if isinstance(returned, Tensor) else getattr(returned, "logits", None)
    require(
        isinstance(outputs, Tensor),
        f"The network returns a {type(returned).__name__} without `logits`, so it is not clear what its outputs are; "
        "wrap it in a module that returns one tensor.",
    )
    assert isinstance(outputs, Tensor)
    require(
        outputs.ndim >= 1 and len(outputs) == rows,
        f"The network must return one row of outputs per row of inputs; it returned the shape {_shape(outputs)} for "
        f"{rows} rows.",
    )
    return outputs


def _shape(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))
