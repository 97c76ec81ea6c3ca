"""Sweeps on disk: cut and put together, resumed, mended, and safe from each other."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from foretrain.core.engines import Cluster, Serial, bounded
from foretrain.core.errors import DamagedFile, InputError, MissingData
from foretrain.core.files import write_record
from foretrain.core.progress import Progress, listening, tell
from foretrain.core.streams import stream
from foretrain.core.trajectory import notes_of, trajectory
from foretrain.runs import identity as identities
from foretrain.runs import run_folder as run_folders
from foretrain.runs import sweep as sweeping
from foretrain.runs.grid import Grid
from foretrain.runs.identity import RunIdentity
from foretrain.runs.run_folder import RunFolder, earlier_runs, held, load
from foretrain.runs.storage import Storage
from foretrain.runs.sweep import Plan
from foretrain.runs.zarr_store import GridStore

CALLS: list[tuple[float, int]] = []


def experiment(rate: Sequence[float], seeds: Sequence[int], size: int = 3) -> xr.Dataset:
    CALLS.extend((r, s) for r in rate for s in seeds)
    values = [[r * stream("x", s, "data").random(size) for s in seeds] for r in rate]
    return trajectory({"v": (("rate", "seed", "i"), np.array(values))}, {"rate": rate, "seed": seeds}, size=size)


CUT = {"rate": (0.5, 2.0), "seeds": (1, 2, 3)}
AXES = {"rate": "rate", "seeds": "seed"}


def run(root: Path, **kwargs: Any) -> RunFolder:
    return Plan("paper/figure", experiment, cut=CUT, fixed={"size": 3}, axes=AXES).run(root, **kwargs)


def chunks_of(folder: RunFolder, variable: str = "v") -> list[Path]:
    return sorted(path for path in (folder.path / "sweep.zarr" / variable / "c").rglob("*") if path.is_file())


def finished(path: Path) -> int:
    return int(np.count_nonzero(RunFolder.open(path).done()))


def when(done: int, act: Callable[[], object]) -> Callable[[Progress], None]:
    """A listener that acts when so many shards are done."""
    return lambda progress: act() if progress.done == done else None


def test_shards_add_up_to_the_whole_whoever_computes_them(tmp_path: Path) -> None:
    whole = experiment(**CUT)
    seen: list[tuple[int, int]] = []
    with listening(lambda progress: seen.append((progress.done, progress.total))):
        folder = run(tmp_path / "a")
    xr.testing.assert_equal(load(folder.path), whole)
    assert seen == [(k, 6) for k in range(7)]
    xr.testing.assert_equal(load(run(tmp_path / "b", jobs=2).path), whole)
    record = json.loads((folder.path / "run.json").read_text())
    assert record["status"] == "done"
    assert record["config"] == {"rate": [0.5, 2.0], "seeds": [1, 2, 3], "size": 3}
    assert "torch" in record["versions"]
    assert "plotly" not in record["versions"]


def of_tasks(tasks: Sequence[Any]) -> xr.Dataset:
    return trajectory({"length": ("task", [float(len(str(task))) for task in tasks])}, {"task": list(tasks)})


@pytest.mark.parametrize("asked", [("same", "majority", "copying"), (30, 4, 100)])
def test_values_stay_in_the_order_in_which_they_were_asked_for(tmp_path: Path, asked: tuple[Any, ...]) -> None:
    axes = {"tasks": "task"}
    whole = Plan("made_up/tasks", of_tasks, cut={"tasks": asked}, fixed={}, axes=axes).run(tmp_path).dataset()
    assert tuple(whole.task.values) == asked
    assert whole.length.values.tolist() == [float(len(str(task))) for task in asked]


def test_what_is_not_finished_is_in_order_too(tmp_path: Path) -> None:
    identity = RunIdentity.of("made_up/tasks", {"tasks": ("z", "30", "y", "a"), "others": ("z", "z")}, "source")
    folder = RunFolder(
        Storage.of(identity.path(tmp_path)), identity, Grid.cut({"tasks": ("z", "30", "y", "a")}, {"tasks": "task"})
    )
    for piece, tasks in ((1, ["30"]), (3, ["a"]), (0, ["z"])):
        folder.put((piece,), of_tasks(tasks))
    folder.note_arrays(folder.store.metadata())
    assert folder.dataset().task.values.tolist() == ["z", "30", "a"]


def test_what_is_there_is_not_computed_again_and_damage_is(tmp_path: Path) -> None:
    folder = run(tmp_path)
    CALLS.clear()
    run(tmp_path)
    assert CALLS == []
    chunk = chunks_of(folder)[4]
    chunk.write_bytes(chunk.read_bytes()[:-10])
    with pytest.raises(DamagedFile, match="damaged or missing"):
        load(folder.path)
    run(tmp_path)
    assert CALLS == [(2.0, 2)]
    xr.testing.assert_equal(load(folder.path), experiment(**CUT))


@pytest.mark.parametrize("variable", ["v", "made_with"])
def test_chunks_in_the_place_of_others_are_noticed(tmp_path: Path, variable: str) -> None:
    folder = run(tmp_path)
    one, other = chunks_of(folder, variable)[1:3]
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    with pytest.raises(DamagedFile, match="2 damaged or missing"):
        load(folder.path)
    CALLS.clear()
    xr.testing.assert_equal(load(run(tmp_path).path), experiment(**CUT))
    assert sorted(CALLS[:2]) == [(0.5, 2), (0.5, 3)]


def test_runs_without_checksums_of_their_pieces_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GridStore, "_checksums", lambda store, piece: {})
    folder = run(tmp_path)
    monkeypatch.undo()
    assert "checksums" not in str(xr.open_zarr(folder.path / "sweep.zarr").made_with.values)
    xr.testing.assert_equal(load(folder.path), experiment(**CUT))
    assert run(tmp_path).reused


class Stop(Exception):
    pass


def _stop() -> None:
    raise Stop


def test_a_run_that_stops_halfway_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    with pytest.raises(Stop), listening(when(3, _stop)):
        run(tmp_path)
    CALLS.clear()
    folder = run(tmp_path)
    assert len(CALLS) == 3
    xr.testing.assert_identical(load(folder.path), load(run(tmp_path / "fresh").path))


@pytest.mark.parametrize("change", ["code", "versions"])
def test_a_run_of_other_code_or_libraries_is_stored_beside_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    with pytest.raises(Stop), listening(when(3, _stop)):  # unfinished, which once began anew and lost what it had
        run(tmp_path)
    (old,) = (tmp_path / "paper" / "figure").iterdir()
    before = {file: file.read_bytes() for file in old.rglob("*") if file.is_file()}
    if change == "code":
        monkeypatch.setattr(sweeping, "source_digest", lambda function: "another")
    else:
        monkeypatch.setattr(identities, "versions", lambda: {"torch": "1.0"})
        monkeypatch.setattr(sweeping, "versions", lambda: {"torch": "1.0"})
    CALLS.clear()
    new = run(tmp_path)
    assert len(CALLS) == 6
    assert new.path != old
    assert earlier_runs(new.identity, Storage.of(tmp_path)) == [old]
    assert {file: file.read_bytes() for file in old.rglob("*") if file.is_file()} == before


def test_fresh_computes_everything_again(tmp_path: Path) -> None:
    run(tmp_path)
    CALLS.clear()
    folder = run(tmp_path, fresh=True)
    assert len(CALLS) == 6
    xr.testing.assert_equal(load(folder.path), experiment(**CUT))


def test_the_loser_of_a_simultaneous_start_touches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both see that nothing is there; one takes the lock and computes, the other is refused, with forced timing."""
    taken = held

    def held_later(storage: Storage) -> Any:
        """The loser: between its first look at the disk and its try at the lock, the winner does half of its work."""
        monkeypatch.setattr(sweeping, "held", taken)
        with listening(when(3, lambda: refused_while(Path(str(storage))))):
            run(tmp_path)
        return taken(storage)

    def refused_while(path: Path) -> None:
        before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
        assert len([file for file in before if "/v/c/" in str(file)]) == 3
        for fresh in (False, True):  # --fresh must take the lock before it removes anything
            with pytest.raises(InputError, match="by another process; wait"):
                run(tmp_path, fresh=fresh)
        assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before

    monkeypatch.setattr(sweeping, "held", held_later)
    folder = run(tmp_path)
    assert finished(folder.path) == 6
    xr.testing.assert_equal(load(folder.path), experiment(**CUT))


