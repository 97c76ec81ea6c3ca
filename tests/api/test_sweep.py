"""foretrain.sweep and `foretrain run --grid`: many settings of an experiment or of a function of one's own."""

from __future__ import annotations

import functools
import itertools
import math
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

import foretrain as ft
from foretrain.api.run import plan_of
from foretrain.core import looping
from foretrain.core.errors import InputError
from foretrain.core.streams import seed_list
from foretrain.core.trajectory import notes_of
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Positive, Seeds, about
from foretrain.papers.scan_snap.experiments.training import fig6
from foretrain.runs.grid import MOST_PIECES, Grid
from foretrain.runs.run_folder import RunFolder, load
from foretrain.runs.sweep import Plan
from made_up.fixtures import Foretrain


def product(a: float, b: int = 2, seed: int = 1) -> dict[str, Any]:
    return {"times": a * b, "seeded": float(seed), "line": ("k", [a, float(b), 0.0])}


def test_a_function_of_ones_own(tmp_path: Path) -> None:
    found = ft.sweep(product, grid={"a": "1:4:4", "b": [1, 3]}, seeds=2, out=tmp_path).dataset()
    assert dict(found.sizes) == {"a": 4, "b": 2, "seed": 2, "k": 3}
    for a, b, seed in itertools.product((1.0, 2.0, 3.0, 4.0), (1, 3), (1, 2)):
        cell = found.sel(a=a, b=b, seed=seed)
        assert (cell.times.item(), cell.seeded.item()) == (a * b, seed)
        assert cell.line.values.tolist() == [a, b, 0.0]
    assert ft.sweep(product, grid={"a": [7.0]}, b=5, out=tmp_path).dataset().times.values.tolist() == [35.0]


def number(a: float) -> float:
    return a + 0.5


def nothing(a: float) -> object:
    return object()


def ragged(a: int) -> dict[str, Any]:
    return {"x": ("k", np.zeros(a))}


def moving(a: int) -> xr.Dataset:
    return xr.Dataset({"x": ("k", np.zeros(2))}, {"k": [0, a]})


def changing(a: int) -> dict[str, Any]:
    return {"x": 1.0} if a < 3 else {"x": 1.0, "y": 2.0}


def test_a_function_may_give_a_number(tmp_path: Path) -> None:
    assert ft.sweep(number, grid={"a": [1.0, 2.0]}, out=tmp_path).dataset()["value"].values.tolist() == [1.5, 2.5]


