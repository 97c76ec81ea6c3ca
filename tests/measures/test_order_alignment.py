"""When a curve is half way, whether two orders agree, and how well nodes align with latents."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from foretrain.core.errors import InputError
from foretrain.measures import best_alignment, half_time, level_time, mean_alignment, spearman


@given(rate=st.floats(0.1, 3.0), size=st.floats(-5, 5).filter(lambda s: abs(s) > 0.1), start=st.floats(-2, 2))
def test_half_time_of_an_exponential_approach(rate, size, start):
    time = np.linspace(0, 30 / rate, 4001)
    curve = start + size * -np.expm1(-rate * time)
    assert half_time(curve, time) == pytest.approx(np.log(2) / rate, rel=1e-4)


def test_level_time_keeps_axes_and_says_nan_where_nothing_happens():
    time = np.array([0.0, 1.0, 2.0])
    curves = np.array([[[0.0, 1.0, 3.0], [0.0, 0.1, 0.2]], [[4.0, 3.0, 0.0], [1.0, 1.0, 1.0]]])
    np.testing.assert_allclose(level_time(curves, time, 1.5), [[1.25, np.nan], [1.5, np.nan]])
    assert np.isnan(half_time(curves[1, 1], time))
    with pytest.raises(InputError, match="equal length"):
        half_time(curves[0, 0, :1], time[:1])


@given(seed=st.integers(0, 1000), ties=st.booleans())
def test_spearman_is_spearmans(seed, ties):
    draw = np.random.default_rng(seed)
    first, second = draw.normal(size=(2, 12))
    if ties:
        first, second = np.round(first), np.round(second)
    assert spearman(first, second) == pytest.approx(stats.spearmanr(first, second)[0], abs=1e-12)


def test_spearman_of_no_order_is_zero():
    assert spearman(np.ones(4), np.arange(4.0)) == 0.0
    assert spearman(np.array([1.0, 2.0, np.inf]), np.arange(3.0)) == pytest.approx(1.0)


def test_alignment_is_the_largest_correlation_of_each_latent():
    draw = torch.Generator().manual_seed(1)
    latents = (torch.rand(3, 50, 4, generator=draw) > 0.5).double()
    nodes = torch.randn(3, 50, 7, generator=draw).double()
    nodes[:, :, 2] = 5 * latents[:, :, 1] + 3  # a node that is a latent, up to scale
    nodes[:, :, 3] = 1.0  # a node that does not vary
    latents[:, :, 3] = 1.0  # a latent that does not vary
    best = best_alignment(latents, nodes)
    for run in range(3):
        for latent in range(3):
            pairs = [np.corrcoef(latents[run, :, latent], nodes[run, :, node])[0, 1] for node in (0, 1, 2, 4, 5, 6)]
            assert best[run, latent].item() == pytest.approx(max(*pairs, 0.0), abs=1e-12)
    assert torch.allclose(best[:, 1], torch.ones(3, dtype=torch.float64))
    assert best[:, 3].isnan().all()
    assert torch.allclose(mean_alignment(latents, nodes), best[:, :3].mean(-1))
