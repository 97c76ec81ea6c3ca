"""One run's share of stacked tensors, by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from torch import Tensor


def by_run(**stacked: Tensor | Sequence[Any]) -> Iterator[SimpleNamespace]:
    """Each run's entries of what is given, under the same names.

    Entries of a tensor come as NumPy arrays in the same memory, without gradients.
    """
    columns = [values.detach().numpy() if isinstance(values, Tensor) else values for values in stacked.values()]
    for of_run in zip(*columns, strict=True):
        yield SimpleNamespace(**dict(zip(stacked, of_run, strict=True)))
