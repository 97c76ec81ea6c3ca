"""Kernels of the architectures that a forecast compares: transformer, transformer + a·I, MLP, MLP + XXᵀ."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray as Array

from foretrain.core.errors import require_at_least, require_known
from foretrain.kernels.activations import KernelActivation, activation_named
from foretrain.kernels.attention import default_tolerance, transformer_kernel, transformer_matrix
from foretrain.kernels.regression import Kernel
from foretrain.kernels.two_layers import ACCURACY, two_layer_kernel

TRANSFORMER, TRANSFORMER_AI, MLP, MLP_XX = "transformer", "transformer + aI", "MLP", "MLP + XXᵀ"
ARCHITECTURES = (TRANSFORMER, TRANSFORMER_AI, MLP, MLP_XX)
IDENTITY = (
    8.0  # a: attention is then all but one-sided, and a larger a changes little. Training reaches it in few steps
)


def mlp_kernel(
    X: Int[Array, "x position"],
    Y: Int[Array, "y position"],
    *,
    activation: str | KernelActivation = "cosine",
    relations: float = 0.0,
) -> Float[Array, "x y"]:
    """Remark I.6: an infinitely wide layer on one-hot tokens, κ(Σ 1(x_i = y_i)/k).

    The input also gets `relations` times vec(XXᵀ), which tells which positions of a string are equal (Fig 25).
    """
    require_at_least("relations", relations, 0)
    k = X.shape[1]
    # Position by position, to use no more memory than one matrix.
    covariance = np.zeros((len(X), len(Y)))
    for x, y in zip(X.T, Y.T, strict=True):
        covariance += x[:, None] == y
    covariance /= k
    inside = [(Z[:, :, None] == Z[:, None, :]).reshape(len(Z), -1).astype(np.float64) for Z in (X, Y)]
    covariance += relations**2 / k * (inside[0] @ inside[1].T)
    variances = [1 + relations**2 / k * rows.sum(axis=1) for rows in inside]
    return activation_named(activation).expectation(variances[0][:, None], variances[1][None, :], covariance)


def architecture_kernel(
    name: str,
    *,
    beta: float = 1.0,
    gamma: float = 1.0,
    activation: str | KernelActivation = "cosine",
    identity: float = IDENTITY,
    relations: float = 1.0,
    seconds: float | None = None,
) -> Kernel:
    """The kernel of one architecture.

    beta       inverse temperature of the plain transformer's attention
    identity   a of a·XXᵀ in the attention logits of a transformer with a·I (see `foretrain.kernels.two_layers`)
    relations  the multiple of XXᵀ that an MLP with XXᵀ gets
    seconds    a value of the plain transformer's kernel that would take longer than about this is sampled instead
    """
    require_known("architecture", name, ARCHITECTURES)
    if name in (MLP, MLP_XX):
        return partial(mlp_kernel, activation=activation, relations=relations if name == MLP_XX else 0.0)
    if name == TRANSFORMER_AI:
        return partial(two_layer_kernel, identity=identity, gamma=gamma, activation=activation)
    return partial(_transformer, beta=beta, gamma=gamma, activation=activation, seconds=seconds)


def kernel_accuracy(name: str, *, beta: float) -> float:
    """A bound on the error of `architecture_kernel`: rounding, or for a plain transformer three times that of K_attn.

    Three times, because K needs one covariance and two variances. It holds if no pattern of tokens has to be sampled;
    if some are, add `sampling_error`.
    """
    return 3 * default_tolerance(beta) if name == TRANSFORMER else ACCURACY


def sampling_error(name: str, X: Int[Array, "x position"], Y: Int[Array, "y position"], **constants: Any) -> float:
    """A bound on the error of the kernel values of X with Y that had to be sampled; 0 if none had to.

    constants  beta, gamma, activation and seconds
    """
    if name != TRANSFORMER:
        return 0.0
    matrix = transformer_matrix(X.tolist(), Y.tolist(), **constants)
    return float(matrix.errors.max()) if matrix.sampled else 0.0


def _transformer(X: Int[Array, "x position"], Y: Int[Array, "y position"], **constants: Any) -> Float[Array, "x y"]:
    return transformer_kernel(X.tolist(), Y.tolist(), **constants)
