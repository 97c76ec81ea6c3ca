"""Lemmas 1, 2 and 18: gradients against autograd, limits against sequences, the band against the exact binomial."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import softmax

from foretrain.core.errors import InputError
from foretrain.papers.scan_snap import theory


def one_sequence(seed, vocab, length):
    draw = np.random.default_rng(seed)
    X = np.eye(vocab)[draw.integers(0, vocab, length - 1)]
    Y, Z = draw.normal(0, 1, (2, vocab, vocab))
    return X, Y, Z, int(draw.integers(vocab)), int(draw.integers(vocab))


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(2, 12), st.integers(2, 20))
def test_gradients_equal_autograd_and_keep_row_sums(seed, vocab, length):
    """Lemma 1, eq. 3 and 4, against autograd."""
    X, Y, Z, query, label = one_sequence(seed, vocab, length)
    dY, dZ = theory.loss_gradients(X, Y, Z, query=query, label=label)
    x, y, z = (torch.tensor(a, requires_grad=True) for a in (X, Y, Z))
    b = torch.softmax(x @ z[query], dim=0)
    f = torch.nn.functional.normalize(x.mT @ b, dim=0)
    torch.log_softmax(y.mT @ f, dim=0)[label].backward()
    np.testing.assert_allclose(dY, y.grad, atol=1e-13)
    np.testing.assert_allclose(dZ, z.grad, atol=1e-12)
    np.testing.assert_allclose(dY.sum(axis=1), 0, atol=1e-13)
    np.testing.assert_allclose(dZ.sum(axis=1), 0, atol=1e-12)
    assert not np.delete(dZ, query, axis=0).any()


def test_without_projection_the_gradient_of_attention_is_wrong_and_that_of_the_decoder_is_not():
    """Lemma 1: what P⊥ is needed for."""
    X, Y, Z, query, label = one_sequence(3, 8, 10)
    right = theory.loss_gradients(X, Y, Z, query=query, label=label)
    wrong = theory.loss_gradients(X, Y, Z, query=query, label=label, project=False)
    np.testing.assert_array_equal(wrong[0], right[0])
    assert abs(wrong[1] - right[1]).max() > 1e-3


def test_both_limits_of_lemma_2_from_one_long_sequence():
    """Lemma 2, eq. 5 and 6: the limits of Xᵀb and of Xᵀdiag(b)X."""
    draw = np.random.default_rng(0)
    P, z = draw.dirichlet(np.ones(6)), draw.normal(0, 1, 6)
    X = np.eye(6)[draw.choice(6, p=P, size=200_000)]
    b = softmax(X @ z)
    c = theory.attention_limit(P, z)
    np.testing.assert_allclose(X.T @ b, c, atol=5e-3)
    np.testing.assert_allclose(X.T @ (b[:, None] * X), np.diag(X.T @ b), atol=1e-15)
    assert c.sum() == pytest.approx(1)
    np.testing.assert_allclose(theory.attention_limit(P, z + 1000), c)


@pytest.mark.parametrize("failure", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("length", [2, 11, 300])
def test_frequency_band_covers_by_the_exact_binomial(failure, length):
    """Lemma 18, eq. 136: the band covers with probability 1 − δ at least."""
    n = length - 1
    radius = theory.frequency_radius(length=length, failure=failure)
    for p in np.linspace(0.01, 0.99, 25):
        k = np.arange(n + 1)
        inside = stats.binom.pmf(k, n, p)[abs(k / n - p) <= radius].sum()
        assert inside >= 1 - failure - 1e-12


def test_frequency_band_refuses_what_it_cannot_mean():
    with pytest.raises(InputError, match="length"):
        theory.frequency_radius(length=1, failure=0.1)
    with pytest.raises(InputError, match="failure"):
        theory.frequency_radius(length=10, failure=0.0)
