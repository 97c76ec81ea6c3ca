from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from foretrain.core.errors import DamagedFile, InputError
from foretrain.core.streams import stream
from foretrain.core.trajectory import notes_of, trajectory
from foretrain.runs.stored import RunFolder, load
from foretrain.runs.sweep import sweep

CALLS: list[tuple[float, int]] = []


def experiment(rate: Sequence[float], seeds: Sequence[int], size: int = 3) -> xr.Dataset:
    CALLS.extend((r, s) for r in rate for s in seeds)
    values = [[r * stream("x", s, "data").random(size) for s in seeds] for r in rate]
    return trajectory({"v": (("rate", "seed", "i"), np.array(values))}, {"rate": rate, "seed": seeds}, size=size)


CUT = {"rate": (0.5, 2.0), "seeds": (1, 2, 3)}


def run(root: Path, **kwargs: object) -> RunFolder:
    return sweep("paper/figure", experiment, cut=CUT, fixed={"size": 3}, root=root, **kwargs)


def test_shards_add_up_to_the_whole_whoever_computes_them(tmp_path: Path) -> None:
    whole = experiment(**CUT)
    seen: list[tuple[int, int]] = []
    folder = run(tmp_path / "a", progress=lambda done, total: seen.append((done, total)))
    xr.testing.assert_equal(load(folder.path), whole)
    assert seen == [(k, 6) for k in range(7)]
    xr.testing.assert_equal(load(run(tmp_path / "b", jobs=2).path), whole)
    record = json.loads((folder.path / "run.json").read_text())
    assert record["status"] == "done"
    assert record["config"] == {"rate": [0.5, 2.0], "seeds": [1, 2, 3], "size": 3}
    assert "torch" in record["versions"]


def of_tasks(tasks: Sequence[str]) -> xr.Dataset:
    return trajectory({"length": ("task", [float(len(task)) for task in tasks])}, {"task": list(tasks)})


def test_names_stay_in_the_order_in_which_they_were_asked_for(tmp_path: Path) -> None:
    asked = ("same", "majority", "copying")
    found = sweep("made_up/tasks", of_tasks, cut={"tasks": asked}, fixed={}, root=tmp_path).dataset()
    assert tuple(found.task.values) == asked
    assert found.length.values.tolist() == [4.0, 8.0, 7.0]


def test_what_is_not_finished_is_in_order_too(tmp_path: Path) -> None:
    folder = RunFolder.at(tmp_path, "made_up/tasks", {"tasks": ("z", 30, "y", "a"), "others": ("z", "z")})
    for name, tasks in (("00000", ["30"]), ("00001", ["a"]), ("00002", ["z"])):
        folder.put(name, of_tasks(tasks))
    assert folder.dataset().task.values.tolist() == ["z", "30", "a"]


def test_what_is_there_is_not_computed_again_and_damage_is(tmp_path: Path) -> None:
    folder = run(tmp_path)
    CALLS.clear()
    run(tmp_path)
    assert CALLS == []
    shard = sorted((folder.path / "shards").iterdir())[4]
    shard.write_bytes(shard.read_bytes()[:-10])
    with pytest.raises(DamagedFile, match="damaged or missing"):
        load(folder.path)
    run(tmp_path)
    assert CALLS == [(2.0, 2)]
    xr.testing.assert_equal(load(folder.path), experiment(**CUT))


def test_a_run_that_stops_halfway_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done == 3:
            raise Stop

    with pytest.raises(Stop):
        run(tmp_path, progress=stop)
    CALLS.clear()
    folder = run(tmp_path)
    assert len(CALLS) == 3
    xr.testing.assert_identical(load(folder.path), load(run(tmp_path / "fresh").path))


def test_a_finished_run_of_other_code_is_not_mended_by_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = run(tmp_path)
    sorted((folder.path / "shards").iterdir())[0].unlink()
    monkeypatch.setattr("foretrain.runs.stored.source_digest", lambda paper: "another")
    CALLS.clear()
    run(tmp_path)
    assert len(CALLS) == 6


def test_an_unfinished_run_of_other_libraries_begins_anew(tmp_path: Path) -> None:
    folder = run(tmp_path)
    record = json.loads((folder.path / "run.json").read_text())
    record["status"], record["versions"]["torch"] = "running", "1.0"
    (folder.path / "run.json").write_text(json.dumps(record))
    assert any("not finished" in note for note in notes_of(load(folder.path)))
    CALLS.clear()
    again = run(tmp_path)
    assert len(CALLS) == 6
    assert again.origin["versions"]["torch"] != "1.0"
    assert notes_of(load(again.path)) == []


def test_two_processes_do_not_compute_one_run(tmp_path: Path) -> None:
    def meanwhile(done: int, total: int) -> None:
        if done == 1:
            with pytest.raises(InputError, match="by another process; wait"):
                run(tmp_path)

    folder = run(tmp_path, progress=meanwhile)
    assert len(folder.checksums) == 6


def dying(rate: Sequence[float], seeds: Sequence[int], size: int = 3) -> xr.Dataset:
    if list(seeds) == [3] and list(rate) == [2.0]:
        os._exit(9)
    return experiment(rate, seeds, size)


def test_a_killed_worker_takes_no_finished_shard_with_it(tmp_path: Path) -> None:
    """The pool breaks, some shards are done; the same command goes on with them."""
    with pytest.raises(InputError, match="ended from outside"):
        sweep("paper/figure", dying, cut=CUT, fixed={"size": 3}, root=tmp_path, jobs=2)
    kept = RunFolder.open(next((tmp_path / "paper" / "figure").iterdir()))
    CALLS.clear()
    again = run(tmp_path)
    assert len(CALLS) == 6 - len(kept.checksums) < 6
    xr.testing.assert_equal(load(again.path), experiment(**CUT))


def test_empty_and_repeated_values_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    for values, sentence in (((), "has no values"), ((0.5, 0.5), "must not repeat")):
        with pytest.raises(InputError, match=sentence):
            sweep("paper/figure", experiment, cut={"rate": values, "seeds": (1,)}, fixed={}, root=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_computed_a_run_is_not_rewritten_by_looking_at_it(tmp_path: Path) -> None:
    folder = run(tmp_path)
    record = json.loads((folder.path / "run.json").read_text())
    record["versions"]["torch"] = "0.0"
    (folder.path / "run.json").write_text(json.dumps(record))
    run(tmp_path)
    assert json.loads((folder.path / "run.json").read_text())["versions"]["torch"] == "0.0"


def test_a_broken_record_starts_anew(tmp_path: Path) -> None:
    folder = run(tmp_path)
    (folder.path / "run.json").write_text("{")
    CALLS.clear()
    run(tmp_path)
    assert len(CALLS) == 6


def test_names_cannot_leave_their_folder(tmp_path: Path) -> None:
    folder = RunFolder.at(tmp_path, "paper/figure", {})
    with pytest.raises(ValueError, match="cannot name a shard"):
        folder.shard_path("../outside")
