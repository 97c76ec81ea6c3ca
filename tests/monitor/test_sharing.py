"""Processes that do not all take part: nobody waits for ever, and nobody's training stops."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from foretrain.monitor import sharing, spectra
from foretrain.monitor.monitor import Monitor
from foretrain.monitor.sharing import ALONE, MISSES, Agreement
from monitor.distributed import batch as batch_of
from monitor.distributed import ended, plain_model, spread, start, train

PROCESSES = 3


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Long where all come, so that a slow machine changes nothing; short where somebody is known to stay away."""
    monkeypatch.setattr(sharing, "FIRST_PATIENCE", 0.3)
    return partial(monkeypatch.setattr, sharing, "PATIENCE")


def together(calls: list[Callable[[], object]]) -> list[object]:
    """What each call returns in a thread of its own."""
    results: list[object] = [None] * len(calls)

    def run(k: int) -> None:
        results[k] = calls[k]()

    threads = [threading.Thread(target=run, args=(k,)) for k in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def agreements(processes: int = PROCESSES) -> list[Agreement]:
    store = dist.HashStore()
    return [Agreement(store, rank, processes) for rank in range(processes)]


def ask(here: list[Agreement], event: str) -> list[object]:
    return together([partial(one.reached, event, f"of {one.rank}") for one in here])


ALL_OF_THEM = [[f"of {rank}" for rank in range(PROCESSES)]] * PROCESSES


def test_all_processes_learn_what_each_has_measured() -> None:
    here = agreements()
    for event in ("0", "50"):
        assert ask(here, event) == ALL_OF_THEM


def test_one_that_stays_away_is_not_waited_for_for_ever(patience: Callable[[float], None]) -> None:
    here = agreements()
    assert ask(here, "0") == ALL_OF_THEM
    patience(0.2)
    for event in range(1, 1 + MISSES):
        assert ask(here[:2], str(event)) == [None, None]
        assert here[2].reached(str(event), "x") is None  # when it comes at last, it does as the others did
    assert ask(here, "99") == [None] * PROCESSES


def test_one_that_comes_back_is_welcome(patience: Callable[[float], None]) -> None:
    here = agreements()
    for event in range(2 * MISSES):  # a miss now and then does not count
        absent = event % 2
        patience(0.2 if absent else 60.0)
        assert ask(here[absent:], str(event)) == ([None, None] if absent else ALL_OF_THEM)
        if absent:
            assert here[0].reached(str(event), "x") is None


def test_a_monitor_in_the_first_process_only_says_so(caplog: pytest.LogCaptureFixture) -> None:
    alone = Agreement(dist.HashStore(), 0, PROCESSES)
    with caplog.at_level(logging.WARNING, "foretrain"):
        assert [alone.reached(str(step), "x") for step in range(5)] == [None] * 5
    assert [record.getMessage() for record in caplog.records] == [ALONE % "1, 2"]


def test_whatever_the_order_all_follow_one_decision(patience: Callable[[float], None]) -> None:
    """Processes come at the very moment at which others lose patience."""
    for trial in range(10):
        here = agreements()
        patience(60.0)
        ask(here, "first")
        patience(0.3)

        def come(one: Agreement, pause: float) -> object:
            time.sleep(pause)
            return one.reached("second", "x")

        answers = together([partial(come, one, one.rank * 0.14 + 0.004 * trial) for one in here])
        assert len({str(answer) for answer in answers}) == 1, answers


CASES = ["skips a pass", "error", "resumes", "first process only", "dies"]


def worker(folder: Path, rank: int, processes: int) -> None:
    """One training after another in which the second process misbehaves."""
    torch.set_num_threads(1)
    sharing.LONGEST = timedelta(seconds=3)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=processes)
    for case in CASES:
        # short where somebody is known to stay away, so that a slow machine changes nothing
        sharing.PATIENCE = 2.0 if case in ("dies", "error") else 120.0
        sharing.FIRST_PATIENCE = 1.0 if case == "first process only" else 20.0
        model = plain_model() if case in ("dies", "skips a pass") else spread("fsdp2", plain_model(), processes)
        options: dict[str, Any] = {"every": 1}
        if case == "resumes" and rank == 0:  # the other process has no file, so it does not know the step
            (folder / "run.jsonl").write_text('{"step": 6, "loss": 1.0}\n')
            options |= {"file": folder / "run.jsonl", "resume": True}
        absent = rank == 1 and case == "first process only"
        monitor = None if absent else Monitor(model, **options)
        for number in sharing._numbers.values() if absent else ():
            next(number)  # so that the monitors of the next case belong together
        misbehaving = batches(case, model) if rank == 1 else (batch_of(step, rank) for step in range(4))
        losses = train(model, misbehaving, monitor, clip=False)
        torch.save((losses, [] if monitor is None else monitor.records), folder / f"{case}-{rank}.pt")
    leave()


def batches(case: str, model: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Those of the second process, which goes wrong at step 1 or 2."""
    for step in range(4):
        if case == "dies" and step == 2:
            leave()
        model.train(not (case == "skips a pass" and step == 1))
        chains = spectra.krylov
        if case == "error" and step == 1:
            spectra.krylov = None  # type: ignore[assignment]
        yield batch_of(step, 1)
        spectra.krylov = chains


def leave() -> None:
    """Without waiting for a process that is gone, as torch would."""
    sys.stderr.flush()
    os._exit(0)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sharing")
    ended(start(2, [], folder, __file__), seconds=240)
    return folder


@pytest.mark.parametrize("case", CASES)
def test_a_process_that_misbehaves_stops_nobody(case: str, trained: Path) -> None:
    losses, records = torch.load(trained / f"{case}-0.pt", weights_only=False)
    assert len(losses) == 4
    assert [record["step"] for record in records] == ([6, 7, 8, 9, 10] if case == "resumes" else [0, 1, 2, 3])
    records = records[1:] if case == "resumes" else records
    assert all("attention" in record for record in records)
    has_norms = {"first process only": [], "error": [0], "resumes": [7, 8, 9, 10]}.get(case, [0, 1, 2, 3])
    assert [record["step"] for record in records if "weights" in record] == has_norms


if __name__ == "__main__":
    worker(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
