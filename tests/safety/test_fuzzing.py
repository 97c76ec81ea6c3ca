"""The fuzz harness finds what it should, and a small sample of every target finds nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from fuzzing import running
from fuzzing.mutations import TOKENS, as_json, changed, changed_bytes
from fuzzing.running import Outcome, Target, run, save
from fuzzing.targets import TARGETS
from hypothesis import strategies as st

from foretrain.core.errors import InputError, require
from foretrain.core.files import sha256_of

INPUTS = 40  # of each target
SLOW = {"forecast": 4, "run": 8}


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("name", TARGETS)
def test_a_sample_of_every_target(name: str) -> None:
    outcome = run(TARGETS[name], SLOW.get(name, INPUTS), number=20)
    assert outcome.findings == {}
    assert outcome.refused > 0
    assert outcome.inputs >= SLOW.get(name, INPUTS)


def _tried(read: object, seconds: float = 5.0, monkeypatch: pytest.MonkeyPatch | None = None) -> Outcome:
    if monkeypatch is not None:
        monkeypatch.setattr(running, "MOST_SECONDS", seconds)
    return run(Target("made-up", st.integers(0, 3), read), 20, 1)  # type: ignore[arg-type]


def test_an_error_that_is_no_refusal_is_a_finding(tmp_path: Path) -> None:
    def read(number: int) -> None:
        require(number != 1, "one is refused.")
        if number == 2:
            raise KeyError(number)

    outcome = _tried(read)
    assert (outcome.refused, list(outcome.findings)) == (1, ["KeyError at ?"])
    assert outcome.accepted + outcome.refused + 1 == outcome.inputs
    [file] = save(outcome, tmp_path)
    assert file.read_text().startswith("KeyError at ?\n\n2\n\nTraceback")


def test_an_error_in_the_package_names_its_file_and_line() -> None:
    outcome = _tried(lambda number: sha256_of(Path(f"/no/such/{number}")))  # raises what is no refusal
    [finding] = outcome.findings
    assert finding.startswith("FileNotFoundError at core/files.py:")


def test_a_hang_and_a_long_refusal_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(number: int) -> None:
        try:
            until = time.process_time() + (3 if number == 3 else 0)
            while time.process_time() < until:
                pass
        except Exception as error:  # a reader that takes everything for a damaged file
            raise InputError("damaged") from error

    assert list(_tried(hang, 0.05, monkeypatch).findings) == ["TooSlow at ?"]
    monkeypatch.setattr(running, "LONGEST_REFUSAL", 3)
    assert len(_tried(lambda number: require(False, "no, never.")).findings) == 1


def test_memory_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "MOST_MEMORY", 1000)
    assert list(_tried(lambda number: None).findings) == ["memory"]


def test_what_was_there_before_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = bytearray(b"x" * 600_000_000)  # as other tests leave behind
    monkeypatch.setattr(running, "MOST_MEMORY", 600_000_000)
    assert _tried(lambda number: None).findings == {}
    assert list(_tried(lambda number: bytearray(b"x" * 700_000_000)).findings) == ["memory"]
    assert len(kept) == 600_000_000


def test_the_same_seed_gives_the_same_inputs() -> None:
    def inputs(number: int) -> list[object]:
        seen: list[object] = []
        run(Target("made-up", changed({"a": [1, 2.5, "text"], "b": {"c": None}}), seen.append), 30, number)
        return [repr(one) for one in seen]

    assert inputs(1) == inputs(1)
    assert inputs(1) != inputs(2)


def test_changes_change_and_tokens_are_put_in() -> None:
    valid = {"a": [1, 2.5, "text"], "b": {"c": None}}
    seen: list[object] = []
    run(Target("made-up", st.tuples(changed(valid), changed_bytes(b"0123456789")), seen.append), 60, 1)
    assert sum(repr(one[0]) != repr(valid) for one in seen) > 45  # type: ignore[index]
    assert sum(one[1] != b"0123456789" for one in seen) > 45  # type: ignore[index]
    assert as_json(["\ue000token 1", "a"]) == f'[{TOKENS[1]}, "a"]'
