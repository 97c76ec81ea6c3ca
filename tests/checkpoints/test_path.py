"""The order of a series and its outliers, on made-up paths: how often they are found, and how rarely invented."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from foretrain.checkpoints.measure_checkpoint import SAMPLE, encoded
from foretrain.checkpoints.path import out_of_order, outliers

SEEDS = 40
TENSORS = 6


def walk(kind: str, rng: np.random.Generator, count: int = 10) -> np.ndarray:
    """Positions [checkpoint, tensor, entry] of a made-up training."""
    shape = (count, TENSORS, SAMPLE)
    start, noise = rng.normal(size=shape[1:]), rng.normal(size=shape)
    times = np.array([0, *2.0 ** np.arange(count - 1)]) / 2 ** (count - 2)
    steps = np.diff(times, prepend=0.0)[:, None, None]
    even = np.linspace(0, 1, count)[:, None, None]
    direction = rng.normal(size=shape[1:])
    return {
        "random walk": start + 0.1 * noise.cumsum(0),
        "random walk, doubling steps": start + (np.sqrt(steps) * noise).cumsum(0),
        "straight": start + even * direction,
        "straight, doubling steps": start + times[:, None, None] * direction,
        "settling": start * np.exp(-5 * even) + direction * (1 - np.exp(-5 * even)) + 0.02 * noise,
        "noise around a point": start + 0.1 * noise,
    }[kind]


KINDS = ("random walk", "random walk, doubling steps", "straight", "straight, doubling steps", "settling")


def records(positions: np.ndarray) -> list[dict[str, Any]]:
    def tensors(position: np.ndarray) -> dict[str, Any]:
        return {str(t): {"shape": [64, 64], "digest": "", "sample": encoded(v)} for t, v in enumerate(position)}

    return [{"step": k, "checkpoint": f"step{k}", "tensors": tensors(p)} for k, p in enumerate(positions)]


@pytest.mark.parametrize("kind", [*KINDS, "noise around a point"])
def test_no_fault_is_invented(kind: str) -> None:
    for seed in range(SEEDS):
        sound = records(walk(kind, np.random.default_rng(seed)))
        assert out_of_order(sound) == []
        assert outliers(sound) == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "settling"])
@pytest.mark.parametrize(("one", "other"), [(4, 5), (3, 7), (1, 8), (7, 8)])
def test_exchanged_checkpoints_are_named(kind: str, one: int, other: int) -> None:
    for seed in range(SEEDS // 4):
        positions = walk(kind, np.random.default_rng(seed))
        positions[[one, other]] = positions[[other, one]]
        (fault,) = out_of_order(records(positions))
        assert {fault.checkpoint, *fault.others} == {f"step{one}", f"step{other}"}


def test_one_that_belongs_elsewhere_is_named() -> None:
    positions = walk("straight", np.random.default_rng(0))
    order = [0, 1, 7, 2, 3, 4, 5, 6, 8, 9]
    (fault,) = out_of_order(records(positions[order]))
    assert fault.checkpoint == "step2"
    assert "between step7 and step8" in fault.sentence


@pytest.mark.parametrize("kind", [*KINDS, "noise around a point"])
def test_an_outlier_is_named_and_not_called_out_of_order(kind: str) -> None:
    for seed in range(SEEDS // 4):
        rng = np.random.default_rng(seed)
        positions = walk(kind, rng)
        gap = np.sqrt(np.mean((positions[6] - positions[4]) ** 2))
        positions[5] += 3 * gap * rng.normal(size=positions[5].shape)
        sound_order = out_of_order(records(positions))
        assert sound_order == []
        assert [fault.checkpoint for fault in outliers(records(positions))] == ["step5"]
