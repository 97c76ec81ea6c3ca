"""Fig 6 and 8 on WikiText-2: what the claims read off a kept result, on made-up curves whose shape is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from foretrain.core.trajectory import ORIGIN, save, trajectory
from foretrain.ledger.judge import _observe_once, judge
from foretrain.papers.joma.claims import wikitext

pytestmark = pytest.mark.filterwarnings("ignore:Judged from:UserWarning")
STEPS = np.arange(0, 4001, 100)
RATES = (1e-4, 1e-3, 1e-2)


def curves(dip: float, rebound: float) -> xr.Dataset:
    """Entropy falls by `dip` over 2000 steps and comes back by `rebound`; at rate 1e-2 it falls to 0 and stays.

    The loss falls furthest at 1e-3 and least at 1e-2, where it falls within 100 steps; elsewhere it takes 400.
    """
    fall, rise = np.clip(STEPS / 2000, 0, 1), np.clip(STEPS / 2000 - 1, 0, 1)
    shape = 2.5 - dip * fall + rebound * rise
    entropy = np.zeros((2, 3, 1, 2, len(STEPS), 3))
    entropy[:, :2] = (shape[:, None] + [0.0, 0.2, 0.4])[None, None, None, None]
    entropy[:, 2] = np.where(STEPS == 0, 2.5, 0.0)[:, None]
    entropy[0, ..., 1:] = np.nan
    by_rate = [6 - fall * np.clip(STEPS / steps, 0, 1) for fall, steps in ((1.0, 400), (1.2, 400), (0.5, 100))]
    loss = np.broadcast_to(np.array(by_rate)[None, :, None, None, :], entropy.shape[:-1])
    made = {"experiment": "joma/fig8", "code": "0123456789ab", "exported": "2026-01-01"}
    axes = ("depth", "rate", "text", "seed", "step")
    return trajectory(
        {"entropy": ((*axes, "layer"), entropy), "validation_loss": (axes, loss)},
        {"depth": [1, 3], "rate": list(RATES), "text": ["real"], "seed": [1, 2], "step": STEPS, "layer": [0, 1, 2]},
    ).assign_attrs({ORIGIN: json.dumps(made)})


@pytest.mark.parametrize(("dip", "rebound", "status"), [(1.0, 0.3, "holds"), (1.0, 0.0, "fails"), (0.2, 0.2, "fails")])
def test_fig8_needs_a_dip_and_a_rebound(
    dip: float, rebound: float, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORETRAIN_RESULTS", str(tmp_path))
    save(curves(dip, rebound), tmp_path / "joma_fig8.nc")
    claim = wikitext.fig8
    assert claim.compare(claim.prediction({}), claim.observe(**claim.setting("fast"))).status == status


def test_the_shape_is_read_off_smoothed_curves() -> None:
    shape = wikitext._shape(curves(1.0, 0.3)["entropy"].sel(depth=1, rate=1e-4, text="real", layer=0).mean("seed"))
    assert float(shape["fall"]) == pytest.approx(1.0, abs=0.1)
    assert float(shape["comeback"]) == pytest.approx(0.3, abs=0.1)


def test_fig6_and_the_losses_of_fig8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORETRAIN_RESULTS", str(tmp_path))
    save(curves(1.0, 0.3), tmp_path / "joma_fig8.nc")
    _observe_once.cache_clear()  # what was read from another folder
    for claim in (wikitext.top_layers, wikitext.lowest_loss):
        verdict = judge(claim)
        assert (verdict.status, verdict.control_status) == ("holds", "fails"), claim.id
    far = judge(wikitext.published)
    assert far.status == "fails"
    assert far.expected is None
    _observe_once.cache_clear()
