"""Closed forms of E[φ(u)φ(v)] against Gauss–Hermite and, where φ has a corner, against sampling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrain.core.errors import InputError
from foretrain.kernels import GELU, Cosine, ReLU
from foretrain.kernels.activations import activation_named

variances = st.floats(0.05, 3.0)
correlations = st.floats(-0.99, 0.99)


def quadrature(phi, a: float, b: float, c: float, nodes: int = 120) -> float:
    z, w = np.polynomial.hermite_e.hermegauss(nodes)
    u = np.sqrt(a) * z[:, None]
    v = c / np.sqrt(a) * z[:, None] + np.sqrt(b - c * c / a) * z[None, :]
    return float((w / w.sum()) @ (phi(u) * phi(v)) @ (w / w.sum()))


@given(variances, variances, correlations)
@pytest.mark.parametrize("phi", [Cosine(), Cosine(0.8, 2.0), GELU()], ids=["cosine", "other cosine", "gelu"])
def test_smooth_activations_are_integrated_exactly(phi, a: float, b: float, correlation: float) -> None:
    c = correlation * np.sqrt(a * b)
    assert float(phi.expectation(a, b, c)) == pytest.approx(quadrature(phi, a, b, c), abs=1e-9)


@given(variances, variances, correlations)
def test_relu_is_the_arc_cosine_kernel(a: float, b: float, correlation: float) -> None:
    c = correlation * np.sqrt(a * b)
    angle = np.linspace(0, 2 * np.pi, 20001)  # E over the radius is done: E r² = 2
    u, v = np.sqrt(a) * np.cos(angle), np.sqrt(b) * np.cos(angle - np.arccos(correlation))
    expected = 2 * np.trapezoid(np.maximum(u, 0) * np.maximum(v, 0), angle) / (2 * np.pi)
    assert float(ReLU().expectation(a, b, c)) == pytest.approx(expected, abs=1e-6)


def test_full_correlation_is_the_second_moment() -> None:
    assert float(ReLU().expectation(2.0, 2.0, 2.0)) == pytest.approx(1.0)
    assert float(Cosine().expectation(1.0, 1.0, 1.0)) == pytest.approx(0.5)


def test_names() -> None:
    assert activation_named("relu") == ReLU()
    assert activation_named(Cosine(2.0, 1.0)) == Cosine(2.0, 1.0)
    with pytest.raises(InputError, match="no activation"):
        activation_named("sine")
