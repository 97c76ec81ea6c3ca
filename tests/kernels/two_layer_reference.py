"""A transformer of two layers at finite width, with random weights: what the two-layer kernel is the limit of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import softmax

from foretrain.kernels.activations import KernelActivation

Array = np.ndarray


def sampled_distances(
    strings: Sequence[Sequence[int]],
    *,
    identity: float,
    gamma: float,
    phi: KernelActivation,
    width: int,
    draws: int,
    beta: float = 0.0,
    second: float = 0.0,
    heads: int = 4,
    seed: int = 0,
) -> tuple[Array, Array]:
    """K(x, x) + K(y, y) − 2K(x, y) of the last MLP's neurons: mean over `draws` random networks, and standard error.

    These distances are what a regression sees; K itself varies much more from network to network, by a common amount.

    beta    standard deviation of the random part of the logits, which the kernel leaves out
    second  a of the second layer, where it is the logit of [CLS] for itself; the kernel leaves it out too
    """
    rng = np.random.default_rng(seed)
    distances = []
    for _ in range(draws):
        features = _features(np.asarray(strings), identity, gamma, phi, width, beta, second, heads, rng)
        distances.append(distances_of(features @ features.T / width))
    return np.mean(distances, axis=0), np.std(distances, axis=0, ddof=1) / np.sqrt(draws)


def distances_of(gram: Array) -> Array:
    """Squared distances of features from their products."""
    return np.asarray(np.diag(gram)[:, None] + np.diag(gram) - 2 * gram)


def _features(
    strings: Array, a: float, gamma: float, phi: KernelActivation, d: int, beta: float, second: float, heads: int,
    rng: np.random.Generator,
) -> Array:  # fmt: skip
    def layer(rows: Array, activated: bool) -> Array:
        mixed = rows @ rng.standard_normal((d, d)) / np.sqrt(d)
        return np.asarray(phi(mixed) if activated else mixed)

    tokens, positions = rng.standard_normal((strings.max() + 1, d)), rng.standard_normal((strings.shape[1], d))
    x = tokens[strings] + gamma * positions  # [string, position, d]
    equal = (strings[:, :, None] == strings[:, None, :]).astype(float)
    attended = np.zeros_like(x)
    for head in range(heads):
        logits = (a if head % 2 else -a) * equal + beta * _scores(x, x, rng)
        attended += layer(softmax(logits, axis=2) @ x, activated=False) / np.sqrt(heads)
    x = layer((x + attended) / np.sqrt(2), activated=True) / np.sqrt(float(phi.expectation(1.0, 1.0, 1.0)))
    pooled = np.zeros((len(x), d))
    for head in range(heads):  # W_V·W_O of the second layer, which changes no covariance
        logits = (second if head % 2 else -second) * equal[:, -1:] + beta * _scores(x[:, -1:], x, rng)
        weights = softmax(logits, axis=2)
        pooled += layer((weights @ x)[:, 0], activated=False) / np.sqrt(heads)
    return layer(pooled, activated=True)


def _scores(queries: Array, rows: Array, rng: np.random.Generator) -> Array:
    """Random attention logits of standard deviation 1 for rows of size 1."""
    d = rows.shape[2]
    return np.asarray(queries @ rng.standard_normal((d, d)) @ rows.mT / d)
