from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace


def normalized_correlation(first: Any, second: Any, axis: int = -1) -> Any:
    """Pearson's r: the cosine of the two arrays after each is centred along `axis`. Between −1 and 1.

    It is nan if one of them does not vary along `axis`.
    """
    xp = array_namespace(first, second)
    first, second = 1.0 * first, 1.0 * second  # integers become floats
    first = first - xp.mean(first, axis=axis, keepdims=True)
    second = second - xp.mean(second, axis=axis, keepdims=True)
    products = xp.sum(first * second, axis=axis)
    with np.errstate(invalid="ignore"):
        return products / xp.sqrt(xp.sum(first**2, axis=axis) * xp.sum(second**2, axis=axis))
