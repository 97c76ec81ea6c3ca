"""Fig 7 and 10 on a small GPT: what the claims read off a kept result, on made-up ranks and shares."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from foretrain.core.trajectory import ORIGIN, save, trajectory
from foretrain.ledger.judge import _observe_once, judge
from foretrain.papers.joma.claims import superposition

pytestmark = pytest.mark.filterwarnings("ignore:Judged from:UserWarning")


@pytest.fixture(autouse=True)
def kept_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FORETRAIN_RESULTS", str(tmp_path))
    _observe_once.cache_clear()  # what was read from another folder
    return tmp_path


def keep(made: xr.Dataset, experiment: str, folder: Path) -> None:
    origin = {"experiment": experiment, "code": "0123456789ab", "exported": "2026-01-01"}
    save(made.assign_attrs({ORIGIN: json.dumps(origin)}), folder / f"{experiment.replace('/', '_')}.nc")


def keep_ranks(folder: Path, bottom: list[float], top: list[float]) -> None:
    walk = [10.0, 10.0, 10.0]
    ranks = np.stack([np.stack([bottom, top], -1), np.stack([walk, walk], -1)])[:, None]
    coords = {"weights": ["trained", "random walk"], "seed": [1], "step": [0, 10, 1000], "layer": [0, 1]}
    keep(trajectory({"stable_rank": (("weights", "seed", "step", "layer"), ranks)}, coords), "joma/fig7", folder)


@pytest.mark.parametrize(
    ("top", "status"), [([10.0, 5.0, 8.0], "holds"), ([10.0, 5.0, 5.0], "fails"), ([10.0, 9.8, 12.0], "fails")]
)
def test_fig7_the_top_layer_drops_and_bounces_back(top: list[float], status: str, kept_here: Path) -> None:
    keep_ranks(kept_here, [10.0, 5.0, 5.0], top)
    verdict = judge(superposition.top)
    assert (verdict.status, verdict.control_status) == (status, "fails")


@pytest.mark.parametrize(("bottom", "status"), [([10.0, 5.0, 5.0], "holds"), ([10.0, 5.0, 8.0], "fails")])
def test_fig7_the_bottom_layer_drops_and_stays(bottom: list[float], status: str, kept_here: Path) -> None:
    keep_ranks(kept_here, bottom, [10.0, 5.0, 8.0])
    verdict = judge(superposition.bottom)
    assert (verdict.status, verdict.control_status) == (status, "holds")  # the first 128 steps have the drop only


@pytest.mark.parametrize(("share", "status"), [(0.2, "holds"), (0.01, "fails")])
def test_fig10_is_the_share_of_neurons_with_unrelated_patterns(share: float, status: str, kept_here: Path) -> None:
    values = np.stack([np.full((1, 2, 2), 0.001), np.full((1, 2, 2), share)])
    coords = {"model": ["untrained", "trained"], "text": ["real"], "seed": [1, 2], "layer": [0, 1]}
    made = trajectory({"superposed": (("model", "text", "seed", "layer"), values)}, coords)
    keep(made, "joma/fig10", kept_here)
    verdict = judge(superposition.superposition)
    assert (verdict.status, verdict.control_status) == (status, "fails")
