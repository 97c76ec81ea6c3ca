"""Section 5 on paper: velocities of the logits, fates of tokens, growth factors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foretrain.core.errors import InputError
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.simulations.random_classes import RandomClasses

seeds = st.integers(0, 2**32 - 1)


def random_state(seed: int, classes: int = 4, tokens: int = 7) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    P = draw.dirichlet(np.ones(tokens), classes) * (draw.random((classes, tokens)) < 0.7)
    P[:, 0] += 0.1
    return P / P.sum(axis=1, keepdims=True), np.broadcast_to(draw.normal(0, 2, tokens), P.shape)


@given(seeds)
def test_features_have_length_one_and_ignore_a_shift_of_the_logits(seed: int) -> None:
    """Lemma 2, eq. 5 and 7: f_n ∝ P(l|n)·exp(z_l)."""
    P, z = random_state(seed)
    f = theory.features(P, z)
    expected = np.array([[p * np.exp(x) for p, x in zip(*row, strict=True)] for row in zip(P, z, strict=True)])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(f, expected, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(theory.features(P, z + 700), f, rtol=1e-10)


@given(seeds)
def test_logit_velocity_is_the_gradient_of_the_decoders_output(seed: int) -> None:
    """Eq. 94, against autograd."""
    P, z = random_state(seed)
    g = np.random.default_rng(seed).normal(size=P.shape)
    logits = torch.tensor(z.copy(), requires_grad=True)
    c = torch.from_numpy(P) * torch.exp(logits)
    (c / c.norm(dim=1, keepdim=True) * torch.from_numpy(g)).sum().backward()
    velocity = theory.logit_velocity(theory.features(P, z), g)
    np.testing.assert_allclose(velocity, logits.grad, atol=1e-12)
    np.testing.assert_allclose(velocity.sum(axis=1), 0, atol=1e-12)  # Ż1 = 0 (section 3.1)


@given(seeds)
def test_attention_velocity_is_eq_97_token_by_token(seed: int) -> None:
    """Lemma 4, eq. 10, written out as in eq. 97."""
    P, z = random_state(seed)
    f, beta = theory.features(P, z), np.random.default_rng(seed).normal(size=(4, 4))
    query = np.array([0, 1, 0, 1])
    velocity = theory.by_query(theory.attention_velocity(f, beta), query)
    for n in range(4):
        for token in range(P.shape[1]):
            expected = sum(
                f[a, token] * beta[a, b] * (f[a] @ f[b] * f[a, token] - f[b, token])
                for a in range(4)
                for b in range(4)
                if a != b and query[a] == query[n]
            )
            assert velocity[n, token] == pytest.approx(expected, abs=1e-13)


@given(seeds)
def test_distinct_tokens_move_by_eq_98_and_the_common_one_by_eq_100(seed: int) -> None:
    """Theorem 2: the two signs follow from eq. 98 and 100."""
    task = RandomClasses(instances=1, queries=1, per_query=3, distinct=2)
    draw = np.random.default_rng(seed)
    P = task.probabilities[0] * draw.uniform(0.2, 1, task.probabilities[0].shape)
    f, beta = theory.features(P, np.zeros_like(P)), draw.normal(size=(3, 3))
    velocity, xi = theory.attention_velocity(f, beta).sum(axis=0), theory.growth_speed(f, beta * (1 - np.eye(3)))
    for n in range(3):
        np.testing.assert_allclose(
            velocity[task.distinct_tokens[n]], f[n, task.distinct_tokens[n]] ** 2 * xi[n], atol=1e-14
        )
    assert velocity[0] == pytest.approx(-((1 - f[:, 0] ** 2) * xi).sum(), abs=1e-14)


@given(seeds, st.integers(2, 5), st.integers(1, 4))
def test_theorem2_at_any_logits(seed: int, classes: int, distinct: int) -> None:
    """Theorem 2 with one common token, any probabilities and any logits: distinct tokens gain, the common one loses."""
    draw = np.random.default_rng(seed)
    P = np.zeros((classes, 1 + classes * distinct))
    P[:, 0] = draw.uniform(0.01, 0.3, classes)
    for n in range(classes):
        P[n, 1 + n * distinct : 1 + (n + 1) * distinct] = draw.dirichlet(np.ones(distinct)) * (1 - P[n, 0])
    z = np.broadcast_to(draw.normal(0, 0.3, P.shape[1]), P.shape)
    f = theory.features(P, z)
    beta = theory.gradient_coefficients(f, vocab=50)[1]
    query = np.zeros(classes, dtype=int)
    velocity = theory.by_query(theory.attention_velocity(f, beta), query)
    np.testing.assert_array_equal(np.sign(velocity), theory.fates(P, query))


def test_corollary2_needs_symmetry() -> None:
    """Without the symmetry of Corollary 2, a common token that is rare in the second class gains attention."""
    P = np.array([[0.45, 0.05, 0.5, 0.0], [0.45, 0.0005, 0.0, 0.5495]])
    f = theory.features(P, np.zeros_like(P))
    velocity = theory.attention_velocity(f, theory.gradient_coefficients(f, vocab=1000)[1]).sum(axis=0)
    assert theory.fates(P, np.zeros(2, int))[0].tolist() == [-1, -1, 1, 1]
    assert velocity[0] < 0 < velocity[1]


def test_theorem2_needs_a_distinct_token() -> None:
    """Theorem 2 (b): if a query's only class has nothing but the common token, its logit does not move."""
    task = RandomClasses(shape="bare")
    f = theory.features(task.probabilities, np.zeros_like(task.probabilities))
    beta = theory.gradient_coefficients(f, vocab=1000)[1]
    velocity = theory.by_query(theory.attention_velocity(f, beta), task.query)
    np.testing.assert_allclose(velocity[:, 0, 0], 0, atol=1e-16)
    assert (velocity[:, 1, 0] < 0).all()
    assert (theory.fates(task.probabilities, task.query)[:, 0, 0] == -1).all()


