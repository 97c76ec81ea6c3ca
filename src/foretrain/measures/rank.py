from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from array_api_compat import array_namespace, is_numpy_array, is_torch_array
from torch import Tensor

from foretrain.core.errors import require
from foretrain.core.streams import torch_stream
from foretrain.measures import lanczos
from foretrain.measures.entropy import entropy
from foretrain.measures.matrices import LARGE, plain_arithmetic, prepare


def stable_rank(matrix: Any) -> Any:
    """‖A‖_F² / ‖A‖₂² over the last two axes: the sum of the squared singular values divided by the largest square.

    Between 1 and the rank, and insensitive to small singular values. This is neither the effective rank, which is the
    exponential of an entropy, nor the numerical rank, which is a count. It is nan for a zero matrix, and for one with
    an entry that is infinite or not a number.

    It comes from all singular values, unless both sides are 256 or longer: then a Lanczos iteration finds the largest
    one, and the result is within 1e-3 of the exact one. A torch tensor that requires a gradient gets the exact result.
    """
    _check(matrix)
    if min(matrix.shape[-2:]) >= LARGE and _fits_lanczos(matrix):
        return _of_large(matrix)
    squares = _singular_values(matrix) ** 2
    xp = array_namespace(squares)
    with np.errstate(invalid="ignore"):
        return xp.sum(squares, axis=-1) / xp.max(squares, axis=-1)


def effective_rank(matrix: Any) -> Any:
    """exp(entropy(σ/Σσ)) of the singular values σ (Roy and Vetterli 2007), over the last two axes.

    Between 1 and the rank. It uses the singular values themselves, not their squares as the stable rank does. It is nan
    for a zero matrix, and for one with an entry that is infinite or not a number.
    """
    _check(matrix)
    values = _singular_values(matrix)
    return array_namespace(values).exp(entropy(values))


def _check(matrix: Any) -> None:
    shape = list(matrix.shape)
    require(len(shape) >= 2 and min(shape[-2:]) > 0, f"The last two axes must be a matrix with entries; got {shape}.")


def _singular_values(matrix: Any) -> Any:
    xp = array_namespace(matrix)
    matrix = 1.0 * matrix  # integers become floats
    if matrix.dtype.itemsize < 4:
        matrix = xp.astype(matrix, xp.float32)  # no library has an SVD in half precision
    finite = xp.all(xp.isfinite(matrix), axis=(-2, -1), keepdims=True)
    values = xp.linalg.svdvals(xp.where(finite, matrix, 0.0))  # libraries differ in what they do with nan
    return xp.where(finite[..., 0], values, xp.nan)


def _fits_lanczos(matrix: Any) -> bool:
    if is_torch_array(matrix):
        return not matrix.is_complex() and not (matrix.requires_grad and torch.is_grad_enabled())
    return is_numpy_array(matrix) and matrix.dtype.kind in "fiu"


def _of_large(matrix: Any) -> Any:
    """The stable rank of each matrix, one after the other."""
    if is_numpy_array(matrix):
        wide = np.array(matrix, dtype=np.result_type(matrix.dtype, np.float32), copy=None, order="C")
        return _of_large(torch.from_numpy(wide if wide.flags.writeable else wide.copy())).numpy()[()]
    with plain_arithmetic(matrix.device):
        ranks = [_of_one(one) for one in matrix.reshape(-1, *matrix.shape[-2:])]
        kind = matrix.dtype if matrix.dtype in (torch.float32, torch.float64) else torch.float32
        return torch.tensor(ranks, dtype=kind, device=matrix.device).reshape(matrix.shape[:-2])


def _of_one(matrix: Tensor) -> float:
    if not torch.isfinite(matrix).all():
        return math.nan
    prepared = prepare(matrix, "The matrix")
    if prepared.norm == 0:
        return math.nan
    top = lanczos.top(prepared.W, prepared.random(torch_stream("measures/spectra")))
    square = top.square if top.converged else float(prepared.singular_values()[-1]) ** 2
    return prepared.norm**2 / square
