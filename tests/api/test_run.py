"""foretrain.run: an experiment from Python, with everything that the command can do."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
import pytest

import foretrain
from foretrain.core.errors import InputError


def test_a_run_has_numbers_a_picture_and_a_table(made_up_papers: None, tmp_path: Path) -> None:
    done = foretrain.run("toy/noise", seeds=2, steps=3, out=tmp_path)
    assert dict(done.dataset().sizes)["time"] == 3
    assert isinstance(done.figure(), go.Figure)
    assert "Plotly.newPlot" in done.write_figure(tmp_path / "noise.html").read_text()
    table = pd.read_csv(done.export(str(tmp_path / "noise.csv")))
    assert len(table) == done.dataset().level.size
    assert not done.reused
    assert foretrain.run("toy/noise", seeds=2, steps=3, out=tmp_path).reused
    assert not foretrain.run("toy/noise", seeds=2, steps=3, out=tmp_path, fresh=True).reused


def test_a_run_is_of_tier_fast_unless_told_otherwise(made_up_papers: None, tmp_path: Path) -> None:
    sizes = {tier: foretrain.run("toy/plain", tier=tier, out=tmp_path).dataset().x.size for tier in ("fast", "paper")}
    assert foretrain.run("toy/plain", out=tmp_path).dataset().x.size == sizes["fast"] < sizes["paper"]


def test_a_grid_is_part_of_a_run(made_up_papers: None, tmp_path: Path) -> None:
    done = foretrain.run("toy/plain", grid={"offset": "0:1:3"}, out=tmp_path)
    assert done.dataset().offset.values.tolist() == [0, 0.5, 1]
    assert done.conclusion() == ""


def test_a_single_value_is_a_list_of_one(made_up_papers: None, tmp_path: Path) -> None:
    done = foretrain.run("toy/noise", seeds=1, eta_z=0.5, out=tmp_path)
    assert done.dataset().eta_z.values.tolist() == [0.5]
    assert foretrain.run("toy/noise", seeds=[1], eta_z=(0.5,), out=tmp_path).reused


@pytest.mark.parametrize("experiment", ["scan_snap/fig7", "joma/fig8"])
def test_a_former_name_leads_to_the_new_one(experiment: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no setting 'layers'; the nearest names are depth, "):
        foretrain.run(experiment, layers=2, out=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"steps": 3, "grid": {"steps": [1, 2]}}, "steps is given both as a grid and as one value"),
        ({"stesp": 3}, "There is no setting 'stesp'"),
        ({"seeds": 2, "grid": {"seeds": [1]}}, "The seeds are given twice"),
        ({"tier": "fats"}, "There is no tier 'fats'"),
        ({"jobs": 0}, "jobs must be at least 1"),
        ({"eta_z": "fast"}, "eta_z takes .*; got 'fast'"),
        ({"eta_zs": 1.0}, "There is no setting 'eta_zs'; the nearest names are eta_z, "),
        ({"grid": {"seedss": [1]}}, "There is no setting 'seedss'; the nearest names are seeds, "),
    ],
)
def test_what_cannot_be_run_is_refused(
    made_up_papers: None, tmp_path: Path, arguments: dict[str, object], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        foretrain.run("toy/noise", out=tmp_path / "runs", **arguments)  # type: ignore[arg-type]
    assert not (tmp_path / "runs").exists()
