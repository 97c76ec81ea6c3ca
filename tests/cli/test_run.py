"""foretrain run: into a folder, resumable to the bit, safe against damage and bad input."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
import xarray as xr
from distributed import LocalCluster

from foretrain.runs.run_folder import RunFolder, load
from made_up.fixtures import Foretrain, start, stop_when

NOISE = ("run", "toy/noise", "--seeds", "2", "--set", "eta_z=.5,1,2")
PARTS = 6


def _finished(path: Path) -> int:
    return int(RunFolder.open(path).done().sum())


def _files(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def test_run_says_where_it_is_and_what_came_out(foretrain: Foretrain) -> None:
    printed = foretrain(*NOISE)
    assert printed.code == 0
    path = Path(printed.out.strip())  # stdout is the path and nothing else
    assert path.parent == Path("runs/toy/noise")
    for words in ("level", "eta_z 3 × seed 2 × time 2", "nats", "This is tier fast"):
        assert words in printed.err
    dataset = load(path)
    assert dict(dataset.sizes) == {"eta_z": 3, "seed": 2, "time": 2}
    assert _finished(path) == PARTS


def test_a_sweep_that_fits_no_memory_is_a_sweep_all_the_same(
    foretrain: Foretrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foretrain.runs.zarr_store._memory", lambda: 100.0)
    printed = foretrain("run", "toy/noise")
    assert printed.code == 0, printed.err
    assert "open it with xarray.open_zarr" in printed.err
    assert bool(xr.open_zarr(Path(printed.out.strip()) / "sweep.zarr", chunks=None).done.all())


def test_the_same_command_computes_nothing_twice(foretrain: Foretrain, monkeypatch: pytest.MonkeyPatch) -> None:
    from_disk = "This run was finished before, so it was read from disk; add --fresh to compute it again.\n"
    first = foretrain(*NOISE)
    path = Path(first.out.strip())
    assert from_disk not in first.err
    before = _files(path)
    monkeypatch.setenv("TOY_BEGUN", "begun.txt")
    again = foretrain(*NOISE)
    assert again.out.strip() == str(path)
    assert again.err.startswith(from_disk)
    assert not Path("begun.txt").exists()
    assert _files(path) == before
    assert from_disk not in foretrain(*NOISE, "--fresh").err
    assert len(Path("begun.txt").read_text().splitlines()) == PARTS
    xr.testing.assert_identical(load(path), load(path))


def test_other_arguments_go_to_another_folder(foretrain: Foretrain) -> None:
    first = foretrain("run", "toy/plain").out.strip()
    second = foretrain("run", "toy/plain", "--set", "size=5").out.strip()
    third = foretrain("run", "toy/plain", "--out", "elsewhere").out.strip()
    assert len({first, second, third}) == 3
    assert load(Path(second)).x.size == 5
    assert load(Path(third)).x.size == 2
    assert third.startswith("elsewhere/toy/plain/")


def test_a_tier_chooses_the_sizes_and_set_goes_over_it(foretrain: Foretrain) -> None:
    def sizes(*options: str) -> int:
        return load(Path(foretrain("run", "toy/plain", *options).out.strip())).x.size

    assert [sizes("--tier", tier) for tier in ("fast", "full", "paper")] == [2, 4, 3]
    assert sizes() == 2  # tier fast
    kept = load(Path(foretrain("run", "toy/plain", "--tier", "full", "--set", "size=7").out.strip())).x
    assert kept.values.tolist() == [1, 2, 3, 4, 5, 6, 7]  # offset as at tier full
    seeds = load(Path(foretrain("run", "toy/noise", "--tier", "full", "--seeds", "1").out.strip()))
    assert dict(seeds.sizes) == {"eta_z": 2, "seed": 1, "time": 4}  # no sizes of its own at tier full: the paper's


def test_a_run_of_other_source_code_is_kept_and_told(foretrain: Foretrain, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Path(foretrain("run", "toy/plain").out.strip())
    before = _files(old)
    monkeypatch.setattr("foretrain.runs.sweep.source_digest", lambda function: "another")
    printed = foretrain("run", "toy/plain")
    new = Path(printed.out.strip())
    assert new != old
    assert f"Note: {old} has the same settings but was computed with other source code" in printed.err
    assert _files(old) == before
    assert len(load(new).x) == 2


def test_a_diverged_run_is_told_with_its_step(foretrain: Foretrain) -> None:
    for _ in range(2):  # computed, then from disk
        printed = foretrain("run", "toy/diverges", "--seeds", "1")
        assert printed.code == 0
        assert "Note: 1 of 1 runs diverged, the first at step 40." in printed.err
        assert "1 of 3 runs diverged; their numbers are nan from then on." in printed.err
        assert "rates=99.0, seed=1 diverged at step 40" in printed.err
    assert "diverged" not in foretrain("run", "toy/diverges", "--set", "rates=1,2").err.replace("diverged_at", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "toy/niose"], "Nothing matches 'toy/niose'; the nearest names are toy/noise, "),
        (["run", "toy"], "'toy' matches 3 experiments: toy/noise, toy/diverges, toy/plain; give one of these ids."),
        (["run", "toy/holds"], "toy/holds is a claim, not an experiment; use foretrain check toy/holds."),
        (["run", "toy/slow*"], "'toy/slow*' matches 3 claims, but not an experiment; use foretrain check, for exam"),
        (["run"], "Missing argument 'EXPERIMENT'; see foretrain run --help."),
        (["run", "../../etc"], "Nothing matches '../../etc'"),
        (["run", "toy/noise", "--set", "eta=1"], "There is no setting 'eta'"),
        (["run", "toy/noise", "--set", "steps=two"], "steps takes a whole number"),
        (["run", "toy/noise", "--set", "steps=0"], "steps takes a whole number of at least 1; got '0'."),
        (["run", "toy/noise", "--set", "eta_z=-1,1"], "eta_z must be a finite number above 0; got -1"),
        (["run", "toy/noise", "--seeds", "0"], "--seeds must be at least 1; got 0."),
        (
            ["run", "toy/noise", "--set", "seeds=0"],
            "seeds takes a whole number of at least 1 or ",
        ),
        (["run", "toy/noise", "--set", "seeds=1,1"], "seeds must differ"),
        (["run", "toy/noise", "--set", "seeds=2", "--seeds", "2"], "not both"),
        (["run", "toy/plain", "--seeds", "2"], "takes no --seeds"),
        (["run", "toy/noise", "--tier", "quick"], "There is no tier 'quick'"),
        (["run", "toy/noise", "--jobs", "-1"], "jobs must be at least 1; got -1."),
        (["run", "toy/noise", "--out", "/proc/none"], "cannot be written"),
        (["run", "toy/noise", "--out", "memory://x", "--to", "csv"], "and memory://x is a store; leave it out"),
        (["run", "toy/noise", "--set", "step=1"], "There is no setting 'step'; the nearest names are steps, "),
        (["run", "toy/noise", "--set", "pauses=1"], "There is no setting 'pauses'; the nearest names are pause, "),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(
    foretrain: Foretrain, arguments: list[str], words: str
) -> None:
    printed = foretrain(*arguments)
    assert printed.code == 2
    assert words in printed.err
    assert len(printed.err.splitlines()) == 1, printed.err
    assert printed.out == ""
    assert list(Path().iterdir()) == []


def test_a_refused_run_leaves_other_runs_alone(foretrain: Foretrain) -> None:
    path = Path(foretrain("run", "toy/noise").out.strip())
    before = _files(Path("runs"))
    printed = foretrain("run", "toy/noise", "--set", "eta_z=-1,1")
    assert printed.code == 2
    assert "above 0" in printed.err
    assert _files(Path("runs")) == before
    assert path.exists()


def test_an_out_that_is_a_file_is_refused(foretrain: Foretrain) -> None:
    Path("taken").write_text("mine")
    printed = foretrain("run", "toy/plain", "--out", "taken")
    assert printed.code == 2
    assert "--out taken is not a folder" in printed.err
    assert Path("taken").read_text() == "mine"


def test_without_dask_the_extra_is_named(foretrain: Foretrain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    printed = foretrain("run", "toy/plain", "--cluster", "tcp://x:1")
    assert printed.code == 2
    assert "extra 'cluster'" in printed.err


def test_a_scheduler_that_is_not_there(foretrain: Foretrain) -> None:
    printed = foretrain("run", "toy/noise", "--cluster", "nonsense://x")
    assert printed.code == 2
    assert "There is no Dask scheduler at 'nonsense://x'" in printed.err
    assert list(Path().iterdir()) == []


def test_a_cluster_computes_the_same_bits(foretrain: Foretrain) -> None:
    alone = Path(foretrain("run", "toy/noise").out.strip())
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0") as cluster:
        printed = foretrain("run", "toy/noise", "--cluster", cluster.scheduler_address, "--out", "cluster")
    assert printed.code == 0, printed.err
    assert _files(Path(printed.out.strip())) == _files(alone)


@pytest.mark.parametrize("harm", ["flip", "truncate", "remove", "run.json"])
def test_a_damaged_part_is_computed_again(foretrain: Foretrain, harm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(foretrain(*NOISE).out.strip())
    whole = _files(path)
    shard = sorted(file for file in (path / "sweep.zarr" / "level" / "c").rglob("*") if file.is_file())[4]
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 255
    if harm == "run.json":
        (path / "run.json").write_text((path / "run.json").read_text().replace('"plain"', '"blain"'))
    elif harm == "remove":
        shard.unlink()
    else:
        shard.write_bytes(bytes(content) if harm == "flip" else bytes(content[:20]))
    monkeypatch.setenv("TOY_BEGUN", "begun.txt")
    printed = foretrain(*NOISE)
    assert printed.code == 0
    assert ("run.json is damaged" in printed.err) == (harm == "run.json")
    computed = Path("begun.txt").read_text().splitlines()
    assert len(computed) == (PARTS if harm == "run.json" else 1)
    assert _files(path) == whole


def test_killed_in_the_middle_it_ends_with_the_same_bits(
    foretrain: Foretrain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kill -9 with two workers at work: they end too, and the same command ends as if nothing had happened."""
    slow = (*NOISE, "--jobs", "2", "--set", "pause=.2")
    process = start(*slow, folder=tmp_path)
    workers: list[int] = []

    def enough() -> bool:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        workers[:] = [int(pid) for pid in children.read_text().split()] if children.exists() else []
        return any(_finished(f.parent) for f in tmp_path.rglob("run.json"))

    killed = stop_when(process, enough, signal.SIGKILL)
    assert killed.code == -signal.SIGKILL
    for pid in workers:
        _wait_gone(pid)
    (half,) = tmp_path.glob("runs/toy/noise/*")
    finished = _finished(half)
    assert 1 <= finished < PARTS
    assert RunFolder.open(half).status == "running"

    monkeypatch.setenv("TOY_BEGUN", "begun.txt")
    assert foretrain(*NOISE, "--set", "pause=.2").code == 0
    assert len(Path("begun.txt").read_text().splitlines()) == PARTS - finished
    assert foretrain(*NOISE, "--set", "pause=.2", "--out", "whole").code == 0
    assert _files(Path("runs")) == _files(Path("whole"))  # nothing that the killed process left is there any more


def _wait_gone(pid: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":  # ended; its parent has yet to ask
            return
        time.sleep(0.05)
    raise AssertionError(f"worker {pid} outlived the program that started it")
