"""Noise of token counts, against sequences that are drawn."""

from __future__ import annotations

import numpy as np
import pytest

from foretrain.core.errors import InputError
from foretrain.papers.scan_snap import theory

P = np.zeros((2, 30))
P[:, 0] = 0.4
P[[0, 0, 1, 1], [1, 2, 3, 4]] = 0.5, 0.1, 0.45, 0.15


def _features(length: int, sequences: int = 200_000) -> np.ndarray:
    draw = np.random.default_rng(length)
    counts = np.stack([draw.multinomial(length - 1, row, size=sequences) for row in P])[..., :5] / (length - 1)
    return counts / np.linalg.norm(counts, axis=-1, keepdims=True)


def test_noise_of_features_against_drawn_sequences() -> None:
    """Lemma 18 for f: the variance times T − 1 is that of the formula, up to 1/T and the error of 2·10⁵ draws."""
    f = _features(2001)
    np.testing.assert_allclose(2000 * f.var(axis=1), theory.feature_noise(P)[:, :5], rtol=0.02, atol=1e-12)


@pytest.mark.parametrize("length", [200, 1000, 5000])
def test_force_on_distinct_tokens_against_drawn_sequences(length: int) -> None:
    """Theorem 2 at finite length: mean of f_l(g_l − f_l·f·g) with g = (1 − 1/M)f̄_n − f̄_n'/M over drawn sequences."""
    f, M = _features(length), P.shape[1]
    mean = f.mean(axis=1)
    g = (1 - 1 / M) * mean - mean[::-1] / M
    pull = f * (g[:, None] - f * (f * g[:, None]).sum(axis=-1, keepdims=True))
    error = pull.std(axis=1) / np.sqrt(pull.shape[1])
    force = sum(theory.finite_length_force(P, length=length))[:, :5]
    distinct = ~np.isnan(force)
    allowed = 4 * error + 30 / length**2  # four standard errors, and the next order in 1/T
    assert np.all(abs(pull.mean(axis=1) - force)[distinct] < allowed[distinct])


def test_tokens_need_the_length_at_which_the_two_forces_cancel() -> None:
    needed = theory.least_length(P)
    assert np.isnan(needed[:, 0]).all()
    assert needed[0, 1] == 2  # noise helps a frequent token
    for length, sign in ((0.9 * needed[0, 2], -1), (1.1 * needed[0, 2], 1)):
        assert np.sign(sum(theory.finite_length_force(P, length=length))[0, 2]) == sign
    with pytest.raises(InputError, match="length"):
        theory.finite_length_force(P, length=1)


def test_a_class_that_overlaps_with_no_other_has_nothing_to_gain() -> None:
    assert np.isinf(theory.least_length([[0.7, 0.3, 0, 0], [0, 0, 0.6, 0.4]])[0, 1])
