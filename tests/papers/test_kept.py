"""Kept results: found, dated, and not taken for those of another experiment."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from foretrain.core.errors import DamagedFile, InputError, MissingData
from foretrain.core.trajectory import ORIGIN, save, trajectory
from foretrain.papers.kept import code_now, is_old, kept, origin_of, results_folder


def keep(folder: Path, name: str, experiment: str, days: int = 0, code: str = "0123456789ab") -> Path:
    made = {"experiment": experiment, "code": code, "exported": str(date.today() - timedelta(days))}
    dataset = trajectory({"x": ("time", [1.0, 2.0])}, {"time": [0, 1]}).assign_attrs({ORIGIN: json.dumps(made)})
    return save(dataset, folder / name)


def test_a_kept_result_says_how_old_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORETRAIN_RESULTS", str(tmp_path))
    for days, words in ((0, "today"), (1, "yesterday"), (40, "40 days ago")):
        keep(tmp_path, "toy_fig1.nc", "toy/fig1", days)
        with pytest.warns(UserWarning, match=rf"toy_fig1.nc, computed {words} .* by code 0123456789ab"):
            dataset = kept("toy/fig1")
        assert dataset.x.values.tolist() == [1.0, 2.0]
        assert origin_of(dataset)["experiment"] == "toy/fig1"


def test_a_kept_result_of_other_code_is_called_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORETRAIN_RESULTS", str(tmp_path))
    now = code_now("deep_linear/modes")
    for code, old in (("0123456789ab", True), (now, False)):
        keep(tmp_path, "deep_linear_modes.nc", "deep_linear/modes", code=code)
        with pytest.warns(UserWarning, match=f"by code {code}") as caught:
            dataset = kept("deep_linear/modes")
        assert is_old(dataset) is old
        assert (f"has changed since (it is {now} now)" in str(caught[0].message)) is old


def test_missing_foreign_and_damaged_results_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert results_folder() == Path(__file__).parents[2] / "docs" / "results"
    monkeypatch.setenv("FORETRAIN_RESULTS", str(tmp_path))
    with pytest.raises(MissingData, match="foretrain run toy/fig1 --tier full"):
        kept("toy/fig1")
    keep(tmp_path, "toy_fig1.nc", "toy/fig2")
    with pytest.raises(InputError, match="is a result of toy/fig2, not toy/fig1"):
        kept("toy/fig1")
    file = keep(tmp_path, "toy_fig1.nc", "toy/fig1")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(DamagedFile):
        kept("toy/fig1")
