"""Refreshing spectra while the weights move."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from foretrain.core.errors import InputError
from foretrain.measures import SpectrumTracker, effective_rank, lanczos

SIDE = 320


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def exact(matrix: Tensor) -> float:
    squares = torch.linalg.svdvals(matrix.double()).square()
    return float(squares.sum() / squares.max())


def moved(matrix: Tensor, share: float, seed: int) -> Tensor:
    move = draw(*matrix.shape, seed=seed)
    return matrix + share * matrix.norm() / move.norm() * move


def perpendicular(vector: Tensor, rows: Tensor) -> Tensor:
    basis = torch.linalg.qr(rows.mT)[0]
    vector = vector - basis @ (basis.mT @ vector)
    return vector / vector.norm()


POWER = draw(SIDE, SIDE) * torch.arange(1, SIDE + 1) ** -0.5
SPIKED = draw(2 * SIDE, SIDE) + 90 * torch.outer(draw(2 * SIDE, seed=1), draw(SIDE, seed=2)) / SIDE
START = {"random": draw(SIDE, 2 * SIDE), "square": draw(SIDE, SIDE), "power law": POWER, "spiked": SPIKED}


@pytest.mark.parametrize("share", [0.003, 0.03])
@pytest.mark.parametrize("name", START)
def test_refreshes_follow_moving_weights(name: str, share: float) -> None:
    tracker, matrix = SpectrumTracker(), START[name]
    tracker.refresh(name, matrix)
    for seed in range(8):
        matrix = moved(matrix, share, seed)
        spectrum = tracker.refresh(name, matrix)
        assert spectrum.stable_rank == pytest.approx(exact(matrix), rel=1e-3)
        assert spectrum.largest == pytest.approx(float(torch.linalg.matrix_norm(matrix.double(), 2)), rel=5e-4)
        assert spectrum.norm == pytest.approx(float(matrix.double().norm()), rel=1e-6)
        assert spectrum.error <= lanczos.TOLERANCE


def test_a_refresh_needs_far_fewer_steps_than_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, top = [], lanczos.top
    monkeypatch.setattr(lanczos, "top", lambda *a, **k: (found := top(*a, **k), steps.append(found.steps))[0])
    tracker = SpectrumTracker()
    for seed in range(5):
        tracker.refresh("W", moved(START["square"], 0.003, seed))
    assert steps[0] >= 20
    assert max(steps[1:]) <= 8


def _found(start: Tensor, size: float, seed: int) -> bool:
    """Whether a direction perpendicular to everything known, and this much larger, is found at the next refresh."""
    tracker = SpectrumTracker()
    largest = tracker.refresh("W", start).largest
    known = tracker._last["W"].vectors
    left = perpendicular(draw(len(start), seed=seed), known @ start.mT)
    new = start + size * largest * torch.outer(left, perpendicular(draw(SIDE, seed=seed + 1000), known))
    return tracker.refresh("W", new).stable_rank == pytest.approx(exact(new), rel=1e-3)


@pytest.mark.parametrize("size", [1.3, 2, 5])
@pytest.mark.parametrize("name", ["square", "spiked"])
def test_an_emerging_direction_is_found_at_the_next_refresh(name: str, size: float) -> None:
    assert all(_found(START[name], size, seed) for seed in range(10))


def test_without_the_random_direction_it_would_be_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanczos, "FRESH", 0)
    assert sum(_found(SPIKED, 2, seed) for seed in range(10)) <= 2  # rounding is random too, so not always


def test_other_weights_under_the_same_name_are_no_problem() -> None:
    tracker = SpectrumTracker()
    for matrix in (START["square"], START["random"], POWER, draw(SIDE + 9, SIDE + 7), POWER.double(), POWER.bfloat16()):
        assert tracker.refresh("W", matrix).stable_rank == pytest.approx(exact(matrix), rel=1e-3)


def test_refreshes_repeat_and_leave_torch_alone() -> None:
    def ranks() -> list[float]:
        tracker = SpectrumTracker()
        return [tracker.refresh("W", moved(POWER, 0.01, seed)).stable_rank for seed in range(4)]

    first, state = ranks(), torch.get_rng_state()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ranks() == first
    assert torch.equal(state, torch.get_rng_state())
    weight = torch.nn.Parameter(POWER)
    assert SpectrumTracker().refresh("W", weight).stable_rank == SpectrumTracker().refresh("W", POWER).stable_rank
    assert weight.grad is None


@pytest.mark.parametrize("matrix", [POWER, draw(20, 30), draw(1, 700)], ids=["large", "small", "row"])
def test_the_effective_rank_is_that_of_measures(matrix: Tensor) -> None:
    spectrum = SpectrumTracker().refresh("W", matrix, full=True)
    assert spectrum.effective_rank == pytest.approx(float(effective_rank(matrix.double())), rel=1e-6)
    assert spectrum.stable_rank == pytest.approx(exact(matrix), rel=1e-6)
    assert spectrum.error == 0


def test_the_effective_rank_of_a_large_matrix_is_left_out_unless_asked_for() -> None:
    assert SpectrumTracker().refresh("W", POWER).effective_rank is None


def test_without_convergence_all_singular_values_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    top = lanczos.top
    monkeypatch.setattr(lanczos, "top", lambda *a, **k: top(*a, **(k | {"first": 3, "most": 3})))
    spectrum = SpectrumTracker().refresh("W", START["square"])
    assert spectrum.stable_rank == pytest.approx(exact(START["square"]), rel=1e-6)
    assert spectrum.error == 0


@pytest.mark.parametrize("side", [5, SIDE])
def test_a_matrix_that_has_no_spectrum_is_named(side: int) -> None:
    tracker = SpectrumTracker()
    broken = torch.ones(side, side)
    broken[2, 3] = math.nan
    with pytest.raises(InputError, match=r"^h\.3\.attn has an entry that is infinite or not a number\.$"):
        tracker.refresh("h.3.attn", broken)
    with pytest.raises(InputError, match=r"h\.3\.attn has no entries"):
        tracker.refresh("h.3.attn", torch.ones(0, side))
    zero = tracker.refresh("h.3.attn", torch.zeros(side, side))
    assert (zero.norm, zero.largest) == (0, 0)
    assert math.isnan(zero.stable_rank)
    assert tracker.refresh("h.3.attn", torch.eye(side)).stable_rank == pytest.approx(side)