def test_fates_counted_over_all_classes_or_those_of_the_query() -> None:
    P = np.array([[0.5, 0.5, 0, 0], [0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5]])
    query = np.array([0, 0, 1])
    assert theory.fates(P, query).tolist() == [[-1, -1, 1, 0], [-1, -1, 1, 0], [0, -1, 0, 1]]
    assert theory.fates(P, query, local=True).tolist() == [[-1, 1, 1, 0], [-1, 1, 1, 0], [0, 1, 0, 1]]


@given(seeds)
def test_next_token_error_is_the_gradient_of_the_log_probability(seed: int) -> None:
    logits = torch.tensor(np.random.default_rng(seed).normal(0, 5, (2, 3, 6)), requires_grad=True)
    torch.log_softmax(logits, dim=-1)[:, range(3), range(3)].sum().backward()
    np.testing.assert_allclose(theory.next_token_error(logits.detach().numpy()), logits.grad, atol=1e-14)


@given(st.floats(0, 20), st.floats(0, 1), st.floats(0, 1))
def test_growth_factor_bounds_widen_with_growth_and_meet_at_feature_one(
    growth: float, first: float, second: float
) -> None:
    """Theorem 3, eq. 12: at f = 1 the lower bound is the upper one."""
    low, high = theory.growth_factor_bounds(growth, feature=np.sort([first, second]))
    assert (low >= 1).all()
    assert (low <= high).all()
    assert low[0] <= low[1]
    assert theory.growth_factor_bounds(growth, feature=1.0)[0] == pytest.approx(high[0])
    np.testing.assert_allclose(np.log(high), 2 * growth, atol=1e-15)


def test_growth_factor_bounds_broadcast() -> None:
    low, high = theory.growth_factor_bounds(np.ones((5, 1)), feature=np.full(3, 0.5))
    assert low.shape == high.shape == (5, 3)
    assert low[0, 0] == pytest.approx(np.exp(0.5))


@pytest.mark.parametrize(("growth", "feature"), [(-1.0, 0.5), (np.nan, 0.5), (1.0, 1.5), (1.0, -0.1), (1.0, np.nan)])
def test_growth_factor_bounds_refuse(growth: float, feature: float) -> None:
    with pytest.raises(InputError):
        theory.growth_factor_bounds(growth, feature=feature)


def test_relative_gain_multiplies_by_the_growth_factor() -> None:
    """Theorem 3, eq. 11, for numbers that can be checked by hand."""
    np.testing.assert_allclose(theory.relative_gain([3.0, -0.5], [0.0, np.log(2)]), [3.0, -2.0])
    np.testing.assert_allclose(theory.growth_factor(np.log(3)), 9)


@pytest.mark.parametrize("shape", ["random", "symmetric", "bare"])
def test_random_classes_are_what_they_say(shape: str) -> None:
    task = RandomClasses(instances=3, queries=2, per_query=2, distinct=3, common=2, shape=shape)
    P = task.probabilities
    np.testing.assert_allclose(P.sum(axis=-1), 1)
    np.testing.assert_array_equal(P, RandomClasses(instances=3, distinct=3, common=2, shape=shape).probabilities)
    assert (P[..., :2] > 0).all()
    assert ((P[..., 2:] > 0).sum(axis=1) <= 1).all()
    own = np.take_along_axis(P, np.broadcast_to(task.distinct_tokens, (3, 4, 3)), axis=-1)
    if shape == "symmetric":
        assert (own == own[:, :1]).all()
        assert (P[..., :2] == P[:, :1, :2]).all()
    elif shape == "bare":
        assert (own[:, 0] == 0).all()
        assert task.query.tolist() == [2, 0, 1, 1]
    else:
        assert (own > 0).all()
        assert len(np.unique(own)) == own.size
