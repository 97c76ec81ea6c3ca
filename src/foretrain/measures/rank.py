from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from foretrain.measures.entropy import entropy


def stable_rank(matrix: Any) -> Any:
    """‖A‖_F² / ‖A‖₂² over the last two axes: the sum of the squared singular values divided by the largest square.

    Between 1 and the rank, and insensitive to small singular values. This is neither the effective rank, which is the
    exponential of an entropy, nor the numerical rank, which is a count. It is nan for a zero matrix.
    """
    squares = _singular_values(matrix) ** 2
    xp = array_namespace(squares)
    with np.errstate(invalid="ignore"):
        return xp.sum(squares, axis=-1) / xp.max(squares, axis=-1)


def effective_rank(matrix: Any) -> Any:
    """exp(entropy(σ/Σσ)) of the singular values σ (Roy and Vetterli 2007), over the last two axes.

    Between 1 and the rank. It uses the singular values themselves, not their squares as the stable rank does. It is nan
    for a zero matrix.
    """
    values = _singular_values(matrix)
    return array_namespace(values).exp(entropy(values))


def _singular_values(matrix: Any) -> Any:
    xp = array_namespace(matrix)
    return xp.linalg.svdvals(1.0 * matrix)  # integers become floats
