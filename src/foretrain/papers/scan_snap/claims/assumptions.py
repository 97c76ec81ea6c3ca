"""Conditions of the theorems, which can be evaluated in a setting."""

from __future__ import annotations

import numpy as np
from numpy import ndarray as Array

from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.simulations.decoder_training import equal_overlaps


def weak_correlations(classes: int, overlap: float, vocab: int) -> tuple[bool, str]:
    """Whether features with equal overlaps meet Assumption 2, and what was measured."""
    return assumption2(equal_overlaps(classes, overlap), vocab)


def assumption2(features: Array, vocab: int) -> tuple[bool, str]:
    """Whether 6/√M ≤ |λ_i(E)| < 1/K, and the smallest and largest |λ_i(E)|."""
    sizes = abs(np.linalg.eigvalsh(theory.overlaps(features)))
    least, most = (float(edge) for edge in theory.correlation_window(vocab=vocab, classes=len(features)))
    words = f"|λ| from {sizes.min():.3g} to {sizes.max():.3g}; allowed from 6/√M = {least:.3g} to 1/K = {most:.3g}"
    return bool(sizes.min() >= least and sizes.max() < most), words
