"""Measures of single matrices against other ways to compute them."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import kurtosis
from torch import Tensor

from foretrain.checkpoints import matrices
from foretrain.checkpoints.matrices import MatrixReader, measure_matrix

SHAPES = [(40, 300), (300, 40), (300, 300), (700, 300)]


def decaying(shape: tuple[int, int], power: float) -> Tensor:
    """Singular values k^−power, in float32."""
    m, n = shape
    k = min(shape)
    generator = torch.Generator().manual_seed(0)
    U, _ = torch.linalg.qr(torch.randn(m, k, generator=generator, dtype=torch.float64))
    V, _ = torch.linalg.qr(torch.randn(n, k, generator=generator, dtype=torch.float64))
    return ((U * torch.arange(1, k + 1) ** -power) @ V.mT).float()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0, 4.0])
def test_spectra_against_svdvals(shape: tuple[int, int], power: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrices, "BLOCK", 5000)  # several blocks, the last one shorter
    W = 0.1 * decaying(shape, power)
    values = torch.linalg.svdvals(W.double())
    shares = values / values.sum()
    measures = measure_matrix(W)
    assert measures["norm"] == pytest.approx(float(values.norm()), rel=1e-5)
    assert measures["stable_rank"] == pytest.approx(float(values.square().sum() / values[0] ** 2), rel=1e-5)
    expected = math.exp(float(torch.special.entr(shares).sum()))
    assert measures["effective_rank"] == pytest.approx(expected, rel=3e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_moments_against_scipy(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    W = (0.3 + torch.rand(70, 90, generator=generator).pow(3)).to(dtype)
    measures = measure_matrix(W)
    assert measures["deviation"] == pytest.approx(float(W.double().std(correction=0)), rel=1e-4)
    assert measures["kurtosis"] == pytest.approx(kurtosis(W.double().flatten().numpy()), rel=1e-3)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_independent_entries_have_edge_and_spreads_of_one(shape: tuple[int, int], kind: str) -> None:
    generator = torch.Generator().manual_seed(2)
    normal, uniform = torch.randn(shape, generator=generator), torch.rand(shape, generator=generator) - 0.5
    measures = measure_matrix(normal if kind == "normal" else uniform)
    m, n = shape
    unit = (m**-0.5 + n**-0.5) ** (1 / 3) / (m**0.5 + n**0.5)  # of the Tracy–Widom law, with mean −1.2, deviation 1.3
    assert measures["edge"] == pytest.approx(1 - 1.2 * unit, abs=4 * 1.3 * unit)
    assert measures["row_spread"] == pytest.approx(1, abs=5 * math.sqrt(2 / shape[0]))
    assert measures["column_spread"] == pytest.approx(1, abs=5 * math.sqrt(2 / shape[1]))
    assert measures["kurtosis"] == pytest.approx(0 if kind == "normal" else -1.2, abs=0.1)


def test_a_constant_matrix_has_no_rank() -> None:
    measures = measure_matrix(torch.zeros(5, 4))
    assert measures["norm"] == measures["deviation"] == 0
    assert math.isnan(measures["stable_rank"])


def test_one_matrix_after_the_other() -> None:
    """Whether the last one needed float64 changes the time it takes, not what comes out."""
    reader = MatrixReader()
    for power in (0.5, 2.0, 2.0, 0.5, 0.5):
        W = decaying((300, 40), power)
        assert reader.read(W) == pytest.approx(measure_matrix(W), rel=1e-5)
        assert reader.precision == (torch.float64 if power == 2 else torch.float32)
