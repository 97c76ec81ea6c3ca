"""The exact attention kernel against Gauss–Hermite, scrambled Sobol, finer grids and its own symmetries."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import roots_hermitenorm, softmax

from foretrain.core.errors import InputError
from foretrain.data.template_examples import majority, same_different
from foretrain.kernels import (
    Cosine,
    attention,
    attention_kernel,
    attention_matrix,
    transformer_kernel,
    transformer_matrix,
)
from foretrain.kernels.sampling import monte_carlo, quasi_monte_carlo


def gauss_hermite(x: str, y: str, beta: float, gamma: float, identity: float = 0.0, nodes: int = 16) -> float:
    """The definition itself, by a product rule over all Gaussians."""
    tokens = sorted(set(x + y))
    dimensions = len(tokens) + (len(x) if gamma else 0)
    z, w = roots_hermitenorm(nodes)
    points = np.stack(np.meshgrid(*[z] * dimensions, indexing="ij"), axis=-1).reshape(-1, dimensions)
    weights = np.prod(np.stack(np.meshgrid(*[w / w.sum()] * dimensions, indexing="ij")), axis=0).ravel()
    product = np.array([[a == b for b in y] for a in x]) + gamma**2 * np.eye(len(x))
    shares = []
    for s in (x, y):
        p = points[:, len(tokens) :] if gamma else 0.0
        logits = beta * (points[:, [tokens.index(t) for t in s]] + gamma * p)
        shares.append(softmax(logits + identity * np.array([s.count(t) for t in s]), axis=1))
    return float(weights @ ((shares[0] @ product) * shares[1]).sum(axis=1))


def test_known_value() -> None:
    assert attention_kernel("AB*", "CD*", beta=1, gamma=1) == pytest.approx(0.644561117, abs=1e-9)


@pytest.mark.parametrize(
    ("x", "y", "beta", "gamma", "identity"),
    [
        ("AB", "CA", 0.6, 0.5, 0.0),
        ("AB", "BA", 0.8, 1.0, 0.0),
        ("AA", "AB", 0.7, 0.3, 0.8),
        ("ABCA", "BBCD", 0.9, 0.0, 0.0),
        ("AAB", "BCC", 0.9, 0.0, -0.5),
        ("AB", "AB", 0.03, 2.0, 0.0),
    ],
)
def test_agrees_with_gauss_hermite(x: str, y: str, beta: float, gamma: float, identity: float) -> None:
    expected = gauss_hermite(x, y, beta, gamma, identity)
    assert attention_kernel(x, y, beta=beta, gamma=gamma, identity=identity) == pytest.approx(expected, abs=3e-9)


@pytest.mark.parametrize(
    ("x", "y", "beta", "gamma", "identity"),
    [
        ("AABB*", "CDCD*", 1.0, 1.0, 0.0),  # a cycle of four tokens, each in one string
        ("ABCDE*", "BCDEA*", 1.0, 0.5, 0.0),  # a cycle of five tokens, each in both
        ("AAB*", "BCC*", 2.0, 0.0, 0.0),
        ("ABABAB*", "AABBCC*", 4.0, 1.0, 0.0),
        ("AB*", "CD*", 4.0, 4.0, 0.0),
        ("AAB*", "CDC*", 1.0, 1.0, 1.0),
        ("ABCDEFGHIJABCDEFGHI*", "KLMNOPQRSTKKLLMMNNO*", 1.5, 0.7, 0.0),  # 20 positions
    ],
)
def test_agrees_with_sobol_within_its_bound(x: str, y: str, beta: float, gamma: float, identity: float) -> None:
    setting = {"beta": beta, "gamma": gamma, "identity": identity}
    sampled, bound = quasi_monte_carlo(x, y, log2_points=12, **setting)
    assert bound < 0.02 * (1 + gamma**2)
    found = attention_matrix([x], [y], **setting)
    assert found.sampled == 0
    assert abs(found.values[0, 0] - sampled) <= bound


def test_sampling_bounds_are_kept_and_plain_sampling_agrees() -> None:
    exact = attention_kernel("AAB*", "CAC*", beta=1, gamma=1)
    kept = [
        abs(value - exact) <= bound
        for value, bound in (
            quasi_monte_carlo("AAB*", "CAC*", beta=1, gamma=1, log2_points=8, seed=s) for s in range(40)
        )
    ]
    assert sum(kept) >= 39  # 99.9 % each
    value, error = monte_carlo("AAB*", "CAC*", beta=1, gamma=1)
    assert abs(value - exact) < 4 * error


letters = st.sampled_from("ABCDEF")


@given(
    st.lists(st.tuples(letters, letters), min_size=1, max_size=4),
    st.sampled_from([0.05, 0.3, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0]),
    st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    st.sampled_from([0.0, 0.0, 0.6, -0.4]),
    st.sampled_from([None, 1e-4, 1e-6]),
)
@settings(max_examples=25)
def test_error_is_below_the_tolerance_and_below_the_estimate(
    pairs: list[tuple[str, str]], beta: float, gamma: float, identity: float, tolerance: float | None
) -> None:
    x, y = zip(*pairs, strict=True)
    setting = {"beta": beta, "gamma": gamma, "identity": identity}
    found = attention_matrix([x], [y], tolerance=tolerance, check=True, **setting)
    truth = attention_kernel(x, y, tolerance=1e-10, **setting)
    error = abs(found.values[0, 0] - truth)
    assert error <= found.errors[0, 0] + 1e-10
    assert error <= (tolerance or (1e-8 if beta <= 2 else 1e-6))


@given(
    st.lists(st.tuples(letters, letters), min_size=2, max_size=5),
    st.permutations(range(5)),
    st.permutations("ABCDEF"),
    st.sampled_from([0.0, 1.0]),
)
@settings(max_examples=12)
def test_sees_neither_names_nor_order_nor_which_string_is_first(
    pairs: list[tuple[str, str]], order: list[int], names: list[str], gamma: float
) -> None:
    setting = {"beta": 1.0, "gamma": gamma}
    rename = dict(zip("ABCDEF", names, strict=True))
    moved = [pairs[i] for i in order if i < len(pairs)]
    value = attention_kernel(*zip(*pairs, strict=True), **setting)
    other = attention_kernel(*zip(*[(rename[b], rename[a]) for a, b in moved], strict=True), **setting)
    assert value == other


def test_without_temperature_attention_is_even() -> None:
    assert attention_kernel("AAB", "ACB", beta=0, gamma=2) == pytest.approx(3 / 9 + 4 / 3, abs=1e-14)
    near = attention_kernel("AAB", "ACB", beta=1e-4, gamma=2)
    assert near == pytest.approx(3 / 9 + 4 / 3, abs=1e-6)
    tilted = attention_kernel("AAB", "ACB", beta=0, gamma=0, identity=math.log(2))
    assert tilted == pytest.approx((4 * 2 * 1 + 2 * 1) / ((4 + 4 + 2) * 3 * 2) * 2, abs=1e-14)


def test_a_string_of_one_token_attends_to_it_whatever_the_scores() -> None:
    assert attention_kernel("A", "A", beta=3, gamma=0.5) == pytest.approx(1.25, abs=1e-6)
    assert attention_kernel("A", "B", beta=3, gamma=0.5) == pytest.approx(0.25, abs=1e-6)
    assert attention_kernel("AAA", "AAA", beta=1, gamma=0) == pytest.approx(1.0, abs=1e-8)


def test_matrices_are_positive_and_equal_to_single_values() -> None:
    strings = ["".join(s) + "*" for s in itertools.product("AB", repeat=3)]
    setting = {"beta": 1.2, "gamma": 0.8}
    found = attention_matrix(strings, strings, **setting)
    assert np.array_equal(found.values, found.values.T)
    assert np.linalg.eigvalsh(found.values).min() > -1e-8
    for i, j in ((0, 3), (2, 5), (7, 7)):
        assert found.values[i, j] == attention_kernel(strings[i], strings[j], **setting)
    assert found.evaluations <= found.patterns
    for activation in ("cosine", "relu", "gelu"):
        kernel = transformer_kernel(strings, strings, activation=activation, **setting)
        assert np.linalg.eigvalsh(kernel).min() > -1e-8


def test_transformer_kernel_is_the_activation_of_the_attention_kernel() -> None:
    X, Y = ["AB*", "AA*"], ["BA*", "CD*", "CC*"]
    setting = {"beta": 1.0, "gamma": 1.0}
    own = [[attention_kernel(s, s, **setting) for s in strings] for strings in (X, Y)]
    phi = Cosine(0.7, 0.3)
    expected = [
        [float(phi.expectation(own[0][i], own[1][j], attention_kernel(x, y, **setting))) for j, y in enumerate(Y)]
        for i, x in enumerate(X)
    ]
    assert np.allclose(transformer_kernel(X, Y, activation=phi, **setting), expected, atol=1e-14)


def test_error_of_the_transformer_kernel_is_honest() -> None:
    X = ["AAB*", "ABC*", "ABA*"]
    loose = transformer_matrix(X, X, beta=1.0, gamma=1.0, activation="gelu", tolerance=1e-3, check=True)
    tight = transformer_kernel(X, X, beta=1.0, gamma=1.0, activation="gelu", tolerance=1e-11)
    assert (abs(loose.values - tight) <= loose.errors + 1e-11).all()
    assert loose.errors.max() < 1e-3


def test_patterns_are_computed_once_each() -> None:
    strings = majority(5).with_cls().sample(1000, 1).tokens.tolist()
    attention._evaluate.cache_clear()
    found = transformer_matrix(strings, strings, beta=1.0, gamma=1.0, tolerance=1e-6)
    assert found.values.shape == (1000, 1000)
    assert found.evaluations == attention._evaluate.cache_info().misses == 42
    assert found.evaluations < found.patterns < 1667  # all the ways in which two of 16 templates can share tokens
    assert found.sampled == 0
    apart = transformer_matrix(["AB*"], ["CC*"], beta=1.0, gamma=1.0)
    assert apart.evaluations == 3  # the pair and its two variances
    assert attention_matrix(["AB*"], ["CC*"], beta=1.0, gamma=1.0).evaluations == 1


@pytest.mark.parametrize(("gamma", "beta", "expected"), [(0, 1, 2080), (1, 1, 1070), (1, 4, 111), (4, 4, 27)])
def test_condition_number_of_same_different(gamma: float, beta: float, expected: float) -> None:
    task = same_different().with_cls()
    strings, others = task.one_per_template().tolist(), task.one_per_template(first=10).tolist()
    N = transformer_kernel(strings, others, beta=beta, gamma=gamma, activation=Cosine(1.0, math.pi / 4))
    assert np.linalg.cond(N) == pytest.approx(expected, rel=0.01)


def test_too_entangled_pairs_are_sampled_with_an_honest_error(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = attention_kernel("AABC*", "CDDA*", beta=1, gamma=1)
    monkeypatch.setattr(attention, "MOST_WORK", 1.0)
    attention._evaluate.cache_clear()
    found = attention_matrix(["AABC*"], ["CDDA*"], beta=1, gamma=1)
    attention._evaluate.cache_clear()
    assert found.sampled == 1
    assert 0 < abs(found.values[0, 0] - exact) <= found.errors[0, 0] < 1e-2


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"beta": -1.0}, "beta must be at least 0"),
        ({"gamma": -0.5}, "gamma must be at least 0"),
        ({"beta": math.nan}, "beta must be at least 0"),
        ({"identity": math.inf}, "identity must be a finite number"),
        ({"tolerance": 1e-20}, "tolerance must lie between"),
        ({"activation": "tanhh"}, "no activation 'tanhh'"),
        ({"X": ["AB", "ABC"]}, "one length"),
        ({"Y": []}, "one length"),
        ({"X": [""], "Y": [""]}, "one length"),
    ],
)
def test_refuses_in_one_sentence(change: dict, sentence: str) -> None:
    arguments = {"X": ["AB"], "Y": ["CD"], "beta": 1.0, "gamma": 1.0, **change}
    with pytest.raises(InputError, match=sentence) as refusal:
        transformer_kernel(**arguments)
    assert str(refusal.value).endswith(".")
