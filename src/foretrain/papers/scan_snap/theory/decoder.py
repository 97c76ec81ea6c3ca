"""Section 4 and appendix D: growth of the decoder, and the speed it gives to attention."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import wrightomega

from foretrain.errors import require

Array = NDArray[np.float64]


def decoder_growth(t: ArrayLike, *, eta_y: ArrayLike, vocab: ArrayLike) -> Array:
    """Lemma 6, eq. 45: h(t) with e^{Mh} + (M−1)Mh = Mη_Y·t + 1 and h(0) = 0.

    With u = Mh and a = (Mη_Y·t + 1)/(M − 1):  u = a − ω(a − ln(M − 1)), ω the Wright omega function.
    """
    t, eta_y, M = _checked(t, eta_y, vocab)
    a = (M * eta_y * t + 1) / (M - 1)
    u = a - np.real(wrightomega(a - np.log(M - 1)))
    for _ in range(2):  # Newton: where a is large, the difference above has lost digits that the equation still has
        e = np.expm1(u)
        u = u - (e + (M - 1) * u - M * eta_y * t) / (e + M)
    return u / M


def _checked(t: ArrayLike, eta_y: ArrayLike, vocab: ArrayLike) -> tuple[Array, Array, Array]:
    t, eta_y, vocab = (np.asarray(x, dtype=np.float64) for x in (t, eta_y, vocab))
    require(bool(np.all(t >= 0)), f"t must not be negative; its smallest value is {np.min(t):g}.")
    require(bool(np.all((eta_y > 0) & np.isfinite(eta_y))), "eta_y must be a finite number above 0.")
    require(bool(np.all(vocab >= 2)), f"vocab must be at least 2; got {np.min(vocab):g}.")
    return t, eta_y, vocab
