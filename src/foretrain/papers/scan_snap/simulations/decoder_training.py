"""Training of the decoder alone, step by step, on features that do not move (Assumption 1c).

`features` are [class, token], for the tokens that occur: other rows of Y never move. The next token of class n is
label n. `order` is [run, step, batch]: the classes seen at each step of each run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy import ndarray as Array
from scipy.special import softmax

from foretrain.core.errors import require
from foretrain.papers.scan_snap import theory


def train_decoder(
    features: Array, order: Array, *, eta_y: float, vocab: int, save_at: Iterable[int], unmixed: bool = True
) -> Array:
    """Y after the steps `save_at`: [time, run, token, label].

    With `unmixed` it follows eq. 26 (Lemma 3), which moves each row of W = FᵀY by itself; otherwise eq. 7, the gradient
    of the loss.
    """
    times = list(save_at)
    runs, steps, _ = order.shape
    E = theory.overlaps(features)
    directions = (np.eye(len(E)) - theory.unmixing(E)) @ features if unmixed else features
    right = np.eye(len(features), vocab)
    Y = np.zeros((runs, features.shape[1], vocab))
    saved = {}
    for step in range(max(times) + 1):
        if step in times:
            saved[step] = Y.copy()
        if step < steps:
            n = order[:, step]
            error = right[n] - softmax(features[n] @ Y, axis=-1)  # [run, batch, label]
            Y += eta_y * np.swapaxes(directions[n], -1, -2) @ error
    return np.stack([saved[step] for step in times])


def equal_overlaps(classes: int, overlap: float) -> Array:
    """Features with all f_n·f_n' = overlap: one common token, and one distinct token per class."""
    return with_overlaps(np.full((classes, classes), overlap))


def paired_overlaps(classes: int, overlap: float) -> Array:
    """Features in which each class overlaps with one other class only."""
    require(classes % 2 == 0, f"classes must be even to be paired; got {classes}.")
    return with_overlaps(np.kron(np.eye(classes // 2), np.full((2, 2), overlap)))


def with_overlaps(table: Sequence[Sequence[float]] | Array) -> Array:
    """Features with f_n·f_n' = table[n, n']: one token per pair of classes that overlap, and a distinct one per class.

    The entry of f_n at the token of a pair is √overlap, so the overlaps of a class must sum to at most 1. If all
    overlaps are equal, a single token common to all classes is enough, and they may sum to more.
    """
    table = np.asarray(table, dtype=np.float64)
    K = len(table)
    off = table[~np.eye(K, dtype=bool)]
    if np.ptp(off) == 0:
        shared = np.full((K, 1), np.sqrt(off[0]))
    else:
        pairs = [(i, j) for i in range(K) for j in range(i) if table[i, j] > 0]
        shared = np.zeros((K, len(pairs)))
        for token, (i, j) in enumerate(pairs):
            shared[[i, j], token] = np.sqrt(table[i, j])
    rest = 1 - (shared**2).sum(axis=1)
    require(bool((rest >= 0).all()), f"The overlaps of a class must sum to at most 1; they reach {1 - rest.min():.3g}.")
    return np.hstack([shared, np.diag(np.sqrt(rest))])


def class_weights(classes: int, first: float | None = None) -> Array:
    """Probabilities of the classes: all equal, or `first` for class 0 and the rest shared equally by the others."""
    others = (1 - first) / (classes - 1) if first is not None else 1 / classes
    return np.array([1 / classes if first is None else first, *[others] * (classes - 1)])


def drawn_order(draw: np.random.Generator, *, runs: int, steps: int, classes: int, first: float | None = None) -> Array:
    """Classes drawn independently with the probabilities of `class_weights`: [run, step, 1]."""
    return draw.choice(classes, p=class_weights(classes, first), size=(runs, steps, 1))


def shuffled_epochs(draw: np.random.Generator, *, runs: int, epochs: int, classes: int) -> Array:
    """Every class once per epoch, in a new random order each time: [run, step, 1]."""
    order = np.broadcast_to(np.arange(classes), (runs, epochs, classes))
    return draw.permuted(order, axis=-1).reshape(runs, epochs * classes, 1)
