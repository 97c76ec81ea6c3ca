"""Measures of matrices on an accelerator are those of the CPU, and stay there until they are numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from foretrain.checkpoints.matrices import measure_matrix
from foretrain.measures import (
    SpectrumTracker,
    best_alignment,
    effective_rank,
    entropy,
    normalized_correlation,
    stable_rank,
)


def matrix(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("shape", [(12, 20), (3, 12, 20), (300, 260)])
@pytest.mark.parametrize("rank", [stable_rank, effective_rank])
def test_ranks(rank: Callable[[Tensor], Tensor], shape: tuple[int, ...], device: torch.device) -> None:
    if rank is effective_rank and shape[0] == 300:
        shape = (60, 50)
    W = matrix(*shape)
    on_device = rank(W.to(device))
    assert on_device.device == device
    torch.testing.assert_close(on_device.cpu(), rank(W), rtol=1e-5, atol=0)


def test_a_tracker(device: torch.device) -> None:
    on_cpu, on_device = SpectrumTracker(), SpectrumTracker()
    for scale in (1.0, 1.01):
        for W in (scale * matrix(12, 20), scale * matrix(300, 260)):
            full = scale == 1.0 and len(W) < 20
            expected = on_cpu.refresh(str(len(W)), W, full=full)
            spectrum = on_device.refresh(str(len(W)), W.to(device), full=full)
            assert spectrum.stable_rank == pytest.approx(expected.stable_rank, rel=1e-5)
            assert spectrum.norm == pytest.approx(expected.norm, rel=1e-6)
            if full:
                assert spectrum.effective_rank == pytest.approx(expected.effective_rank, rel=1e-6)


def test_other_measures(device: torch.device) -> None:
    x, y = matrix(30, 4), matrix(31, 5)[:30]
    for measure in (entropy, normalized_correlation, best_alignment):
        given = (x.square(),) if measure is entropy else (x, x + y[:, :4])
        on_device = measure(*(values.to(device) for values in given))
        torch.testing.assert_close(on_device.cpu(), measure(*given), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_everything_that_analyze_reads_off_a_matrix(dtype: torch.dtype, device: torch.device) -> None:
    W = matrix(40, 30).to(dtype)
    assert measure_matrix(W.to(device)) == pytest.approx(measure_matrix(W), rel=1e-5)
