"""K_attn and K_trans (eq. 4): kernels of an infinitely wide transformer layer, exact, by equality pattern.

K_attn(x, y) = E[ smax(βm(x))ᵀ (XYᵀ + γ²I) smax(βm(y)) ],  m(x)_i = ζ_{x_i} + γp_i with the same Gaussian ζ
(per token) and p (per position) for both strings.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache

import numpy as np

from foretrain.errors import require, require_at_least
from foretrain.kernels.activations import Activation, activation_named
from foretrain.kernels.contraction import contract
from foretrain.kernels.patterns import components, pair_patterns
from foretrain.kernels.quadrature import Array, grid

String = Sequence[Hashable]


def attention_kernel(x: String, y: String, *, beta: float, gamma: float, identity: float = 0.0) -> float:
    """K_attn of two sequences of tokens; a str is its characters, a CLS is a last token that both share."""
    return float(attention_matrix([x], [y], beta=beta, gamma=gamma, identity=identity)[0, 0])


def attention_matrix(
    X: Sequence[String], Y: Sequence[String], *, beta: float, gamma: float, identity: float = 0.0
) -> Array:
    """K_attn of every x in X with every y in Y, each equality pattern computed once."""
    require_at_least("beta", beta, 0)
    require_at_least("gamma", gamma, 0)
    index, pairs = pair_patterns(X, Y)
    values: dict[tuple, float] = {}
    pieces = [components(x, y) for x, y in pairs]
    for piece in pieces:
        if piece not in values:
            values[piece] = _evaluate(piece, len(pairs[0][0]), beta, gamma, identity)
    return np.array([values[piece] for piece in pieces])[index]


def transformer_kernel(
    X: Sequence[String],
    Y: Sequence[String],
    *,
    beta: float,
    gamma: float,
    activation: str | Activation = "cosine",
    identity: float = 0.0,
) -> Array:
    """K_trans of every x in X with every y in Y: K_attn, then one infinitely wide MLP layer."""
    phi = activation_named(activation)
    between = attention_matrix(X, Y, beta=beta, gamma=gamma, identity=identity)
    own = [
        np.array([attention_kernel(s, s, beta=beta, gamma=gamma, identity=identity) for s in strings])
        for strings in (X, Y)
    ]
    return phi.expectation(own[0][:, None], own[1][None, :], between)


@lru_cache(maxsize=1 << 16)
def _evaluate(piece: tuple, length: int, beta: float, gamma: float, identity: float) -> float:
    if beta == 0 and identity == 0:
        ones = sum(_overlap(c) for c in piece)
        return (ones / length + gamma**2) / length
    nodes = grid(float(beta), float(gamma), length, abs(identity) * length, 1.0)
    parts = [contract(c, nodes, identity) for c in piece]
    total = np.zeros_like(parts[0][0])
    product = np.ones_like(total)
    for plain, marked in parts:  # the marks stand in exactly one component
        total, product = total * plain + product * marked, product * plain
    return float(total.sum()) * nodes.step**2


def _overlap(component: tuple) -> int:
    """1ᵀXYᵀ1 within a component."""
    tokens = {t for t, _, _ in component}
    return sum(
        sum(m for t, _, m in component if t == token) * sum(m for _, u, m in component if u == token)
        for token in tokens
    )
