from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace


def entropy(weights: Any, axis: int = -1, *, normalize: bool = True) -> Any:
    """Shannon entropy, in nats, of non-negative weights along `axis`; 0·ln 0 is 0.

    `normalize` divides the weights by their sum first. The result is nan if a weight is negative, or if the weights
    sum to 0 and cannot be normalised.
    """
    xp = array_namespace(weights)
    weights = xp.where(xp.any(weights < 0, axis=axis, keepdims=True), xp.nan, 1.0 * weights)
    with np.errstate(invalid="ignore", divide="ignore"):
        if normalize:
            weights = weights / xp.sum(weights, axis=axis, keepdims=True)
        zero = weights == 0
        terms = weights * xp.log(xp.where(zero, xp.ones_like(weights), weights))
    return -xp.sum(terms, axis=axis)
