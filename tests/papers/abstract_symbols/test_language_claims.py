"""Fig 6, 7 and 24: what the claims read off a kept result, on made-up numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from foretrain.core.trajectory import ORIGIN, save, trajectory
from foretrain.ledger.judge import _observe_once, judge
from foretrain.papers.abstract_symbols.claims import language

pytestmark = pytest.mark.filterwarnings("ignore:Judged from:UserWarning")
SPREAD = np.array([0.01, -0.01, 0.02])


@pytest.fixture(autouse=True)
def kept_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FORETRAIN_RESULTS", str(tmp_path))
    _observe_once.cache_clear()  # what was read from another folder
    return tmp_path


def keep(made: xr.Dataset, experiment: str, folder: Path) -> None:
    origin = {"experiment": experiment, "code": "0123456789ab", "exported": "2026-01-01"}
    save(made.assign_attrs({ORIGIN: json.dumps(origin)}), folder / f"{experiment.replace('/', '_')}.nc")


def keep_fig6(folder: Path, gain: float) -> None:
    """Scalings raise the loss by .1 after 40 steps and lower it by `gain` after 400."""
    early, end = (np.stack([np.full(3, 5.0), 5.0 - gain + SPREAD]) for gain in (-0.1, gain))
    loss = np.stack([np.full((2, 3), 9.0), early, end], -1)
    coords = {"scaling": ["none", "trained"], "seed": [1, 2, 3], "step": [0, 40, 400]}
    keep(trajectory({"validation_loss": (("scaling", "seed", "step"), loss)}, coords), "abstract_symbols/fig6", folder)


def keep_fig7(folder: Path, gain: float, diagonal: float) -> None:
    """Pretraining lowers the test loss by `gain`, twice as far in the deeper model, and not with few samples in the
    other one; it raises one product's share."""
    loss = np.ones((2, 3, 2, 4))
    loss[0, :, 1, :2] -= SPREAD[:, None]
    loss[0, :, 1, 2:] -= (gain + SPREAD)[:, None]
    loss[1, :, 1] -= (2 * gain + SPREAD)[:, None]
    share = np.full((2, 3, 2), 0.1)
    raised = share.copy()
    share[:, :, 1] -= 1e-12 * np.arange(1, 4)  # another run, in which it stays as good as the same
    raised[:, :, 1] = -(0.1 + diagonal + SPREAD)  # a diagonal may be negative
    coords = {"depth": [1, 2], "seed": [1, 2, 3], "start": ["random", "pretrained"], "n": [16, 64, 256, 1024]}
    axes = ("depth", "seed", "start")
    made = trajectory(
        {
            "test_loss": ((*axes, "n"), loss),
            "identity_query_key": (axes, share),
            "identity_value_output": (axes, raised),
        },
        coords,
    )
    keep(made, "abstract_symbols/fig7", folder)


@pytest.mark.parametrize(("gain", "status"), [(0.2, "holds"), (0.01, "inconclusive"), (-0.2, "fails")])
def test_fig6_is_the_paired_gain_of_scalings(gain: float, status: str, kept_here: Path) -> None:
    keep_fig6(kept_here, gain)
    verdict = judge(language.fig6)
    assert (verdict.status, verdict.control_status) == (status, "fails")


@pytest.mark.parametrize(("gain", "status"), [(0.2, "holds"), (-0.2, "fails")])
def test_fig7_and_fig24_are_the_gains_of_pretraining_and_of_depth(gain: float, status: str, kept_here: Path) -> None:
    keep_fig7(kept_here, gain, 0.3)
    assert judge(language.fig7).status == judge(language.fig24).status == status
    assert judge(language.fig7).control_status == "fails"


@pytest.mark.parametrize(("diagonal", "status"), [(0.3, "holds"), (-0.05, "fails")])
def test_fig7_diagonals_count_by_size(diagonal: float, status: str, kept_here: Path) -> None:
    keep_fig7(kept_here, 0.2, diagonal)
    run = language._diagonals(("query_key", "value_output"))["identity_rise"]
    assert float(run.mean()) == pytest.approx(max(diagonal + SPREAD.mean(), 0.0), abs=1e-9)
    verdict = judge(language.diagonals)
    assert (verdict.status, verdict.control_status) == (status, "fails")
