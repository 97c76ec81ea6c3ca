"""Section 7: attention logits that are computed from embeddings, Z = U_Q A U_Kᵀ, instead of being free."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretrain.core.errors import as_floats, require

Array = NDArray[np.float64]


def shared_logit_speed(gradient: ArrayLike, query: ArrayLike, context: ArrayLike) -> Array:
    """Section 7, "Self-attention computed from embedding": how fast Z = U_QᵀAU_C moves if A is what is trained.

    Ż = (U_QᵀU_Q)·G·(U_CᵀU_C), where G [..., query, context] is the speed of a free Z; embeddings are columns. With
    orthonormal embeddings Ż = G. A token takes over the speed of every other in proportion to their inner product.
    """
    G, U_Q, U_C = as_floats("gradient", gradient), as_floats("query", query), as_floats("context", context)
    fits = G.ndim >= 2 and G.shape[-2:] == (U_Q.shape[-1], U_C.shape[-1]) and U_Q.shape[-2] == U_C.shape[-2]
    require(
        fits,
        f"gradient must have a row per query and a column per context token; got {G.shape} for embeddings of shape "
        f"{U_Q.shape} and {U_C.shape}.",
    )
    return np.asarray(U_Q.swapaxes(-1, -2) @ U_Q @ G @ (U_C.swapaxes(-1, -2) @ U_C))
