"""One run's share of stacked tensors, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from torch import Tensor

Views = TypeVar("Views")


def by_run(views: Callable[..., Views], **stacked: Tensor | Sequence[Any]) -> list[Views]:
    """One `views` (a NamedTuple) per run, whose fields are the run's entries of what is given under their names.

    Entries of a tensor come as NumPy arrays in the same memory, without gradients.
    """
    columns = [values.detach().numpy() if isinstance(values, Tensor) else values for values in stacked.values()]
    return [views(**dict(zip(stacked, of_run, strict=True))) for of_run in zip(*columns, strict=True)]
