from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from foretrain.measures.entropy import entropy


def stable_rank(matrix: Any) -> Any:
    """‖A‖_F² / ‖A‖₂²: the sum of squared singular values over the largest one, of the last two axes.

    Between 1 and the rank; insensitive to small singular values. Not the effective rank, which is an
    exponential of an entropy, nor the numerical rank, which counts. A zero matrix has none: nan.
    """
    squares = _singular_values(matrix) ** 2
    xp = array_namespace(squares)
    with np.errstate(invalid="ignore"):
        return xp.sum(squares, axis=-1) / xp.max(squares, axis=-1)


def effective_rank(matrix: Any) -> Any:
    """exp(entropy(σ/Σσ)) over the singular values σ (Roy and Vetterli 2007), of the last two axes.

    Between 1 and the rank; uses the singular values themselves, not their squares. Not the stable rank.
    A zero matrix has none: nan.
    """
    values = _singular_values(matrix)
    return array_namespace(values).exp(entropy(values))


def _singular_values(matrix: Any) -> Any:
    xp = array_namespace(matrix)
    return xp.linalg.svdvals(1.0 * matrix)  # whole numbers become floats
