"""foretrain.check and foretrain.report, and how claims and verdicts look in a notebook."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from foretrain import papers
from foretrain.api.check import check
from foretrain.api.report import report
from foretrain.core.errors import InputError
from foretrain.core.files import read_record, write_record
from foretrain.ledger.judge import judge


def test_check_gives_a_table_of_verdicts(made_up_papers: None, tmp_path: Path) -> None:
    checked = check("toy/holds", "misprint*", runs=tmp_path)
    assert (checked.as_expected, len(checked)) == (True, 3)
    assert checked.summary.startswith("3 of 3 verdicts as expected (tier fast, ")
    table = checked.table
    assert list(table.index) == ["toy/holds", "toy/misprint", "toy/misprint_corrected"]
    assert list(table["verdict"]) == ["holds", "fails", "holds"]
    assert table["as expected"].all()
    assert table.loc["toy/misprint", "whose"] == "the paper's statement"


def test_check_refuses_what_is_not_there(made_up_papers: None, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Nothing matches|nearest"):
        check("nothing*", runs=tmp_path / "runs")
    with pytest.raises(InputError, match="tier"):
        check("toy/holds", tier="fats", runs=tmp_path / "runs")
    with pytest.raises(InputError, match="jobs must be at least 1"):
        check("toy/holds", jobs=0, runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_check_goes_on_where_it_stopped_and_takes_saved_verdicts_on_request(
    made_up_papers: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As the command does: both are one function."""
    caplog.set_level(logging.INFO, "foretrain")

    def content() -> str:
        return (tmp_path / "check/fast/toy/holds.json").read_text()

    check("toy/holds", "toy/bounds", runs=tmp_path)
    first = content()
    assert check("toy/holds", runs=tmp_path, reuse=True).verdicts["toy/holds"].status == "holds"
    assert content() == first
    check("toy/holds", "toy/bounds", runs=tmp_path)
    second = content()
    assert second != first
    record = tmp_path / "check/fast/check.json"
    write_record(record, {**read_record(record), "status": "running"})
    (tmp_path / "check/fast/toy/bounds.json").unlink()
    check("toy/holds", "toy/bounds", runs=tmp_path)
    assert content() == second
    assert caplog.messages == ["Continuing an interrupted check: 1 of 2 claims are done."]


def test_a_data_folder_is_for_this_check_only(
    made_up_papers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORETRAIN_DATA", "elsewhere")
    (tmp_path / "data/wikitext-2").mkdir(parents=True)
    (tmp_path / "data/wikitext-2/valid.txt").write_text("two words")
    checked = check("toy/skips", runs=tmp_path / "runs", data=tmp_path / "data")
    assert checked.verdicts["toy/skips"].status == "holds"
    assert os.environ["FORETRAIN_DATA"] == "elsewhere"


def test_a_report_takes_saved_verdicts(made_up_papers: None, tmp_path: Path) -> None:
    runs, page = tmp_path / "runs", tmp_path / "report.html"
    check("toy/holds", runs=runs)
    before = (runs / "check/fast/toy/holds.json").read_bytes()
    assert report("toy/holds", "toy/bounds", file=page, runs=runs) == page
    assert "2 of 2 verdicts as expected" in page.read_text()
    assert (runs / "check/fast/toy/holds.json").read_bytes() == before


def test_notebooks_show_claims_and_verdicts_with_words_escaped(made_up_papers: None) -> None:
    claim = papers.claim("toy/holds")
    assert "&lt;script&gt;" in claim._repr_html_()
    assert "<script>" not in claim._repr_html_()
    shown = judge(claim)._repr_html_()
    for words in ("toy/holds", "holds", "× inside", "fails:"):
        assert words in shown
