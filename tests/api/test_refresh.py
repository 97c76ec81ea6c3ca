"""Kept results whose code has changed are computed again; the others, and those of other claims, are left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from foretrain.api import refresh as module
from foretrain.api.refresh import refresh
from foretrain.core.errors import MissingData
from foretrain.core.trajectory import ORIGIN, save, trajectory
from foretrain.papers.kept import code_now


@pytest.fixture(autouse=True)
def kept_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FORETRAIN_RESULTS", str(tmp_path))
    arguments = {"seed": [1, 2], "steps": 7, "an old name": 3}
    codes = {"scan_snap/fig7": "0123456789ab", "scan_snap/fig10": code_now("scan_snap/fig10"), "joma/fig8": "0" * 12}
    for experiment, code in codes.items():
        origin = {"experiment": experiment, "code": code, "exported": "2026-01-01", "arguments": arguments}
        made = trajectory({"x": 1.0}).assign_attrs({ORIGIN: json.dumps(origin)})
        save(made, tmp_path / f"{experiment.replace('/', '_')}.nc")
    return tmp_path


def test_only_what_is_old_and_used_is_computed_again(kept_here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, exported = [], []

    class Done:
        def export(self, to: str) -> None:
            exported.append(to)

    def run(experiment: str, **arguments: Any) -> Done:
        runs.append((experiment, arguments))
        return Done()

    monkeypatch.setattr(module, "run", run)
    assert refresh("scan_snap/fig7", "scan_snap/fig10", jobs=2, runs="here") == []
    assert runs == [("scan_snap/fig7", {"tier": "full", "out": "here", "jobs": 2, "seeds": [1, 2], "steps": 7})]
    assert exported == [str(kept_here / "scan_snap_fig7.nc")]


def test_a_result_that_cannot_be_computed_stays_and_says_what_it_needs(
    kept_here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(experiment: str, **_: Any) -> None:
        raise MissingData("There is no WikiText-2 here.")

    monkeypatch.setattr(module, "run", run)
    before = (kept_here / "scan_snap_fig7.nc").read_bytes()
    assert refresh("scan_snap/fig7") == ["scan_snap_fig7.nc stays as it is: There is no WikiText-2 here."]
    assert (kept_here / "scan_snap_fig7.nc").read_bytes() == before
