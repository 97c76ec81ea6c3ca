"""The attention kernel a second way: a trapezoid sum over differences of logits, with no integral for the softmax.

A softmax sees only differences of logits, so the expectation runs over a Gaussian of rank at most 2(length − 1), and at
most tokens − 1 without positions. The integrand is analytic within π/spread of the real axis, spread being how far one
standard deviation moves the logits of a string apart; the step follows from that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy.special import softmax

BLOCK = 20_000


@cache
def reference_kernel(
    x: Sequence[object], y: Sequence[object], beta: float, gamma: float, identity: float = 0.0, error: float = 1e-11
) -> float:
    """K_attn to about `error`, for pairs whose differences of logits span few dimensions."""
    k, tokens = len(x), list(dict.fromkeys([*x, *y]))
    logits = np.zeros((2, k, len(tokens) + k))  # of both strings, as linear functions of ζ and p
    for side, string in enumerate((x, y)):
        for i, token in enumerate(string):
            logits[side, i, tokens.index(token)] = beta
            logits[side, i, len(tokens) + i] = beta * gamma
    differences = (logits - logits[:, :1]).reshape(2 * k, -1)
    vectors, sizes, _ = np.linalg.svd(differences, full_matrices=False)
    along = (vectors * sizes)[:, sizes > 1e-12].reshape(2, k, -1)
    spreads = (along.max(axis=1) - along.min(axis=1)).max(axis=0)
    rules = [_trapezoid(math.pi / spread, error) for spread in spreads]
    product = np.array([[a == b for b in y] for a in x]) + gamma**2 * np.eye(k)
    added = [identity * np.array([string.count(t) for t in string]) for string in (list(x), list(y))]
    shape = [len(nodes) for nodes, _ in rules]
    total = 0.0
    for start in range(0, math.prod(shape), BLOCK):
        places = np.unravel_index(np.arange(start, min(start + BLOCK, math.prod(shape))), shape)
        normal = np.stack([rule[0][place] for rule, place in zip(rules, places, strict=True)])
        weights = np.prod([rule[1][place] for rule, place in zip(rules, places, strict=True)], axis=0)
        first, second = (softmax(normal.T @ along[side].T + added[side], axis=1) for side in (0, 1))
        total += float(weights @ ((first @ product) * second).sum(axis=1))
    return total


def _trapezoid(strip: float, error: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of a standard Gaussian for functions that are analytic within `strip` of the real axis.

    Moving the sum by w ≤ strip off the axis bounds its error by e^{w²/2 − 2πw/step}.
    """
    digits = math.log(10 / error)
    w = np.linspace(0.001, 1, 500) * min(strip, 20.0)
    step = float((2 * math.pi * w / (digits + w**2 / 2)).max())
    half = math.ceil(math.sqrt(2 * digits) / step)
    nodes = step * np.arange(-half, half + 1)
    weights = np.exp(-(nodes**2) / 2)
    return nodes, weights / weights.sum()
