"""The stable rank by Lanczos against all singular values: accuracy and convergence."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from foretrain.measures import lanczos, stable_rank
from foretrain.measures.matrices import LARGE

SIDE = 300  # above LARGE


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def with_values(values: Tensor, height: int = SIDE, seed: int = 0) -> Tensor:
    left, right = (torch.linalg.qr(draw(side, len(values), seed=seed + side))[0] for side in (height, SIDE + 1))
    return (left * values.double()) @ right.mT


def exact(matrix: Tensor) -> float:
    squares = torch.linalg.svdvals(matrix.double()).square()
    return float(squares.sum() / squares.max())


MATRICES = {
    "random": draw(SIDE, SIDE),
    "random, tall": draw(4 * SIDE, SIDE),
    "random, wide": draw(SIDE, 4 * SIDE),
    "spiked": draw(SIDE, SIDE) + 40 * torch.outer(draw(SIDE, seed=1), draw(SIDE, seed=2)) / SIDE,
    "power law": with_values(torch.arange(1, SIDE + 1) ** -0.7),
    "slow power law": with_values(torch.arange(1, SIDE + 1) ** -0.1, 2 * SIDE),
    "low rank": with_values(torch.tensor([3.0, 2.9, 2.8, 0.1])),
    "rank 1": with_values(torch.tensor([2.0])),
    "clustered": with_values(torch.cat([torch.linspace(1, 0.98, 20), torch.linspace(0.8, 0, SIDE - 20)])),
    "flat": with_values(torch.linspace(1, 0.9, SIDE)),
    "orthogonal": torch.linalg.qr(draw(SIDE, SIDE))[0],
    "one row counts": torch.cat([draw(1, SIDE), torch.zeros(SIDE, SIDE)]),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", MATRICES)
def test_stable_rank_is_within_a_thousandth(name: str, dtype: torch.dtype) -> None:
    matrix = MATRICES[name].to(dtype)
    assert float(stable_rank(matrix)) == pytest.approx(exact(matrix), rel=1e-3)


@pytest.mark.parametrize("seed", [149, 164])
def test_a_start_far_from_the_top_vector_does_not_stop_at_the_second(seed: int, monkeypatch) -> None:
    """Of the seeds 0 to 399, these two need the strict tolerance of a cold start, and none is wrong with it."""
    matrix = draw(LARGE, LARGE, seed=seed)
    assert float(stable_rank(matrix)) == pytest.approx(exact(matrix), rel=1e-6)
    monkeypatch.setattr(lanczos, "COLD_TOLERANCE", lanczos.TOLERANCE)
    assert float(stable_rank(matrix)) > (1 + 4e-3) * exact(matrix)


def test_error_falls_with_steps_and_the_estimate_follows() -> None:
    matrix = MATRICES["random"]
    largest = float(torch.linalg.svdvals(matrix)[0]) ** 2
    steps = [8, 16, 24, 32]
    tops = [lanczos.top(matrix, draw(SIDE, seed=3), first=k, most=k) for k in steps]
    errors = [1 - top.square / largest for top in tops]
    assert all(-1e-12 < after < before / 5 for before, after in pairwise(errors))
    slope = np.polyfit(steps, np.log(errors), 1)[0]
    assert slope < -0.4  # geometric: the error shrinks by a third or more with every step
    assert [top.converged for top in tops] == [False, False, True, True]
    assert all(error < 10 * top.error for error, top in zip(errors, tops, strict=True))


@pytest.mark.parametrize("case", ["clustered", "flat"])
def test_without_convergence_all_singular_values_are_computed(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    top, matrix = lanczos.top, MATRICES[case]
    monkeypatch.setattr(lanczos, "top", lambda W, start: top(W, start, first=3, most=3))
    assert not lanczos.top(matrix.mT, draw(SIDE + 1)).converged
    assert float(stable_rank(matrix)) == pytest.approx(exact(matrix), rel=1e-9)


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.sampled_from([1e-30, 1e-6, 3.0, 1e25]), st.floats(0, 1))
def test_stable_rank_ignores_scale_and_rotation_and_keeps_its_bounds(seed: int, scale: float, decay: float) -> None:
    rank = 40
    matrix = with_values(torch.arange(1, rank + 1) ** -decay, seed=seed).float()
    value = float(stable_rank(matrix))
    assert 1 - 1e-3 <= value <= rank * (1 + 1e-3)
    assert float(stable_rank(scale * matrix)) == pytest.approx(value, rel=1e-3)
    turn = torch.linalg.qr(draw(SIDE, SIDE, seed=seed + 1))[0].float()
    assert float(stable_rank(turn @ matrix)) == pytest.approx(value, rel=1e-3)
    assert float(stable_rank(matrix.mT)) == pytest.approx(value, rel=1e-3)


def test_batches_and_numpy_give_what_single_tensors_give() -> None:
    batch = draw(2, 3, SIDE, LARGE)
    ranks = stable_rank(batch)
    assert ranks.shape == (2, 3)
    assert ranks.dtype == torch.float64
    assert float(ranks[1, 2]) == float(stable_rank(batch[1, 2]))
    array = batch.numpy()
    array.flags.writeable = False
    np.testing.assert_array_equal(stable_rank(array), ranks.numpy())
    assert isinstance(stable_rank(array[0, 0]), np.float64)
    assert stable_rank(batch[:0]).shape == (0, 3)


def test_small_matrices_and_gradients_use_the_exact_values() -> None:
    small = draw(LARGE - 1, 2 * LARGE)
    assert float(stable_rank(small)) == pytest.approx(exact(small), rel=1e-12)
    large = MATRICES["random"].clone().requires_grad_()
    value = stable_rank(large)
    assert float(value.detach()) == pytest.approx(exact(large.detach()), rel=1e-12)
    value.backward()
    assert float((large.grad * large.detach()).sum()) == pytest.approx(0, abs=1e-9)  # the stable rank ignores the scale


def test_host_process_is_left_alone_and_results_repeat() -> None:
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    matrix = MATRICES["random"].float()
    first = float(stable_rank(matrix))
    assert torch.equal(state, torch.get_rng_state())
    assert threads == torch.get_num_threads()
    torch.manual_seed(123)
    assert float(stable_rank(matrix)) == first
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert float(stable_rank(matrix)) == first
    torch.set_rng_state(state)
