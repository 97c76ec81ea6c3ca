from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace


def entropy(weights: Any, axis: int = -1, *, normalize: bool = True) -> Any:
    """Shannon entropy in nats of non-negative weights along `axis`; 0·ln 0 is 0.

    `normalize` divides the weights by their sum first. Weights that sum to 0 have no distribution: nan.
    """
    xp = array_namespace(weights)
    if normalize:
        weights = weights / xp.sum(weights, axis=axis, keepdims=True)
    positive = weights > 0
    logs = xp.log(xp.where(positive, weights, xp.ones_like(weights)))
    return -xp.sum(xp.where(weights == 0, xp.zeros_like(weights), weights * logs), axis=axis)