def refusing(rate: Sequence[float], seeds: Sequence[int], size: int = 3) -> xr.Dataset:
    raise InputError("no such rate")


def test_a_refused_run_leaves_nothing_and_its_folder_can_be_used_at_once(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(InputError, match="no such rate"):
            Plan("paper/figure", refusing, cut=CUT, fixed={"size": 3}).run(tmp_path / "runs")
        assert list(tmp_path.iterdir()) == []


def not_mounted(rate: Sequence[float], seeds: Sequence[int], size: int = 3) -> xr.Dataset:
    if list(rate) == [2.0] and list(seeds) == [2]:
        raise MissingData("the share is not mounted")
    return experiment(rate, seeds, size)


def test_missing_data_keeps_what_is_finished(tmp_path: Path) -> None:
    with pytest.raises(MissingData):
        Plan("paper/figure", not_mounted, cut=CUT, fixed={"size": 3}, axes=AXES).run(tmp_path)
    (path,) = (tmp_path / "paper" / "figure").iterdir()
    assert finished(path) == 4


def singular(rate: Sequence[float], seeds: Sequence[int], size: int = 3) -> xr.Dataset:
    raise np.linalg.LinAlgError("Singular matrix")


def test_values_that_cannot_be_computed_with_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be computed with \(LinAlgError: Singular matrix\)"):
        Plan("paper/figure", singular, cut=CUT, fixed={"size": 3}).run(tmp_path)
    assert list(tmp_path.iterdir()) == []


def fails_last(rate: Sequence[float], seeds: Sequence[int], size: int = 3) -> xr.Dataset:
    if (list(rate), list(seeds)) == ([2.0], [3]):
        raise {3: np.linalg.LinAlgError("singular"), 4: MemoryError("full"), 5: InputError("no such rate")}[size]
    return experiment(rate, seeds, size)


@pytest.mark.parametrize(("size", "words"), [(3, "LinAlgError"), (4, "MemoryError"), (5, "no such rate")])
def test_a_piece_that_fails_takes_no_finished_one_with_it(tmp_path: Path, size: int, words: str) -> None:
    with pytest.raises(InputError, match=words) as failed:
        Plan("paper/figure", fails_last, cut=CUT, fixed={"size": size}, axes=AXES).run(tmp_path)
    assert "rate=[2.0], seeds=[3]" in failed.value.__notes__[0]
    (path,) = (tmp_path / "paper" / "figure").iterdir()
    assert finished(path) == 5


def chatty(rate: Sequence[float], seeds: Sequence[int], size: int = 3) -> xr.Dataset:
    """Tells without pause, and one worker is killed while it does."""
    for _ in range(2000):
        tell(Progress(1, 2, "x" * 150, inner=True))
    if list(seeds) == [3]:
        os.kill(os.getpid(), signal.SIGKILL)
    return experiment(rate, seeds, size)


def test_a_worker_killed_while_it_tells_does_not_hang_the_program(tmp_path: Path) -> None:
    heard: list[Progress] = []
    with pytest.raises(InputError, match="A worker process"), listening(heard.append):
        Plan("paper/figure", chatty, cut=CUT, fixed={"size": 3}, axes=AXES).run(tmp_path, jobs=2)
    assert any(progress.inner for progress in heard)


def telling(rate: Sequence[float], seeds: Sequence[int], size: int = 3) -> xr.Dataset:
    for _ in range(3000):
        tell(Progress(1, 2, "working", inner=True))
    return experiment(rate, seeds, size)


def test_a_listener_that_fails_does_not_stop_the_workers(tmp_path: Path) -> None:
    def fails(progress: Progress) -> None:
        if progress.inner:
            raise RuntimeError("no")

    with listening(fails):
        folder = Plan("paper/figure", telling, cut=CUT, fixed={"size": 3}, axes=AXES).run(tmp_path, jobs=2)
    assert finished(folder.path) == 6


def test_a_refused_run_and_a_good_one_at_the_same_time(tmp_path: Path) -> None:
    """Many starts and take-backs of the same folders: each start either works or is refused in words."""

    def attempt(number: int) -> str:
        try:
            if number % 2:
                Plan("paper/figure", refusing, cut=CUT, fixed={"size": 3}).run(tmp_path / "runs")
            else:
                with held(Storage.of(tmp_path / "runs" / "paper" / "figure" / "other")):
                    pass
            return "done"
        except InputError as error:
            return str(error)

    with ThreadPoolExecutor(4) as pool:
        answers = set(pool.map(attempt, range(80)))
    assert answers <= {"done", "no such rate"} | {answer for answer in answers if "by another process" in answer}


@pytest.mark.parametrize("place", ["lock", "sweep.zarr", "sweep.zarr/v/c", "sweep.zarr/v/c/0/0/0", "run.json", "."])
def test_links_are_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.chdir(tmp_path)
    folder = run(Path("runs"))
    chunks_of(folder)[0].unlink()  # so that there is something to compute
    precious = tmp_path / "precious"
    if place in ("sweep.zarr", "sweep.zarr/v/c", "."):
        precious.mkdir()
        (precious / "thesis.txt").write_text("mine")
    else:
        precious.write_text("mine")
    target = folder.path if place == "." else folder.path / place
    moved = tmp_path / "moved"
    if target.exists():
        target.rename(moved)
    target.symlink_to(precious)
    for root in (Path("runs"), tmp_path / "runs"):
        with pytest.raises(InputError, match="is a symbolic link"):
            run(root)
    kept = precious / "thesis.txt" if precious.is_dir() else precious
    assert kept.read_text() == "mine"
    assert not precious.is_dir() or list(precious.iterdir()) == [kept]


def dying(rate: Sequence[float], seeds: Sequence[int], size: int = 3) -> xr.Dataset:
    if list(seeds) == [3] and list(rate) == [2.0] and not os.environ.get("SURVIVE"):
        os._exit(9)
    return experiment(rate, seeds, size)


def test_a_killed_worker_takes_no_finished_shard_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool breaks, some shards are done; the same command goes on with them."""
    plan = Plan("paper/figure", dying, cut=CUT, fixed={"size": 3}, axes=AXES)
    with pytest.raises(InputError, match="A worker process"):
        plan.run(tmp_path, jobs=2)
    kept = finished(next((tmp_path / "paper" / "figure").iterdir()))
    monkeypatch.setenv("SURVIVE", "1")
    CALLS.clear()
    again = plan.run(tmp_path)
    assert len(CALLS) == 6 - kept < 6
    xr.testing.assert_equal(load(again.path), experiment(**CUT))


def test_empty_and_repeated_values_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    for values, sentence in (((), "has no values"), ((0.5, 0.5), "must not repeat")):
        with pytest.raises(InputError, match=sentence):
            Plan("paper/figure", experiment, cut={"rate": values, "seeds": (1,)}, fixed={}).run(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_unfinished_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(Stop), listening(when(2, _stop)):
        run(tmp_path)
    (path,) = (tmp_path / "paper" / "figure").iterdir()
    assert notes_of(load(path)) == ["This run is not finished: 2 of 6 pieces so far; the same command goes on with it."]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", '"text"', "{}", "[" * 100_000, '{"sha256": 1}', '{"config": {}, "status": []}']
)
def test_a_record_that_is_none_is_noticed(tmp_path: Path, text: str) -> None:
    folder = run(tmp_path)
    (folder.path / "run.json").write_text(text)
    with pytest.raises(DamagedFile, match=r"run\.json is damaged"):
        load(folder.path)
    CALLS.clear()
    with pytest.warns(UserWarning, match=r"run\.json is damaged.*computed again"):
        run(tmp_path)
    assert len(CALLS) == 6


def test_every_flipped_byte_of_a_record_is_noticed(tmp_path: Path) -> None:
    folder = run(tmp_path)
    record = folder.path / "run.json"
    good, folder = record.read_bytes(), RunFolder.open(folder.path)
    draw = stream("flips")
    for place in range(len(good)):
        flipped = bytearray(good)
        flipped[place] ^= int(draw.integers(1, 256))
        record.write_bytes(bytes(flipped))
        try:
            same = RunFolder.open(folder.path) == folder
        except InputError:
            continue
        assert same, f"byte {place} went unnoticed"  # white space between values may change


def test_a_run_under_another_name_is_not_taken_for_it(tmp_path: Path) -> None:
    folder = run(tmp_path)
    other = Plan("paper/figure", experiment, cut=CUT, fixed={"size": 4}, axes=AXES).run(tmp_path)
    moved = folder.path.rename(tmp_path / "moved")
    other.path.rename(folder.path)
    xr.testing.assert_equal(load(moved), experiment(**CUT))  # a copy can be read wherever it is
    before = {file: file.read_bytes() for file in folder.path.rglob("*") if file.is_file()}
    with pytest.raises(InputError, match="holds another run than its name says; move that run elsewhere"):
        run(tmp_path)
    assert {file: file.read_bytes() for file in folder.path.rglob("*") if file.is_file()} == before
    again = run(tmp_path, fresh=True)
    xr.testing.assert_equal(load(again.path), experiment(**CUT))
    assert len(chunks_of(again)) == 6


def test_a_worker_with_other_code_is_refused_with_both_digests(tmp_path: Path) -> None:
    class Other(Serial):
        """A worker on which another version of foretrain is installed."""

        def results(self, calls: Any) -> Any:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(sweeping, "installed_digest", lambda function: "0123456789ab")
                yield from super().results(calls)

    with pytest.raises(InputError, match=r"other source code \(0123456789ab\) than this program \([0-9a-f]{12}\)"):
        run(tmp_path, engine=Other())
    assert list(tmp_path.iterdir()) == []


def test_a_worker_with_other_libraries_is_refused(tmp_path: Path) -> None:
    class Other(Serial):
        def results(self, calls: Any) -> Any:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(sweeping, "versions", lambda: {**identities.versions(), "numpy": "1.0"})
                yield from super().results(calls)

    with pytest.raises(InputError, match=r"A worker has numpy 1\.0 where this program has [0-9.]+; install"):
        run(tmp_path, engine=Other())


def with_dask_names(key: Sequence[int], workers: int = 1, retries: int = 2) -> xr.Dataset:
    return trajectory({"v": ("key", [float(k * workers * retries) for k in key])}, {"key": list(key)})


# Dask looks for a free port; if another program takes it in that moment, Dask tries again and leaves a socket behind.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_arguments_may_be_called_like_those_of_dask(tmp_path: Path) -> None:
    from distributed import Client

    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as client:
        plan = Plan("paper/names", with_dask_names, cut={"key": (1, 2)}, fixed={"workers": 5, "retries": 3})
        folder = plan.run(tmp_path, engine=Cluster(client, "here"))
    assert load(folder.path).v.values.tolist() == [15.0, 30.0]


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"../../escape/zarr.json": "x"}},
        {"metadata": {"../zarr.json": "x"}},
        {"metadata": {"a/b/zarr.json": "x"}},
        {"metadata": {"run.json": "x"}},
        {"grid": {"values": [], "axes": {}, "lists": [], "block": [3]}},
        {"grid": {"values": [["rate", []]], "axes": {"rate": "rate"}, "lists": [], "block": [1]}},
        {"grid": {"values": [["rate", [1]]], "axes": {"rate": "rate"}, "lists": [], "block": [10**12]}},
        {"grid": 7},
        {"status": "finished"},
        {"config": []},
        {"more": 1},
    ],
)
def test_a_record_of_someone_else_is_checked_before_it_is_used(tmp_path: Path, change: dict[str, Any]) -> None:
    """It has a valid seal, so it was not damaged by accident; nothing outside its folder may be written."""
    folder = run(tmp_path)
    record = json.loads((folder.path / "run.json").read_text())
    del record["sha256"]
    write_record(folder.path / "run.json", {**record, **change})
    with pytest.raises(DamagedFile, match=r"run\.json is damaged"):
        load(folder.path)


def test_what_does_not_fit_into_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = run(tmp_path)
    monkeypatch.setattr(os, "sysconf", lambda name: 1)
    with pytest.raises(InputError, match=r"GB of memory; open it with xarray\.open_zarr"):
        load(folder.path)


def test_two_workers_that_finish_first_make_the_arrays_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both see that there are none, both make them, and the slower one finds those of the other in its way."""
    identity = RunIdentity.of("made_up/tasks", {"tasks": ("a", "b")}, "source")
    grid = Grid.cut({"tasks": ("a", "b")}, {"tasks": "task"})
    first, second = (RunFolder(Storage.of(tmp_path), identity, grid) for _ in range(2))
    listed = GridStore._listed
    faster: list[RunFolder] = [first]

    def nothing_yet(store: GridStore) -> set[str]:
        before = listed(store)
        if faster:
            faster.pop().put((0,), of_tasks(["a"]))
        return before

    monkeypatch.setattr(GridStore, "_listed", nothing_yet)
    second.put((1,), of_tasks(["b"]))
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.zarr"]
    second.note_arrays(second.store.metadata())
    assert second.done().all()
    assert second.dataset().task.values.tolist() == ["a", "b"]


def test_the_record_is_not_read_for_every_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    plain = run_folders.unsealed
    monkeypatch.setattr(run_folders, "unsealed", lambda content, name: read.append(name) or plain(content, name))
    run(tmp_path)
    assert read == []
    run(tmp_path)
    assert len(read) == 1


def test_a_finished_run_is_checked_whenever_it_is_read(tmp_path: Path) -> None:
    """Someone else may begin it anew at any time; another process stands for that here."""
    run(tmp_path)
    again = run(tmp_path)
    assert again.reused
    with pytest.raises(Stop), listening(when(2, _stop)):
        run(tmp_path, fresh=True)
    with pytest.raises(DamagedFile, match="4 damaged or missing"):
        again.dataset()
    assert notes_of(RunFolder.open(again.path).dataset())
    run(tmp_path)
    xr.testing.assert_equal(again.dataset(), experiment(**CUT))
    chunks_of(again)[0].unlink()
    with pytest.raises(DamagedFile, match="1 damaged or missing"):
        again.dataset()


def test_a_run_that_is_begun_anew_while_it_is_read_gives_no_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run(tmp_path)
    values_of = GridStore._whole

    def begun_anew(store: GridStore) -> xr.Dataset:
        with pytest.raises(Stop), listening(when(2, _stop)):
            run(tmp_path, fresh=True)
        return values_of(store)

    monkeypatch.setattr(GridStore, "_whole", begun_anew)
    with pytest.raises(DamagedFile, match="begun anew by another process while it was read"):
        folder.dataset()


class Killed(BaseException):
    """Nothing is cleared up after it, as after a killed process."""


def with_positions(rate: Sequence[float], seeds: Sequence[int], size: int = 3) -> xr.Dataset:
    """With a coordinate that is written once, when the arrays are made."""
    return experiment(rate, seeds, size).assign_coords(i=np.arange(size))


def test_a_fresh_start_that_is_killed_leaves_nothing_of_the_old_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(folder: RunFolder) -> None:
        raise Killed

    plan = Plan("paper/figure", with_positions, cut=CUT, fixed={"size": 3}, axes=AXES)
    folder = plan.run(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write", killed)
        with pytest.raises(Killed):
            plan.run(tmp_path, fresh=True)
    with pytest.raises(DamagedFile):
        folder.dataset()
    CALLS.clear()
    again = plan.run(tmp_path)
    assert len(CALLS) == 6
    xr.testing.assert_equal(again.dataset(), with_positions(**CUT))


def test_a_failure_keeps_pieces_that_no_engine_has_handed_out(tmp_path: Path) -> None:
    class Silent(Serial):
        """The first piece is on disk when the second one fails, and nobody has heard of it."""

        def results(self, calls: Any) -> Any:
            (_, first), *_ = calls
            first()
            raise ValueError("the second piece failed")
            yield

    with pytest.raises(ValueError, match="the second piece failed"):
        run(tmp_path, engine=Silent())
    (path,) = (tmp_path / "paper" / "figure").iterdir()
    assert finished(path) == 1
    CALLS.clear()
    xr.testing.assert_equal(load(run(tmp_path).path), experiment(**CUT))
    assert len(CALLS) == 5 + 6  # and `experiment` itself


def test_results_come_before_a_failure() -> None:
    class AtOnce(Executor):
        """Every call has ended by the time it is looked at."""

        def submit(self, call: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            try:
                future.set_result(call())
            except ValueError as error:
                future.set_exception(error)
            return future

    calls = [(text, partial(int, text)) for text in ("no number", *"1234567")]
    handed_out: list[int] = []
    with pytest.raises(ValueError, match="no number"):
        handed_out.extend(number for _, number in bounded(AtOnce(), calls, lambda: 8))
    assert sorted(handed_out) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("damaged", ["", "zarr.json", "v/zarr.json", "made_with/zarr.json"])
def test_a_kill_before_the_arrays_are_recorded_keeps_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: str
) -> None:
    def killed(folder: RunFolder, metadata: dict[str, str]) -> None:
        if metadata:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "note_arrays", killed)
        with pytest.raises(Killed):
            run(tmp_path)
    (path,) = (tmp_path / "paper" / "figure").iterdir()
    assert json.loads((path / "run.json").read_text())["metadata"] == {}
    if damaged:
        file = path / "sweep.zarr" / damaged
        text = file.read_text()
        file.write_text(text.replace("float64", "float32") if damaged == "v/zarr.json" else text[:-20])
    CALLS.clear()
    folder = run(tmp_path)
    assert len(CALLS) == (6 if damaged else 5)
    xr.testing.assert_equal(folder.dataset(), experiment(**CUT))


def test_a_chunk_without_arrays_is_not_taken_for_another_process(tmp_path: Path) -> None:
    """A worker of a stopped program may write one after its run was removed."""
    chunk = tmp_path / "sweep.zarr" / "length" / "c" / "0"
    chunk.parent.mkdir(parents=True)
    chunk.write_bytes(b"left over")
    identity = RunIdentity.of("made_up/tasks", {"tasks": ("a", "b")}, "source")
    folder = RunFolder(Storage.of(tmp_path), identity, Grid.cut({"tasks": ("a", "b")}, {"tasks": "task"}))
    folder.put((1,), of_tasks(["b"]))
    folder.note_arrays(folder.store.metadata())
    assert folder.done().tolist() == [False, True]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.json", "sweep.zarr"]


def test_a_killed_run_goes_on_with_another_piece_size(tmp_path: Path) -> None:
    """It keeps the pieces into which it was cut when it began."""
    cut = {"rate": (0.5,), "seeds": tuple(range(1, 9))}
    plan = Plan("paper/figure", experiment, cut=cut, fixed={"size": 3}, axes=AXES)
    with pytest.raises(Stop), listening(when(3, _stop)):
        plan.run(tmp_path, piece=3)
    CALLS.clear()
    folder = plan.run(tmp_path, piece=1)
    assert [seed for _, seed in CALLS] == [4, 5, 6, 7, 8]
    xr.testing.assert_equal(folder.dataset(), experiment(**cut))
    xr.testing.assert_equal(load(folder.path), experiment(**cut))


def test_in_an_object_store_one_piece_makes_the_arrays_before_the_others_begin() -> None:
    sizes: list[int] = []

    class Counting(Serial):
        def results(self, calls: Any) -> Any:
            listed = list(calls)
            sizes.append(len(listed))
            yield from super().results(listed)

    folder = Plan("paper/figure", experiment, cut=CUT, fixed={"size": 3}, axes=AXES).run(
        "memory://one-first", engine=Counting()
    )
    assert sizes == [1, 5]
    xr.testing.assert_equal(folder.dataset(), experiment(**CUT))
