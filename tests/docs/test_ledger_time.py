"""How the time of the ledger divides over workers, as docs/scale.md says."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.ledger_time import groups, main, makespan

from foretrain import papers
from foretrain.ledger.verdict_store import VerdictFolder, judge_all
from made_up.fixtures import made_up_papers

__all__ = ["made_up_papers"]


def test_the_longest_go_first_and_the_longest_decides() -> None:
    assert makespan([5, 4, 3, 3, 3], 1) == 18
    assert makespan([3, 3, 3, 4, 5], 2) == 10
    assert makespan([3, 3, 3, 4, 5], 9) == 5


@pytest.mark.usefixtures("made_up_papers")
def test_both_halves_of_an_erratum_are_one_piece_of_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claims = [papers.claim(name) for name in ("toy/misprint", "toy/misprint_corrected", "toy/holds")]
    took = [verdict.seconds for verdict in judge_all(claims, VerdictFolder(tmp_path, "fast"))]
    seconds, missing = groups("fast", tmp_path)
    assert len(seconds) == 2
    assert sum(seconds) == pytest.approx(sum(took))
    assert missing == len(papers.claims()) - 3
    assert main("fast", str(tmp_path)) == 0
    assert f"{missing} claims have no verdict" in capsys.readouterr().out
