"""foretrain.find: claims and experiments by id, by number or by words, with the expected verdict and the last one."""

from __future__ import annotations

from pathlib import Path

import pytest

import foretrain
from foretrain.core.errors import InputError


def test_find_gives_claims_and_experiments(made_up_papers: None, tmp_path: Path) -> None:
    found = foretrain.find("toy/holds", "toy/noise", runs=tmp_path)
    assert (list(found.claims), list(found.experiments)) == (["toy/holds"], ["toy/noise"])
    assert list(found.table["kind"]) == ["claim", "experiment"]
    kinds = (foretrain.find(kind="claim"), foretrain.find(kind="experiment"))
    assert len(foretrain.find(runs=tmp_path)) == sum(map(len, kinds)) > len(kinds[0]) > 0


def test_the_last_verdict_stands_beside_the_expected_one(made_up_papers: None, tmp_path: Path) -> None:
    assert foretrain.find("toy/surprise", runs=tmp_path).last == {"toy/surprise": "never"}
    foretrain.check("toy/surprise", runs=tmp_path)
    row = foretrain.find("toy/surprise", runs=tmp_path).table.loc["toy/surprise"]
    assert (row["expected"], row["last"]) == ("holds", "fails (fast)")
    (tmp_path / "check/fast/toy/surprise.json").write_text("{}")
    assert foretrain.find("toy/surprise", runs=tmp_path).last == {"toy/surprise": "damaged (fast)"}


def test_a_paper_s_name_in_front_limits_a_query_to_it() -> None:
    assert {id.partition("/")[0] for id in foretrain.find("Theorem 4").claims} > {"scan_snap"}
    assert {id.partition("/")[0] for id in foretrain.find("scan_snap Theorem 4").claims} == {"scan_snap"}


def test_what_matches_nothing_is_refused(made_up_papers: None) -> None:
    with pytest.raises(InputError, match="Nothing matches"):
        foretrain.find("toy/hodls")
    with pytest.raises(InputError, match="is a claim, not an experiment"):
        foretrain.find("toy/holds", kind="experiment")


def test_the_door_is_clean() -> None:
    names = {"__version__", "Monitor", "check", "find", "forecast", "load", "report", "run", "sweep"}
    assert names < set(dir(foretrain))
    assert sorted(dir(foretrain)) == sorted(foretrain.__all__)
    assert all(getattr(foretrain, name) is not None for name in dir(foretrain))
    assert foretrain.__version__.count(".") == 2
