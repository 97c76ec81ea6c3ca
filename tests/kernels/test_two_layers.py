"""The two-layer kernel with a·I: against random networks of finite width, and what must hold whatever its values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.two_layer_reference import distances_of, sampled_distances

from foretrain.core.errors import InputError
from foretrain.data import template_examples as tasks
from foretrain.data.template_task import Template, TemplateTask
from foretrain.kernels import two_layers
from foretrain.kernels.activations import ACTIVATIONS
from foretrain.kernels.template_matrix import template_matrix
from foretrain.kernels.two_layers import two_layer_kernel

CLS = 9
STRINGS = np.array([[0, 0, 1, CLS], [0, 1, 0, CLS], [2, 3, 3, CLS], [0, 3, 4, CLS]])
strings = st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=2, max_size=6).map(
    lambda rows: np.array([[*row, CLS] for row in rows])
)


@pytest.mark.parametrize(("activation", "identity", "gamma"), [("cosine", 8.0, 1.0), ("relu", 1.5, 0.5)])
def test_is_the_limit_of_random_networks(activation: str, identity: float, gamma: float) -> None:
    """At width d the mean differs by a multiple of 1/d, which two widths remove."""
    options = {"identity": identity, "gamma": gamma, "phi": ACTIVATIONS[activation], "draws": 120}
    narrow, narrow_error = sampled_distances(STRINGS, width=64, **options)
    wide, wide_error = sampled_distances(STRINGS, width=128, seed=1, **options)
    apart = np.triu_indices(len(STRINGS), 1)
    limit, error = (2 * wide - narrow)[apart], np.hypot(2 * wide_error, narrow_error)[apart]
    kernel = two_layer_kernel(STRINGS, STRINGS, identity=identity, gamma=gamma, activation=activation)
    exact = distances_of(kernel)[apart]
    assert (abs(limit - exact) < 4 * error).all()
    assert (error < 0.15 * exact).all()  # so that the comparison says something


@pytest.mark.parametrize(("second", "as_the_kernel"), [(0.0, True), (8.0, False)])
def test_even_attention_at_cls_is_an_approximation(second: float, as_the_kernel: bool) -> None:
    """With a in the second layer too, ααββ and αβαβ are nearer to each other; the docstring says so."""
    pair = np.array([[0, 0, 1, 1, CLS], [0, 1, 0, 1, CLS]])
    options = {"identity": 8.0, "gamma": 1.0, "phi": ACTIVATIONS["cosine"], "draws": 250, "second": second}
    narrow, narrow_error = sampled_distances(pair, width=64, **options)
    wide, wide_error = sampled_distances(pair, width=128, seed=1, **options)
    limit, error = (2 * wide - narrow)[0, 1], np.hypot(2 * wide_error, narrow_error)[0, 1]
    kernel = distances_of(two_layer_kernel(pair, pair, identity=8.0))[0, 1]
    assert kernel == pytest.approx(0.0318, abs=5e-5)
    assert (abs(limit - kernel) < 2 * error) == as_the_kernel
    assert limit == pytest.approx(0.0303 if as_the_kernel else 0.0245, abs=3 * error)
    assert "This is an approximation" in str(two_layers.__doc__)


@settings(max_examples=40, deadline=None)
@given(strings, st.permutations(range(5)), st.floats(-6, 6), st.sampled_from(sorted(ACTIVATIONS)))
def test_sees_only_which_symbols_are_equal(
    rows: np.ndarray, names: list[int], identity: float, activation: str
) -> None:
    renamed = np.array([*names, 5, 6, 7, 8, CLS])[rows]
    before, after = (two_layer_kernel(x, x, identity=identity, activation=activation) for x in (rows, renamed))
    np.testing.assert_allclose(before, after, atol=1e-13)


@settings(max_examples=40, deadline=None)
@given(strings, st.floats(-6, 6), st.floats(0, 3), st.sampled_from(sorted(ACTIVATIONS)))
def test_is_a_kernel(rows: np.ndarray, identity: float, gamma: float, activation: str) -> None:
    gram = two_layer_kernel(rows, rows, identity=identity, gamma=gamma, activation=activation)
    np.testing.assert_allclose(gram, gram.T, atol=1e-13)
    assert np.linalg.eigvalsh(gram).min() > -1e-12


def test_attention_to_equal_and_to_other_symbols_are_both_there() -> None:
    """Half of the heads have −a, so the sign of a does not matter."""
    kernel = two_layer_kernel(STRINGS, STRINGS, identity=3.0)
    np.testing.assert_allclose(kernel, two_layer_kernel(STRINGS, STRINGS, identity=-3.0), atol=1e-14)


@pytest.mark.parametrize(
    "pair", [("αβαβ", "ααββ"), ("αβγγβα", "αβγαβγ"), ("αβα", "αββ")], ids=["abab", "palindrome", "aba"]
)
def test_tells_templates_apart_in_which_symbols_occur_equally_often(pair: tuple[str, str]) -> None:
    task = TemplateTask(tuple(map(Template.parse, pair)), (1.0, -1.0)).with_cls()
    seen = template_matrix(task, lambda X, Y: two_layer_kernel(X, Y, identity=4.0))
    blind = template_matrix(task, lambda X, Y: two_layer_kernel(X, Y, identity=0.0))
    assert seen.eigenvalues[0] > 1e-4
    assert abs(blind.eigenvalues[0]) < 1e-12  # without a, attention is even and every template looks the same


def test_a_long_string_does_not_need_the_memory_of_all_pairs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    strings = tasks.majority(4).with_cls().one_per_template()
    whole = two_layer_kernel(strings, strings, identity=2.0)
    monkeypatch.setattr("foretrain.kernels.two_layers.NUMBERS_AT_ONCE", 60)  # two pairs of strings of five symbols
    np.testing.assert_array_equal(two_layer_kernel(strings, strings, identity=2.0), whole)


@pytest.mark.parametrize("identity", [float("nan"), float("inf")])
def test_a_must_be_a_number(identity: float) -> None:
    with pytest.raises(InputError, match="identity must be a finite number"):
        two_layer_kernel(STRINGS, STRINGS, identity=identity)
