"""A Dask cluster of separately started processes: equal bits, and nothing is lost with any of its parts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from distributed import Client

from foretrain import papers
from foretrain.core.engines import cluster
from foretrain.core.errors import InputError
from foretrain.core.progress import Progress, listening
from foretrain.ledger.claim import Claim
from foretrain.ledger.verdict import Verdict
from foretrain.ledger.verdict_store import VerdictFolder, judge_all
from foretrain.runs.run_folder import RunFolder, load
from foretrain.runs.sweep import Plan
from runs.made_up_sweeps import AXES, breaks, noise, pretend_other_claims, pretend_other_code

TESTS = Path(__file__).parents[1]
CUT = {"rate": (0.5, 1.0, 2.0), "seeds": tuple(range(1, 9))}


@dataclass
class Started:
    """A scheduler and its workers, each a process of its own."""

    folder: Path
    calls: Path
    scheduler: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    address: str = ""
    every: list[subprocess.Popen[bytes]] = field(default_factory=list)  # also those that were killed

    def start_scheduler(self) -> None:
        file = self.folder / f"scheduler{time.monotonic_ns()}.json"
        self.scheduler = self._start(
            "distributed.cli.dask_scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--no-dashboard",
            "--scheduler-file",
            str(file),
        )
        _wait_for(lambda: file.is_file() and file.stat().st_size > 0)
        self.address = json.loads(file.read_text())["address"]

    def start_worker(self, *options: str) -> None:
        own = ("--nthreads", "1", "--no-dashboard", "--local-directory", str(self.folder))
        self.workers.append(self._start("distributed.cli.dask_worker", self.address, *own, *options))

    def _start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        paths = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))  # the code of this process
        environment = {**os.environ, "PYTHONPATH": paths, "NOISE_CALLS": str(self.calls), "OMP_NUM_THREADS": "1"}
        with (self.folder / f"{module.rpartition('.')[2]}{time.monotonic_ns()}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=self.folder,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.every.append(process)
        return process

    def wait_for_workers(self, number: int) -> None:
        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(number, timeout=60)


@contextmanager
def started(folder: Path, workers: int = 2, *options: str) -> Iterator[Started]:
    made = Started(folder, folder / "calls.txt")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        made.start_scheduler()
        for _ in range(workers):
            made.start_worker(*options)
        if workers:
            made.wait_for_workers(workers)
        yield made
    finally:
        for process in made.every:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in a minute"
        time.sleep(0.02)


def run(root: Path, address: str | None = None, jobs: int = 1, **changes: Any) -> RunFolder:
    plan = Plan("paper/figure", noise, cut=CUT, fixed={"size": 3, "pause": 0.0}, axes=AXES, together=2)
    return replace(plan, **changes).run(root, jobs=jobs, cluster=address)


def files(folder: RunFolder) -> dict[str, bytes]:
    return {str(f.relative_to(folder.path)): f.read_bytes() for f in folder.path.rglob("*") if f.is_file()}


def test_one_process_two_processes_and_a_cluster_give_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, two = run(tmp_path / "one"), run(tmp_path / "two", jobs=2)
    monkeypatch.chdir(tmp_path)  # the workers have another current folder
    with started(tmp_path / "cluster") as cluster_of_two:
        many = run(Path("many"), cluster_of_two.address)
    whole = noise(CUT["rate"], CUT["seeds"])
    for folder in (alone, two, many):
        np.testing.assert_array_equal(load(folder.path).v.values, whole.v.values)
    assert files(alone) == files(two) == files(many)  # to the last byte, with the marks and the record
    lines = cluster_of_two.calls.read_text().splitlines()
    assert len(lines) == len(set(lines)) == 12
    assert len({line.split()[0] for line in lines}) == 2, "both workers computed pieces"


def test_a_killed_worker_and_a_killed_nanny_lose_nothing(tmp_path: Path) -> None:
    """The worker's process is started again by its nanny; the other one goes with its nanny, and a new one comes."""
    with started(tmp_path / "cluster") as two:
        with Client(two.address, set_as_default=False) as client:
            pids = list(client.run(os.getpid).values())

        def harm() -> None:
            _wait_for(lambda: two.calls.is_file() and len(two.calls.read_text().splitlines()) >= 3)
            os.kill(pids[0], signal.SIGKILL)
            _wait_for(lambda: len(two.calls.read_text().splitlines()) >= 6)
            os.killpg(two.workers[1].pid, signal.SIGKILL)

        thread = threading.Thread(target=harm)
        thread.start()
        folder = run(tmp_path / "runs", two.address, fixed={"size": 3, "pause": 0.15})
        thread.join()
    np.testing.assert_array_equal(load(folder.path).v.values, noise(CUT["rate"], CUT["seeds"]).v.values)


