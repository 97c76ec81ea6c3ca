"""Fig 7 and 10 on WikiText-2: what the claims read off a kept result, on made-up curves whose shape is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from foretrain.core.trajectory import ORIGIN, save, trajectory
from foretrain.ledger.judge import _observe_once, judge
from foretrain.papers.scan_snap.claims import wikitext

pytestmark = pytest.mark.filterwarnings("ignore:Judged from:UserWarning")
STEPS = np.linspace(0, 2000, 21)


@pytest.fixture(autouse=True)
def kept_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FORETRAIN_RESULTS", str(tmp_path))
    _observe_once.cache_clear()  # what was read from another folder
    return tmp_path


def keep_fig7(folder: Path, fall: float, late: float) -> None:
    """At rate 5 entropy falls by `fall` and attention ends at `late` of its speed; at rate 0.05 it speeds up."""
    entropy, movement = np.zeros((2, 2, 2, 21)), np.zeros((2, 2, 2, 21))
    entropy[:, 1], movement[:, 1] = 2.5 - fall * STEPS / 2000, np.where(STEPS > 1000, late, 1.0)
    entropy[:, 0], movement[:, 0] = 2.5 - 0.1 * STEPS / 2000, STEPS / 2000
    movement[..., 0] = np.nan
    axes = ("depth", "rate", "seed", "step")
    made = trajectory(
        {"entropy": (axes, entropy), "movement": (axes, movement)},
        {"depth": [1, 3], "rate": [0.05, 5.0], "seed": [1, 2], "step": STEPS},
    )
    _keep(made, "scan_snap/fig7", folder)


def keep_fig10(folder: Path, entropies: list[float], variant: str = "") -> None:
    noise = np.array([0.01, -0.01, 0.02, 0.0, -0.02])
    end = np.array(entropies)[:, None] + noise * np.array([1.0, 2.0, 3.0])[:, None]
    values = np.stack([np.broadcast_to(2.5 + noise, end.shape), end], -1)[:, None]
    made = trajectory(
        {"entropy": (("rate", "text", "seed", "step"), values)},
        {"rate": [0.5, 1.5, 5.0], "text": ["real"], "seed": [1, 2, 3, 4, 5], "step": [0, 1000]},
    )
    _keep(made, "scan_snap/fig10", folder, variant)


def _keep(made: object, experiment: str, folder: Path, variant: str = "") -> None:
    origin = {"experiment": experiment, "code": "0123456789ab", "exported": "2026-01-01"}
    name = "_".join([*experiment.split("/"), *filter(None, [variant])])
    save(made.assign_attrs({ORIGIN: json.dumps(origin)}), folder / f"{name}.nc")  # type: ignore[attr-defined]


@pytest.mark.parametrize(("fall", "status"), [(1.0, "holds"), (0.1, "fails")])
def test_fig7_needs_a_fall_of_entropy(fall: float, status: str, kept_here: Path) -> None:
    keep_fig7(kept_here, fall, late=0.1)
    verdict = judge(wikitext.sparse)
    assert (verdict.status, verdict.control_status) == (status, "fails")


@pytest.mark.parametrize(("late", "status"), [(0.1, "holds"), (0.9, "fails")])
def test_fig7_freezes_if_attention_slows_down(late: float, status: str, kept_here: Path) -> None:
    keep_fig7(kept_here, 1.0, late)
    verdict = judge(wikitext.freezes)
    assert (verdict.status, verdict.control_status) == (status, "fails")


@pytest.mark.parametrize(
    ("entropies", "status"), [([2.0, 1.5, 0.5], "holds"), ([2.0, 2.0, 0.5], "fails"), ([1.0, 1.5, 2.0], "fails")]
)
def test_fig10_needs_less_entropy_at_every_larger_rate(entropies: list[float], status: str, kept_here: Path) -> None:
    keep_fig10(kept_here, entropies)
    keep_fig10(kept_here, [2.5, 2.5, 1.0], "early")
    verdict = judge(wikitext.by_rate)
    assert (verdict.status, verdict.control_status) == (status, "fails")
