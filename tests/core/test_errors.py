"""Checks of input that several modules share."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest

from foretrain.core.errors import InputError, require_distinct


@pytest.mark.parametrize(
    "values", [(1, 2, 1.0), (True, 1), ("a", "b", "a"), ([1], [2], [1]), (math.nan, 1.0, np.float32("nan"))]
)
def test_repeated_values_are_refused(values: tuple[Any, ...]) -> None:
    with pytest.raises(InputError, match="x must not repeat a value"):
        require_distinct("x", values)


def test_different_values_are_not() -> None:
    require_distinct("x", (1, "1", "NaN", math.nan, ("NaN",), [1], [2], None, 0.5))


def test_many_values_take_no_time() -> None:
    start = time.perf_counter()
    require_distinct("x", list(np.linspace(0, 1, 30_000)))
    assert time.perf_counter() - start < 1