def test_a_dead_scheduler_is_one_sentence_and_the_same_call_goes_on(tmp_path: Path) -> None:
    slow = {"fixed": {"size": 3, "pause": 0.1}}
    with started(tmp_path / "cluster") as two:

        def harm() -> None:
            _wait_for(lambda: two.calls.is_file() and len(two.calls.read_text().splitlines()) >= 4)
            assert two.scheduler is not None
            os.killpg(two.scheduler.pid, signal.SIGKILL)

        thread = threading.Thread(target=harm)
        thread.start()
        with pytest.raises(InputError, match=r"The scheduler at tcp://\S+ is gone; what was finished is kept"):
            run(tmp_path / "runs", two.address, **slow)
        thread.join()
        (path,) = (tmp_path / "runs" / "paper" / "figure").iterdir()
        finished = int(RunFolder.open(path).done().sum())
        assert 1 <= finished < 12
        for worker in two.workers:
            os.killpg(worker.pid, signal.SIGKILL)
        two.calls.unlink()
        two.start_scheduler()
        two.start_worker()
        two.wait_for_workers(1)
        folder = run(tmp_path / "runs", two.address, **slow)
        assert len(two.calls.read_text().splitlines()) == 12 - finished
    np.testing.assert_array_equal(load(folder.path).v.values, noise(CUT["rate"], CUT["seeds"]).v.values)


def test_workers_with_other_code_are_refused(tmp_path: Path) -> None:
    """A sweep and a check: both say which code each side has."""
    digests = r"\(0123456789ab\) than this program \([0-9a-f]{12}\)"
    with started(tmp_path / "cluster", 1) as one, Client(one.address, set_as_default=False) as client:
        client.run(pretend_other_code)
        with pytest.raises(InputError, match=rf"other source code {digests}"):
            run(tmp_path / "runs", one.address)
        assert not (tmp_path / "runs").exists()
        client.run(pretend_other_claims)
        claims = list(papers.claims("scan_snap/lemma6", "scan_snap/lemma1").values())
        with pytest.raises(InputError, match=rf"other source code, versions or settings {digests}"):
            _judge(claims, VerdictFolder(tmp_path / "checks", "fast"), one.address)


SCRIPT = """
import sys
import helper
from foretrain import sweep
from foretrain.core.errors import InputError

def f(a: float) -> float:
    import lazily
    return helper.twice(a) + lazily.NOTHING

if __name__ == "__main__":
    try:
        print(sweep(f, grid={"a": [1.0, 2.0]}, out="runs", cluster=sys.argv[1], piece=1).dataset().value.values)
    except InputError as error:
        print(error)
"""


@pytest.mark.parametrize("other", ["", "helper", "lazily"])
def test_workers_with_other_modules_beside_the_script_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    for place in (tmp_path, tmp_path / "there"):
        place.mkdir(exist_ok=True)
        (place / "helper.py").write_text("def twice(x): return 2 * x\n")
        (place / "lazily.py").write_text("NOTHING = 0\n")
    if other:
        (tmp_path / "there" / f"{other}.py").write_text("NOTHING = 1\ndef twice(x): return 1000 * x\n")
    (tmp_path / "script.py").write_text(SCRIPT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "there"))
    with started(tmp_path / "cluster", 1) as one:
        said = run_script(tmp_path, one.address)
    digests = r"\([0-9a-f]{12}\) than this program \([0-9a-f]{12}\)"
    assert re.search(f"with another module {other} {digests}" if other else r"\[2. 4.\]", said), said


