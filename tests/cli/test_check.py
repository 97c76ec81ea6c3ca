"""foretrain check: verdicts, exit codes, and going on after an interruption."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from foretrain import papers
from foretrain.cli.terminal import PlainConsole
from foretrain.cli.verdicts import print_verdicts
from foretrain.core.errors import DamagedFile, InputError
from foretrain.core.files import read_record, write_record
from foretrain.ledger.judge import judge
from foretrain.ledger.verdict import Verdict
from foretrain.ledger.verdict_store import VerdictFolder, fingerprint, known
from made_up.fixtures import Foretrain, start, stop_when

FIELDS = {"id", "status", "expected", "margin", "reason", "seconds", "control_status"}


def test_as_expected_is_exit_0(foretrain: Foretrain) -> None:
    printed = foretrain("check", "toy/holds", "misprint*", "--json", "verdicts.json")
    assert printed.code == 0
    assert "3 of 3 verdicts as expected" in printed.err
    rows = json.loads(Path("verdicts.json").read_text())
    assert [row["id"] for row in rows] == ["toy/holds", "toy/misprint", "toy/misprint_corrected"]
    assert [row["status"] for row in rows] == ["holds", "fails", "holds"]
    assert [row["control_status"] for row in rows] == ["fails", "holds", "fails"]
    assert all(set(row) == FIELDS for row in rows)


def test_a_few_claims_are_told_in_sentences_that_fit_the_terminal(
    foretrain: Foretrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foretrain.cli.verdicts.console", lambda *, results: PlainConsole(width=80))
    printed = foretrain("check", "toy/holds", "Theorem 2", "toy/bounds").out
    lines = printed.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "Toys <b>"
    assert "  toy/misprint: Theorem 2, eq. 7" in lines
    printed_at = lines.index("  toy/misprint: Theorem 2, eq. 7") + 1
    assert lines[printed_at].startswith("    as printed  fails  x is ")
    corrected = next(line for line in lines[printed_at:] if line.startswith("    corrected"))
    assert corrected.startswith("    corrected   holds  x agrees ")
    assert "toy/misprint_corrected" not in printed  # it stands under the printed one
    assert "Control, a change of setting that must flip the verdict: all 4 did." in lines
    assert lines[-1] == "Details: foretrain show toy/holds (or any other id above)"


def test_sentences_stand_under_the_name_of_their_paper(
    made_up_papers: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("foretrain.cli.verdicts._paper_name", lambda paper: f"The paper {paper}")
    holds = papers.claims()["toy/holds"]
    claims = {name: replace(holds, id=name) for name in ("one/a", "one/b", "two/a")}
    stuck = replace(judge(claims["two/a"]), control_status="holds")
    print_verdicts(claims, [judge(claims["one/a"]), judge(claims["one/b"]), stuck], results=True)
    lines = capsys.readouterr().out.splitlines()
    headings = [line for line in lines if line.startswith(("The", "  one", "  two"))]
    assert headings == ["The paper one", "  one/a: Lemma 1", "  one/b: Lemma 1", "The paper two", "  two/a: Lemma 1"]
    assert "Control, a change of setting that must flip the verdict: no flip in two/a." in lines


def test_many_claims_are_a_table(foretrain: Foretrain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foretrain.cli.verdicts.IN_SENTENCES", 2)
    lines = foretrain("check", "toy/holds", "Theorem 2").out.splitlines()
    assert lines[2].split() == ["verdict", "claim", "margin", "control", "seconds"]
    assert len([line for line in lines if line.startswith((" holds", " fails"))]) == 3


def test_a_surprise_is_exit_1_and_says_why(foretrain: Foretrain) -> None:
    printed = foretrain("check", "toy/holds", "toy/surprise")
    assert printed.code == 1
    assert "1 of 2 verdicts as expected" in printed.err
    assert "toy/surprise: fails, holds expected: x is" in printed.err


def test_a_claim_that_stops_is_a_surprise_even_without_expectation(foretrain: Foretrain) -> None:
    printed = foretrain("check", "toy/stops", "--json", "-")
    assert printed.code == 1
    (row,) = json.loads(printed.out)  # stdout is JSON and nothing else, and nan is null
    assert row["status"] == "stopped"
    assert row["margin"] is None
    assert "RuntimeError" in row["reason"]


def test_a_claim_without_its_data_is_skipped_and_judged_once_it_is_there(
    foretrain: Foretrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORETRAIN_DATA", "elsewhere")
    text = Path("data", "wikitext-2", "valid.txt")
    text.parent.mkdir(parents=True)
    printed = foretrain("check", "toy/holds", "toy/skips", "--data", "data", "--json", "v.json", "--report", "r.html")
    assert printed.code == 1
    assert "1 of 2 verdicts as expected, 1 skipped because their data is missing" in printed.err
    assert "toy/skips: skipped: There is no " in printed.err
    assert "valid.txt; give a folder that has wikitext-2/valid.txt with --data, or set FORETRAIN_DATA." in printed.err
    assert "  skipped  There is no " in printed.out
    held, missed = json.loads(Path("v.json").read_text())
    assert (held["status"], missed["status"]) == ("holds", "skipped")
    assert missed["control_status"] is None
    page = Path("r.html").read_text()
    for words in ("<strong>Not judged</strong>", 'data-status="skipped"', "Not judged.", "The control was not run."):
        assert words in page
    assert "Not as expected" not in page
    text.write_text("two words")
    assert foretrain("check", "toy/holds", "toy/skips", "--reuse", "--data", "data", "--report", "r.html").code == 0
    assert "2 of 2 verdicts as expected" in Path("r.html").read_text()


def test_warnings_are_kept_with_the_verdict(foretrain: Foretrain) -> None:
    foretrain("check", "toy/surprise")
    verdict = VerdictFolder(Path("runs"), "fast").get(papers.claims()["toy/surprise"])
    assert verdict is not None
    assert verdict.notes == ("2 of 9 runs diverged, the first at step 40.",)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "toy/hlods"], "the nearest names are toy/holds, "),
        (["check", "toy/noise"], "toy/noise is an experiment, not a claim; use foretrain run toy/noise."),
        (["check", "--tierr", "fast"], "--tier); see foretrain check --help."),
        (["chek"], "No such command 'chek'. Did you mean 'check'? See foretrain --help."),
        (["check", "--tier", "fats"], "There is no tier 'fats'"),
        (["check", "--jobs", "0"], "jobs must be at least 1; got 0."),
        (["check", "--json", "."], "--json . is a folder"),
        (["check", "--data", "nowhere"], "data takes a folder; nowhere is not one."),
        (["check", "--report", "/proc/none/report.html"], "cannot be written"),
        (["check", "--runs", "/proc/none"], "cannot be written"),
        (["check", "nothing*", "--report", "r.html"], "Nothing matches 'nothing*'"),
        (["report"], "foretrain report is now foretrain check --report FILE."),
        (["figure", "toy/noise"], "foretrain figure is now foretrain run EXPERIMENT --figure FILE."),
        (["export", "runs"], "foretrain export is now foretrain run RUN --to csv."),
        (["neurons"], "foretrain neurons is now foretrain lab neurons."),
        (["language", "a.txt"], "foretrain language is now foretrain lab language."),
    ],
)
def test_bad_input_is_refused_before_any_work(foretrain: Foretrain, arguments: list[str], words: str) -> None:
    printed = foretrain(*arguments)
    assert printed.code == 2
    assert words in printed.err
    assert len(printed.err.splitlines()) == 1
    assert printed.out == ""
    assert list(Path().iterdir()) == []


def test_a_pattern_that_matches_nothing_gives_three_names(foretrain: Foretrain) -> None:
    near = foretrain("check", "toy/bonds").err.split("nearest names are ")[1].split(". ")[0].split(", ")
    assert len(near) == 3
    assert near[0] == "toy/bounds"


@pytest.fixture
def folder(made_up_papers: None, tmp_path: Path) -> VerdictFolder:
    return VerdictFolder(tmp_path, "fast")


def _put(folder: VerdictFolder, name: str, check: str = "one") -> Verdict:
    claim = papers.claims()[name]
    verdict = judge(claim)
    folder.put(verdict, fingerprint(claim, "fast"), check)
    return verdict


@pytest.mark.parametrize("name", ["toy/holds", "toy/means", "toy/stops", "toy/coverage"])
def test_a_verdict_comes_back_as_it_was(folder: VerdictFolder, name: str) -> None:
    verdict = _put(folder, name)
    back = folder.get(papers.claims()[name], trajectories=True)
    assert back is not None
    assert repr(back) == repr(verdict)  # repr: nan is not equal to itself
    if verdict.prediction is not None:
        assert back.prediction is not None
        assert back.prediction.identical(verdict.prediction)
        assert back.observation is not None
        assert (back.observation.astype(float) == verdict.observation.astype(float)).all()  # type: ignore[union-attr]


def test_a_claim_that_stopped_is_judged_again(folder: VerdictFolder) -> None:
    _put(folder, "toy/stops")
    assert known(folder, [papers.claims()["toy/stops"]]).verdicts == {}


def test_a_verdict_counts_only_for_its_setting_and_its_check(folder: VerdictFolder) -> None:
    claim = papers.claims()["toy/holds"]
    _put(folder, claim.id, check="one")
    assert folder.get(claim, check="one") is not None
    assert folder.get(claim, check="two") is None
    other = claim.__class__(**{**claim.__dict__, "settings": {"fast": {"rate": 3.0}}})
    assert fingerprint(other, "fast") != fingerprint(claim, "fast")
    assert folder.get(other) is None


def test_a_verdict_does_not_outlive_the_source_code(folder: VerdictFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = papers.claims()["toy/holds"]
    _put(folder, claim.id)
    monkeypatch.setattr("foretrain.ledger.verdict_store.module_digest", lambda module: "another")
    assert folder.get(claim) is None


@pytest.mark.parametrize("ending", [".json", ".prediction.nc", ".observation.nc"])
@pytest.mark.parametrize("harm", ["flip", "truncate", "empty"])
def test_damage_is_noticed(folder: VerdictFolder, ending: str, harm: str) -> None:
    claim = papers.claims()["toy/holds"]
    _put(folder, claim.id)
    file = folder.path / f"{claim.id}{ending}"
    content = bytearray(file.read_bytes())
    middle = content.index(b'"margin"') + 12 if ending == ".json" else len(content) // 2
    content[middle] ^= 1
    file.write_bytes({"flip": bytes(content), "truncate": bytes(content[:-7]), "empty": b""}[harm])
    with pytest.raises(DamagedFile, match="damaged"):
        folder.get(claim)
    result = known(folder, [claim])
    assert result.verdicts == {}
    assert len(result.damaged) == 1


def test_a_damaged_verdict_is_judged_again(foretrain: Foretrain) -> None:
    foretrain("check", "toy/holds")
    file = Path("runs/check/fast/toy/holds.json")
    good = json.loads(file.read_text())
    file.write_text(file.read_text().replace('"holds"', '"fails"', 1))
    printed = foretrain("check", "toy/holds", "--reuse")
    assert printed.code == 0
    assert "holds.json is damaged: its contents do not match their seal. Its claim is judged again." in printed.err
    again = json.loads(file.read_text())
    assert again["verdict"]["status"] == good["verdict"]["status"] == "holds"


def test_a_finished_check_starts_anew_and_an_interrupted_one_goes_on(foretrain: Foretrain) -> None:
    foretrain("check", "toy/holds", "toy/bounds")
    first = Path("runs/check/fast/toy/holds.json").read_text()
    printed = foretrain("check", "toy/holds", "toy/bounds")
    assert "Continuing" not in printed.err
    second = Path("runs/check/fast/toy/holds.json").read_text()
    assert second != first

    state = read_record(Path("runs/check/fast/check.json"))
    write_record(Path("runs/check/fast/check.json"), {**state, "status": "running"})
    Path("runs/check/fast/toy/bounds.json").unlink()
    printed = foretrain("check", "toy/holds", "toy/bounds")
    assert "Continuing an interrupted check: 1 of 2" in printed.err
    assert Path("runs/check/fast/toy/holds.json").read_text() == second
    assert Path("runs/check/fast/toy/bounds.json").exists()


def test_ids_cannot_leave_their_folder(folder: VerdictFolder) -> None:
    for name in ("../up", "toy/../../up", "/etc/passwd", "toy/a/b", "toy"):
        with pytest.raises(InputError, match="cannot be the id"):
            folder.seconds(name)


def test_killed_in_the_middle_the_same_check_goes_on(foretrain: Foretrain, tmp_path: Path) -> None:
    """kill -9 after the first of three slow claims."""
    saved = tmp_path / "runs/check/fast/toy"
    killed = stop_when(
        start("check", "toy/slow", folder=tmp_path),
        lambda: any(saved.glob("*.json")),
        signal.SIGKILL,
    )
    assert killed.code == -signal.SIGKILL
    done = {file.name: file.read_bytes() for file in saved.glob("*.json")}
    assert 1 <= len(done) < 3
    printed = foretrain("check", "toy/slow", "--json", "-")
    assert printed.code == 0
    assert f"Continuing an interrupted check: {len(done)} of 3" in printed.err
    assert [row["status"] for row in json.loads(printed.out)] == ["holds"] * 3
    assert {name: (saved / name).read_bytes() for name in done} == done


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_by_hand_or_by_a_job_scheduler(tmp_path: Path, how: signal.Signals) -> None:
    saved = tmp_path / "runs/check/fast/toy"
    printed = stop_when(
        start("check", "toy/slow", "--jobs", "2", folder=tmp_path), lambda: any(saved.glob("*.json")), how
    )
    assert printed.code == 130
    assert printed.err.splitlines()[-1] == (
        "Interrupted; finished work is saved. Run the same command again to continue."
    )
    assert "Traceback" not in printed.err
