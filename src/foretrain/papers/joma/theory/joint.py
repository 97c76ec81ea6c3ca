"""Section 3: attention logits as a function of the MLP's lower weights (Theorem 1).

`v` has the hidden nodes and the context tokens on its last two axes, v[..., k, l] = u_l·w_k; logits have the
tokens on their last axis. `constant` is the c of the theorem: 0 from a zero start, otherwise whatever fits the start.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretrain.core.errors import as_floats, require

Array = NDArray[np.float64]


def attention_from_mlp_linear(v: ArrayLike, constant: ArrayLike = 0.0, sign: ArrayLike = 1.0) -> Array:
    """Theorem 1, linear attention: z² = Σ_k v_k² + c.

    The invariant gives the size of z; `sign` gives its sign, which the flow does not change where c > 0.
    """
    squares = _sum_of_squares(v) + as_floats("constant", constant)
    smallest = float(np.min(squares, initial=np.inf))
    require(smallest >= 0, f"Σ_k v_k² + constant is z² and cannot be negative; its smallest value is {smallest:g}.")
    return np.asarray(np.sign(sign) * np.sqrt(squares))


def attention_from_mlp_exp(v: ArrayLike, constant: ArrayLike = 0.0) -> Array:
    """Theorem 1, exp attention: z = ½Σ_k v_k² + c."""
    return 0.5 * _sum_of_squares(v) + as_floats("constant", constant)


def attention_from_mlp_softmax(v: ArrayLike, mean_attention: ArrayLike, constant: ArrayLike = 0.0) -> Array:
    """Theorem 1, softmax attention, eq. 18: z = ½Σ_k (v_k² − ‖v_k‖²·b̄) + c, with b̄ = E[b] constant in time."""
    squares, mean_attention = _sum_of_squares(v), as_floats("mean_attention", mean_attention)
    total = squares.sum(axis=-1, keepdims=True)  # Σ_k ‖v_k‖²
    return 0.5 * (squares - total * mean_attention) + as_floats("constant", constant)


def weights_from_parts(
    start: ArrayLike, v_change: ArrayLike, bias: ArrayLike, context: ArrayLike, query: ArrayLike
) -> Array:
    """Appendix A.4, eq. 60: w(t) = w(0) + U_C(v(t) − v(0)) + Σ_m u_mξ_m(t), with ξ_m(t) = ∫E_m[g_h h′].

    `start` is w(0) [..., dimension], `v_change` [..., context], `bias` ξ [..., query]; `context` U_C and `query` have
    an orthonormal embedding in each column. The text below Fig 10 prints −ξ; this sign is the one that training has.
    """
    start, moved, bias = as_floats("start", start), as_floats("v_change", v_change), as_floats("bias", bias)
    U_C, U_Q = as_floats("context", context), as_floats("query", query)
    return np.asarray(start + moved @ U_C.T + bias @ U_Q.T)


def _sum_of_squares(v: ArrayLike) -> Array:
    v = as_floats("v", v)
    require(v.ndim >= 2, f"v must have hidden nodes and tokens on its last two axes; it has {v.ndim} axis.")
    return np.asarray((v**2).sum(axis=-2))