def run_script(folder: Path, address: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-W", "ignore", "script.py", address]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


def _judge(claims: list[Claim], folder: VerdictFolder, address: str) -> dict[str, Verdict]:
    with cluster(address) as engine:
        return {v.claim: v for v in judge_all(claims, folder, engine=engine, look_up=papers.claim)}


def test_errors_on_workers_are_told_as_what_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "only_here.py").write_text("def twice(a: float) -> float:\n    return 2 * a\n")
    monkeypatch.syspath_prepend(tmp_path)
    from only_here import twice  # type: ignore[import-not-found]

    with started(tmp_path / "cluster", 1) as one, cluster(one.address) as engine:
        with pytest.raises(RuntimeError, match="mat1 and mat2 shapes"):
            Plan("paper/breaks", breaks, cut={"rate": (1.0,)}, fixed={}).run(tmp_path / "runs", engine=engine)
        with pytest.raises(InputError) as refused, cluster(one.address) as another:
            Plan("own/twice", twice, cut={"a": (1.0,)}, fixed={}).run(tmp_path / "runs", engine=another)
    said = str(refused.value)
    assert "cannot load what it is to compute (ModuleNotFoundError: No module named 'only_here')" in said
    assert "\n" not in said
    assert not (tmp_path / "runs").exists()


def test_a_cluster_without_workers_says_so_and_begins_when_one_comes(tmp_path: Path) -> None:
    heard: list[str] = []

    def listen(progress: Progress) -> None:
        heard.append(progress.doing)
        if "has no workers yet" in progress.doing and not none.workers:
            none.start_worker()

    with started(tmp_path / "cluster", 0) as none, listening(listen):
        folder = run(tmp_path / "runs", none.address)
    assert f"waiting: the cluster at {none.address} has no workers yet" in heard
    np.testing.assert_array_equal(load(folder.path).v.values, noise(CUT["rate"], CUT["seeds"]).v.values)


def test_submission_is_bounded(tmp_path: Path) -> None:
    """However large the grid, the scheduler holds a few calls per worker only."""
    with started(tmp_path / "cluster", 1) as one, Client(one.address, set_as_default=False) as client:
        seen: list[int] = []
        stop = threading.Event()

        def watch() -> None:
            while not stop.is_set():
                seen.append(client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))
                time.sleep(0.02)

        thread = threading.Thread(target=watch)
        thread.start()
        run(tmp_path / "runs", one.address, cut={"rate": (1.0,), "seeds": tuple(range(60))}, together=1)
        stop.set()
        thread.join()
    assert 1 <= max(seen) <= 4


def test_opens_in_xarray_while_it_is_running(tmp_path: Path) -> None:
    with started(tmp_path / "cluster", 1) as one:
        thread = threading.Thread(
            target=run, args=(tmp_path / "runs", one.address), kwargs={"fixed": {"size": 3, "pause": 0.1}}
        )
        thread.start()

        def some() -> bool:
            found = list(tmp_path.glob("runs/paper/figure/*/sweep.zarr/done/c/*/*"))
            return len([file for file in found if not file.name.endswith(".partial")]) >= 3

        _wait_for(some)
        (path,) = (tmp_path / "runs" / "paper" / "figure").iterdir()
        with xr.open_zarr(path / "sweep.zarr", chunks=None) as live:
            seen = live.load()
        thread.join()
    done = seen.done.values
    assert 0 < done.sum() < done.size
    whole = noise(CUT["rate"], CUT["seeds"]).v.values
    np.testing.assert_array_equal(seen.v.values[done], whole[done])
    assert np.isnan(seen.v.values[~done]).sum() >= (~done).sum() * 3 - 6  # a piece may be written and not marked yet


def test_the_ledger_is_checked_on_a_cluster_with_the_same_verdicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = papers.claims("scan_snap/lemma6", "scan_snap/lemma1", "joma/theorem4")
    monkeypatch.chdir(tmp_path)
    here = {verdict.claim: verdict for verdict in judge_all(list(claims.values()), VerdictFolder(Path("here"), "fast"))}
    folder = VerdictFolder(Path("there"), "fast")
    with started(tmp_path / "cluster") as two:
        there = _judge(list(claims.values()), folder, two.address)
    assert set(here) == set(there) == set(claims)
    for name, verdict in here.items():
        assert replace(there[name], seconds=0.0) == replace(verdict, seconds=0.0)
        assert folder.get(claims[name], trajectories=True) is not None, "it is on disk, with what was compared"