@pytest.mark.parametrize(
    ("function", "arguments", "words"),
    [
        (nothing, {"grid": {"a": [1.0]}}, "A sweep takes functions that give a Dataset, a number, or numbers by name"),
        (ragged, {"grid": {"a": [1, 2]}, "piece": 2}, "k has 1 values for one setting and 2 for another"),
        (ragged, {"grid": {"a": [1, 2]}, "piece": 1}, "k has 2 values for some settings and 1 for others"),
        (moving, {"grid": {"a": [1, 2]}, "piece": 2}, "k has other values for one setting than for another"),
        (moving, {"grid": {"a": [1, 2]}, "piece": 1}, "k has other values for some settings than for others"),
        (changing, {"grid": {"a": [1, 3]}, "piece": 1}, r"give different variables \(y\)"),
        (number, {"grid": {"b": [1.0]}}, "number takes no argument 'b'; it takes a"),
        (number, {"grid": {"a": [1.0]}, "seeds": 2}, "takes no argument 'seed'"),
        (number, {"grid": {"a": []}}, "a has no values"),
        (number, {"grid": {"a": [1.0]}, "piece": 0}, "at least 1 cell"),
        (number, {"grid": {"a": [1.0]}, "jobs": 0}, "jobs must be at least 1"),
        (number, {"grid": {"a": [1.0]}, "jobs": 2, "out": "nonsense://x"}, "cannot be opened"),
    ],
)  # fmt: skip
def test_what_cannot_be_swept_is_one_sentence(
    tmp_path: Path, function: Any, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        ft.sweep(function, **{"out": tmp_path, **arguments})


def test_how_a_grid_is_cut_changes_no_number(tmp_path: Path) -> None:
    wholes = [
        ft.sweep(product, grid={"a": [0.1, 0.2, 0.3], "b": [1, 2, 3, 4, 5]}, out=tmp_path / str(piece), piece=piece)
        for piece in (1, 2, 4, 7, 15)
    ]
    assert [int(np.prod(folder.folder.grid.blocks)) for folder in wholes] == [15, 9, 6, 3, 1]
    for folder in wholes:
        xr.testing.assert_identical(folder.dataset(), wholes[0].dataset())


def test_an_experiment_on_a_grid_is_the_experiment_itself(tmp_path: Path) -> None:
    """What it takes several values of it computes at once; over other arguments it is called for each value."""
    grid = {"eta_z": [1.0, 3.0], "ratio": "1:10:log2", "steps": [3, 5]}
    found = ft.sweep("scan_snap/fig6", grid=grid, seeds=3, tier="fast", out=tmp_path, queries=(1,)).dataset()
    assert dict(found.sizes) == {"steps": 2, "queries": 1, "eta_z": 2, "ratio": 2, "seed": 3}
    for steps in (3, 5):
        alone = fig6(queries=(1,), eta_z=(1.0, 3.0), ratio=(1.0, 10.0), seeds=3, steps=steps)
        here = found.entropy.sel(steps=steps).transpose(*alone.entropy.dims)
        np.testing.assert_array_equal(here.values, alone.entropy.values)


def best_of(
    rates: Annotated[Sequence[Positive], about("Rates to choose from.")] = (1.0,),
    seeds: Seeds = 2,
) -> xr.Dataset:
    """Like experiments that choose a learning rate: one result, however many rates there are."""
    listed = seed_list(seeds)
    return xr.Dataset({"loss": ("seed", [min(rates) * seed for seed in listed])}, {"seed": listed})


def test_a_grid_never_becomes_a_choice(tmp_path: Path) -> None:
    """Every combination was asked for: an experiment that makes one result of several values is not run over them."""
    experiment = Experiment("toy/best_of", "The best of several rates.", best_of, batched={"seeds": "seed"})
    with pytest.raises(InputError, match=r"toy/best_of gives one result for all values of rates.* --set rates=…"):
        plan_of(experiment, experiment.defaults(), {"rates": [1.0, 2.0]}).run(tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    only = plan_of(experiment, experiment.defaults(), {"rates": [3.0]}).run(tmp_path / "runs")
    assert only.dataset().loss.values.tolist() == [3.0, 6.0]


def test_a_piece_is_never_larger_than_asked_for() -> None:
    values = {"a": range(100), "b": range(50)}
    assert math.prod(Grid.cut(values, {}).blocks) <= MOST_PIECES
    assert math.prod(Grid.cut(values, {}, piece=1).blocks) == 5000


def test_any_store_of_fsspec(tmp_path: Path) -> None:
    folder = ft.sweep(product, grid={"a": [1.0, 2.0]}, out="memory://own runs/é")
    assert str(folder.place).startswith("memory://own runs/é/own/product/")
    xr.testing.assert_identical(
        load(str(folder.place)), ft.sweep(product, grid={"a": [1.0, 2.0]}, out=tmp_path).dataset()
    )
    opened = xr.open_zarr(f"{folder.place}/sweep.zarr", chunks=None)
    assert opened.times.values.tolist() == [2.0, 4.0]
    assert bool(opened.done.all())
    with pytest.raises(InputError, match="lives in one process"):
        ft.sweep(product, grid={"a": [1.0, 2.0]}, piece=1, jobs=2, out="memory://own runs/é2")


def test_a_store_goes_on_where_it_stopped() -> None:
    place = "memory://stopped"
    os.environ["STOP_AT"] = "3"
    try:
        with pytest.raises(KeyboardInterrupt):
            ft.sweep(stops, grid={"a": [1, 2, 3, 4]}, out=place, piece=1)
    finally:
        del os.environ["STOP_AT"]
    CALLS.clear()
    folder = ft.sweep(stops, grid={"a": [1, 2, 3, 4]}, out=place, piece=1)
    assert CALLS == [3, 4]
    assert folder.dataset()["value"].values.tolist() == [1, 2, 3, 4]


CALLS: list[int] = []


def stops(a: int) -> int:
    if os.environ.get("STOP_AT") == str(a):
        raise KeyboardInterrupt
    CALLS.append(a)
    return a


def stops_halfway(a: float, b: float) -> float:
    if "STOP_AT" in os.environ and (a, b) == (1.0, 1.0):
        raise KeyboardInterrupt
    return 10 * a + b


@pytest.mark.parametrize("piece", [1, 2, 3, None])
def test_a_grid_in_another_order_is_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int | None
) -> None:
    """It was once continued with its axes exchanged."""
    values = [0.0, 1.0, 2.0]
    monkeypatch.setenv("STOP_AT", "the middle")
    with pytest.raises(KeyboardInterrupt):
        ft.sweep(stops_halfway, grid={"a": values, "b": values}, piece=piece, out=tmp_path)
    monkeypatch.delenv("STOP_AT")
    for order in ("ba", "ab"):
        found = ft.sweep(stops_halfway, grid=dict.fromkeys(order, values), piece=piece, out=tmp_path).dataset()
        assert found.value.dims == tuple(order)
        whole = ft.sweep(stops_halfway, grid=dict.fromkeys(order, values), out=tmp_path / f"whole {order}")
        xr.testing.assert_identical(found, whole.dataset())
        assert found.value.sel(a=2, b=1) == 21


def total(a: Any) -> float:
    return float(np.sum(a))


def test_a_list_is_not_a_grid(tmp_path: Path) -> None:
    assert ft.sweep(total, grid={"a": [1.0, 2.0]}, out=tmp_path).dataset().value.values.tolist() == [1, 2]
    assert ft.sweep(total, a=[1.0, 2.0], out=tmp_path).dataset().value.item() == 3


def test_on_the_command_line(foretrain: Foretrain) -> None:
    printed = foretrain("run", "toy/noise", "--grid", "eta_z=.5:2:log3", "--grid", "steps=2,2", "--seeds", "2")
    assert "steps must not repeat" in printed.err
    printed = foretrain("run", "toy/noise", "--grid", "eta_z=.5:2:log3", "--grid", "pause=0,0.001", "--seeds", "2")
    assert printed.code == 0, printed.err
    found = load(Path(printed.out.strip()))
    assert dict(found.sizes) == {"pause": 2, "eta_z": 3, "seed": 2, "time": 2}
    np.testing.assert_array_equal(found.level.isel(pause=0), found.level.isel(pause=1))
    plain = load(Path(foretrain("run", "toy/noise", "--set", "eta_z=.5,1,2", "--seeds", "2").out.strip()))
    np.testing.assert_array_equal(found.level.isel(pause=0), plain.level)
    for arguments, words in (
        (
            ("--grid", "eta_z=1", "--set", "eta_z=2"),
            "eta_z is given both by --grid and by --set or --seeds; give it once.",
        ),
        (("--piece", "0"), "A piece must hold at least 1 cell; got 0."),
    ):
        refused = foretrain("run", "toy/noise", *arguments)
        assert (refused.code, words in refused.err) == (2, True), refused.err


def test_pieces_of_the_command_line(foretrain: Foretrain) -> None:
    path = Path(foretrain("run", "toy/noise", "--seeds", "4", "--set", "eta_z=1,2", "--piece", "3").out.strip())
    assert RunFolder.open(path).grid.blocks == (2, 2)
    again = foretrain("run", "toy/noise", "--seeds", "4", "--set", "eta_z=1,2")  # it stays as it was begun
    assert again.out.strip() == str(path)
    assert notes_of(load(path)) == []


def _times(factor: float) -> Any:
    return lambda a: factor * a


SCALE = 3.0


def scaled(a: float) -> float:
    return SCALE * a


def test_another_function_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code, its closure and the numbers that it uses from outside count, not only its name and its file."""

    def values(function: Any) -> list[float]:
        return list(ft.sweep(function, grid={"a": [1.0, 2.0]}, out=tmp_path).dataset().value.values)

    assert values(lambda a: 1.0 * a) == [1, 2]
    assert values(lambda a: 5.0 * a) == [5, 10]
    assert [values(_times(factor)) for factor in (2.0, 4.0)] == [[2, 4], [4, 8]]
    assert values(scaled) == [3, 6]
    monkeypatch.setitem(globals(), "SCALE", 7.0)
    assert values(scaled) == [7, 14]
    array = np.array([1.0, 2.0])
    assert values(lambda a: a * array.sum()) == [3, 6]
    array[0] = 2
    assert values(lambda a: a * array.sum()) == [4, 8]
    long = [np.zeros(5000)]
    assert values(lambda a: a + long[0].sum()) == [1, 2]
    long[0][2500] = 1  # where repr shows dots
    assert values(lambda a: a + long[0].sum()) == [2, 3]


def weighed(a: float, w: Any = None) -> float:
    return float(a * np.sum(w * 2))


def test_other_values_are_another_run(tmp_path: Path) -> None:
    """Every bit of an argument counts, and so does its kind."""
    long = np.zeros(5000)
    other = long.copy()
    other[2500] = 1  # where repr shows dots
    given: list[Any] = [long, other, [1, 2], np.array([1, 2]), np.array([1, 2], np.int8), 1.5, np.float32(1.5), {1, 2}]
    given += [1 + 2j, {1: 1.0}, {"1": 1.0}]
    paths = set()
    for w in given:
        found = ft.sweep(lambda a, w: a, grid={"a": [1.0]}, w=w, out=tmp_path)
        assert not found.reused
        assert ft.sweep(lambda a, w: a, grid={"a": [1.0]}, w=w, out=tmp_path).reused
        paths.add(found.path)
    assert len(paths) == len(given)
    assert ft.sweep(weighed, grid={"a": [1.0]}, w=[1, 2], out=tmp_path).dataset().value.item() == 6
    assert ft.sweep(weighed, grid={"a": [1.0]}, w=np.array([1, 2, 3]), out=tmp_path).dataset().value.item() == 12


def _weighed_by_default(w: Any) -> Any:
    return lambda a, w=w: float(a * np.sum(w))


def test_other_defaults_are_another_function(tmp_path: Path) -> None:
    w = np.zeros(5000)
    for size in (1.0, 2.0):
        w[2500] = size
        assert ft.sweep(_weighed_by_default(w), grid={"a": [1.0]}, out=tmp_path).dataset().value.item() == size
    with pytest.raises(InputError, match="uses w from outside"):
        ft.sweep(_weighed_by_default(torch.ones(2)), grid={"a": [1.0]}, out=tmp_path)


@pytest.mark.parametrize("w", [torch.ones(2), [torch.ones(2)], pd.DataFrame({"x": [1.0]}), {(1, 2): 3}, object()])
def test_values_that_cannot_be_compared_are_refused(tmp_path: Path, w: Any) -> None:
    with pytest.raises(InputError, match=r"w \(.*\) holds something other than numbers, text and numpy arrays"):
        ft.sweep(weighed, grid={"a": [1.0]}, w=w, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_same_function_goes_on(tmp_path: Path) -> None:
    first = ft.sweep(_times(2.0), grid={"a": [1.0, float("nan")]}, out=tmp_path)
    assert ft.sweep(_times(2.0), grid={"a": [1.0, float("nan")]}, out=tmp_path).path == first.path


@pytest.mark.parametrize(
    ("first", "second", "kinds"),
    [
        (True, 7, "truth values .* whole numbers"),
        (np.int8(1), np.int64(300), "int8.*int64"),
        (1.0, 1 + 2j, "fractions .* complex"),
        (np.float32(1), np.float64(0.1), "float32.*float64"),
        (1, 0.5, "whole numbers .* fractions"),
    ],
)
def test_no_value_is_changed_to_fit_the_first(tmp_path: Path, first: Any, second: Any, kinds: str) -> None:
    with pytest.raises(InputError, match=kinds):
        ft.sweep(lambda a: {"e": np.asarray(first if a == 1 else second)}, grid={"a": [1, 2]}, piece=1, out=tmp_path)


def _anything(**given: Any) -> float:
    return 1.0


@pytest.mark.parametrize(
    ("function", "grid", "fixed", "words"),
    [
        (functools.partial(product, b=3), {"a": [1.0]}, {}, "plain function"),
        (_anything, {"a": "1:2:3"}, {}, "no type"),
        (lambda a: 1.0, {"a": "1:2:3"}, {}, "no type"),
        (product, {"a": [1.0]}, {"a": 2.0}, "given twice"),
        (product, {"a": [1.0]}, {"c": 2.0}, "takes no argument 'c'"),
        (product, {"a": [(1, 2)]}, {}, r"has \(1, 2\)"),
        (product, {"a": [None, 2.0]}, {}, "has None"),
        (product, {"a": []}, {}, "no values"),
        (product, {"a": "-1e308:1e308:3"}, {}, "too wide"),
        (lambda a: {"..": 1.0}, {"a": [1]}, {}, "name '..'"),
        (lambda a: {"zarr.json": 1.0}, {"a": [1]}, {}, "name 'zarr.json'"),
        (lambda a: {"a\\b": 1.0}, {"a": [1]}, {}, "cannot keep a variable with the name"),
        (lambda a: 1.0, {"a": [math.nan, 1.0, np.float64("nan")]}, {}, "a must not repeat a value"),
        (lambda a: 1.0, {"a": ["\ud800"]}, {}, r"a holds half a character, .* got \['\\ud800'\]"),
        (lambda a, b: 1.0, {"a": [1]}, {"b": {"\ud800": 1}}, "b holds half a character"),
        (lambda a: {"w": "\ud800"}, {"a": [1]}, {}, "w holds half a character"),
        (lambda a: xr.Dataset({"v": ("i", [a])}, {"my lab": ("i", ["x"])}), {"a": [1]}, {}, "space in their name"),
    ],
)
def test_odd_sweeps_are_refused(tmp_path: Path, function: Any, grid: Any, fixed: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        ft.sweep(function, grid=grid, out=tmp_path, **fixed)


def test_a_variable_may_be_called_like_a_temporary_file(tmp_path: Path) -> None:
    found = ft.sweep(lambda x: {"v.partial": x}, grid={"x": [1.0, 2.0]}, piece=1, out=tmp_path)
    assert found.dataset()["v.partial"].values.tolist() == [1, 2]


def test_objects_from_outside_are_refused(tmp_path: Path) -> None:
    state = Random()
    with pytest.raises(InputError, match="uses state from outside"):
        ft.sweep(lambda a: a * state.random(), grid={"a": [1.0]}, out=tmp_path)


PACKED: list[dict[str, Any]] = [
    {"scale_factor": 2.0},
    {"add_offset": 1.0},
    {"missing_value": 1},
    {"_FillValue": 1},
    {"_Unsigned": "true"},
    {"dtype": "bool"},
    {"coordinates": "w"},
]


@pytest.mark.parametrize("attributes", PACKED)
def test_attributes_that_change_numbers_are_refused(tmp_path: Path, attributes: dict[str, Any]) -> None:
    given = {"v": ("i", np.arange(-1, 2), attributes)}
    for grid, kind in (({"x": [1]}, dict), ({"x": [1]}, xr.Dataset), ({}, xr.Dataset)):
        with pytest.raises(InputError, match=f"v has an attribute {next(iter(attributes))}, by which readers of files"):
            Plan("paper/figure", lambda x=1, kind=kind: kind(given), cut=grid, fixed={}).run(tmp_path)


@pytest.mark.parametrize("attributes", PACKED)
def test_runs_that_have_them_are_read_as_they_were_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attributes: dict[str, Any]
) -> None:
    monkeypatch.setattr(looping, "PACKING", frozenset())  # as it was once
    found = ft.sweep(
        lambda x: xr.Dataset({"v": ("i", np.arange(-1, 2) * x, attributes), "w": ("i", ["a", "b", "c"])}),
        grid={"x": [1, 3]},
        out=tmp_path,
    ).dataset()
    assert found.v.values.tolist() == [[-1, 0, 1], [-3, 0, 3]]
    assert found.v.dtype.kind == "i"
    assert set(found.data_vars) == {"v", "w"}


def test_one_value_is_a_grid(tmp_path: Path) -> None:
    assert ft.sweep(_times(2.0), grid={"a": 0.5}, out=tmp_path).dataset().value.values == [1.0]
