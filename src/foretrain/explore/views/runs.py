"""Runs: browse trajectories, sweeps and monitored trainings in a folder, compare two, and see the paper's figure."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import plotly.graph_objects as go
import xarray as xr

from foretrain.core.errors import InputError, require
from foretrain.core.trajectory import notes_of
from foretrain.explore.figure_theme import BELOW
from foretrain.explore.sliders import Slider, State, write_state
from foretrain.explore.view import Cell, Picture, Places, TextTable, View, python_call
from foretrain.ledger.quantities import BASE
from foretrain.monitor.page.curves import curves_of as entropy_curves
from foretrain.monitor.page.story import story
from foretrain.monitor.short_names import without_shared
from foretrain.papers import figure_of
from foretrain.runs.run_folder import describe, load
from foretrain.show.axes import curves, has_names, main_axis, replicates
from foretrain.show.plotting import PALETTE, new_figure, plain_text

NONE = "none"
RECORD = "run.json"  # which every run folder has
MARKS = Path("sweep.zarr", "done")  # of a sweep's finished cells
MOST_FOUND = 300
MOST_CURVES = 8
MOST_BARS = 100  # names on an axis
SKIPPED = ("check",)  # verdicts have a view of their own
ENTROPY = "attention_relative_entropy"


@dataclass(frozen=True)
class LoadedRuns:
    """What is on disk for the chosen run and the one it is compared with."""

    run: xr.Dataset
    other: xr.Dataset | None
    experiment: str
    finished: bool
    analysis: bool = False  # of a model's weights, rather than a training


def run_names(root: Path) -> list[str]:
    """Runs, trajectories and monitored trainings below a folder, as paths relative to it; links that leave it are not
    followed."""
    if not root.is_dir():
        return []
    top, names = root.resolve(), []
    for folder, folders, files in os.walk(top):
        here = Path(folder)
        if RECORD in files and here != top:
            names.append(here.relative_to(top).as_posix())
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if name not in SKIPPED and not name.endswith(".zarr"))
        kept = (here / name for name in sorted(files) if name.endswith((".nc", ".jsonl")))
        names += [path.relative_to(top).as_posix() for path in kept]
        if len(names) >= MOST_FOUND:
            break
    return [name for name in names[:MOST_FOUND] if _inside(top, name)]


def _inside(top: Path, name: str) -> bool:
    return (top / name).resolve().is_relative_to(top)


def place_of(root: Path, name: str) -> Path:
    """Where a run is; refused unless it is inside the folder that the command line named."""
    top = root.resolve()
    require(_inside(top, name) and (top / name).exists(), f"There is no run {name[:80]!r} in this folder.")
    return top / name


def controls(places: Places) -> Sequence[Slider]:
    names = tuple(run_names(places.runs))
    return (
        Slider("run", "run", "choice", names[0] if names else NONE, options=names or (NONE,)),
        Slider("other", "compare with", "choice", NONE, options=(NONE, *names)),
        Slider("quantity", "quantity", "text", "", says="Its name; the links in the table fill it in."),
        Slider("theory", "the paper's own figure", "flag", True),
    )  # fmt: skip


def stamp(state: State, places: Places) -> Any:
    """When the files were last written: a training or a sweep that goes on is read again."""
    return [0 if name == NONE else _last_written(places.runs / name) for name in (state["run"], state["other"])]


def _last_written(path: Path) -> int:
    """In nanoseconds; a sweep's record stays the same while pieces are added, so their marks count, too."""
    files = [path / RECORD, *(path / MARKS).rglob("*")] if path.is_dir() else [path]
    return max((file.stat().st_mtime_ns for file in files if file.is_file()), default=0)


def work(state: State, places: Places) -> LoadedRuns | str:
    from foretrain.checkpoints.record_file import is_analysis  # on use: it loads torch

    if state["run"] == NONE:
        return NONE
    path = place_of(places.runs, state["run"])
    other = None if state["other"] == NONE else load(place_of(places.runs, state["other"]))
    about = describe(path) if path.is_dir() else {}
    analysis = path.suffix == ".jsonl" and is_analysis(path)
    return LoadedRuns(load(path), other, str(about.get("experiment", "")), bool(about.get("complete", True)), analysis)


def _first_to_show(names: Sequence[str], run: xr.Dataset) -> str:
    """Entropy if there is one, else the first quantity with any number in it: nothing may have diverged."""
    return next((name for name in (ENTROPY, "entropy") if name in names), None) or next(
        (name for name in names if bool(run[name].notnull().any())), names[0]
    )


def draw(state: State, worked: LoadedRuns | str | None, places: Places) -> Picture:
    if state["run"] == NONE:
        return Picture(
            f"There is no run in {places.runs} yet: foretrain run scan_snap/fig6 makes one, and so does "
            'Monitor(model, file="training.jsonl").'
        )
    if not isinstance(worked, LoadedRuns):
        return Picture(f"Reading {state['run']} …", waiting="Reading …", empty=True)
    names = quantities(worked.run)
    require(bool(names), f"{state['run']} has no numbers to draw.")
    chosen = state["quantity"].strip() or _first_to_show(names, worked.run)
    require(chosen in names, f"There is no quantity {chosen[:40]!r} in this run; there are {', '.join(names)}.")
    figures = {"quantity": _figure(chosen, worked, state)}
    if state["theory"] and worked.experiment:
        figures |= _paper_figure(worked)
    notes = tuple(notes_of(worked.run))
    return Picture(
        answer=_answer(state, chosen, worked),
        sentences=notes if worked.finished or notes else ("This run is not finished.",),
        slow_figures=figures,
        tables=(_quantities_table(state, worked, places), *_end_table(chosen, worked)),
        python=f"import foretrain\n\nrun = foretrain.load({str(places.runs / state['run'])!r})\n"
        f"print(run[{chosen!r}])\n\n{python_call(VIEW.path, controls(places), state, runs=places.runs)}",
    )


def quantities(run: xr.Dataset) -> list[str]:
    return [str(name) for name, values in run.data_vars.items() if values.dtype.kind in "fiu" and values.size > 0]


def curves_of(run: xr.Dataset, name: str) -> tuple[str, dict[str, xr.DataArray], bool]:
    """The axis to draw over, the curves by their labels (means over seeds), and whether some were left out."""
    values = run[name].astype(float)
    over = [*replicates(values, BASE), *(["head"] if "head" in values.dims else [])]
    values = values.mean(over, keep_attrs=True)
    axis = main_axis(values, BASE) or _only_names(values)
    if axis is None and "step" in values.dims:
        axis = "step"
    if axis is None:
        return "", {"": values}, False
    listed = curves(values, axis, BASE)
    labelled = {unescape(curve.label) or name: values.isel(curve.where) for curve in listed[:MOST_CURVES]}
    return axis, labelled, len(listed) > MOST_CURVES


def _only_names(values: xr.DataArray) -> str | None:
    """The only axis along which anything varies, if it has names: a model has more matrices than fit below a figure."""
    long = [str(axis) for axis in values.dims if values.sizes[axis] > 1]
    return long[0] if len(long) == 1 and has_names(values, long[0]) else None


def _names_of(values: xr.DataArray, axis: str) -> list[str] | None:
    """The names on an axis; None if it has numbers."""
    return [str(name) for name in values[axis].values] if axis and has_names(values, axis) else None


def _figure(name: str, worked: LoadedRuns, state: State) -> go.Figure:
    axis, _, cut = curves_of(worked.run, name)
    attributes = worked.run[name].attrs
    title = plain_text(attributes.get("long_name", name.replace("_", " ")))
    unit = f" ({attributes['units']})" if "units" in attributes else ""
    figure = new_figure(title, x=axis, y=plain_text(name.replace("_", " ") + unit))
    short = _short_names(name, worked)
    for index, (run, dash) in enumerate(((worked.run, "solid"), (worked.other, "dash"))):
        if run is None or name not in run:
            continue
        axis, curves, _ = curves_of(run, name)
        for color, (label, values) in enumerate(curves.items()):
            of = "" if worked.other is None else f"{'this run' if index == 0 else 'the other'}, "
            labelled = plain_text(f"{of}{label}")
            if (names := _names_of(values, axis)) is not None:
                figure.add_bar(  # for each name, from the top down
                    y=[plain_text(short[each]) for each in names[:MOST_BARS]],
                    x=values.values.reshape(-1)[:MOST_BARS].tolist(), name=labelled, orientation="h",
                    marker={"color": PALETTE[color % len(PALETTE)], "pattern": {"shape": "/" if index > 0 else ""}},
                )  # fmt: skip
                continue
            x = values[axis].values if axis and axis in values.coords else np.arange(values.size)
            figure.add_scatter(
                x=x.tolist(), y=np.atleast_1d(values.values).tolist(), name=labelled,
                mode="lines+markers" if values.size <= 60 else "lines",
                line={"color": PALETTE[color % len(PALETTE)], "dash": dash}, marker={"size": 5},
            )  # fmt: skip
    if any(trace.type == "bar" for trace in figure.data):
        return _on_its_side(figure, title, plain_text(axis))
    if cut:
        figure.update_layout(title=f"{title}, the first {MOST_CURVES} curves")
    return figure.update_layout(height=420 + 12 * len(figure.data), showlegend=True, **BELOW)


def _short_names(name: str, worked: LoadedRuns) -> dict[str, str]:
    """The names that a quantity is drawn over, without what all of them share, in both runs."""
    full: dict[str, None] = {}
    for run in (worked.run, worked.other):
        if run is not None and name in run:
            axis, curves, _ = curves_of(run, name)
            full |= dict.fromkeys(_names_of(next(iter(curves.values())), axis) or ())
    return without_shared(list(full))


def _on_its_side(figure: go.Figure, title: str, axis: str) -> go.Figure:
    """Names stand on the vertical axis, where they can be read, and there is room for each of them."""
    names = len({name for trace in figure.data for name in trace.y})
    if names == MOST_BARS:
        figure.update_layout(title=f"{title}, the first {MOST_BARS}")
    figure.update_xaxes(title=figure.layout.yaxis.title.text)
    figure.update_yaxes(title=axis, type="category", autorange="reversed", dtick=1, automargin=True)
    several = len(figure.data) > 1
    height = 190 + names * (8 + 12 * len(figure.data))
    return figure.update_layout(height=height, barmode="group", showlegend=several, **BELOW)


def _paper_figure(worked: LoadedRuns) -> dict[str, go.Figure]:
    """The paper's own figure of this experiment, if it has one and the run is whole."""
    try:
        return {"paper": figure_of(worked.experiment)(worked.run)}
    except (InputError, KeyError, ValueError, IndexError):
        return {}


def _answer(state: State, name: str, worked: LoadedRuns) -> str:
    words = name.replace("_", " ")
    axis, curves, _ = curves_of(worked.run, name)
    label, values = next(iter(curves.items()))
    if (names := _names_of(values, axis)) is not None and (worked.analysis or "loss" not in worked.run):
        return _over_names(worked.experiment or state["run"], words, axis, names, values.values.reshape(-1))
    one_model = worked.analysis and worked.run.sizes["step"] == 1
    if "loss" in worked.run and "step" in worked.run.dims and not one_model:
        sentences = story(worked.run, entropy_curves(worked.run))
        if worked.other is not None and "loss" in worked.other:
            ends = [run["loss"].dropna("step").values for run in (worked.run, worked.other)]
            if all(len(each) for each in ends):
                first = f"This training ends at a loss of {ends[0][-1]:.4g}, the other at {ends[1][-1]:.4g}."
                return " ".join([first, *sentences[1:2]])
        return " ".join(sentences[:2])
    ends_of = np.atleast_1d(values.values)
    what = f"{worked.experiment or state['run']}: {words}"
    which = f" ({label})" if label and label != name else ""
    if len(ends_of) == 1 and np.isnan(ends_of[0]):
        return f"{what} was not measured."
    if len(ends_of) == 1:
        return f"{what} is {ends_of[0]:.4g}."
    return f"{what} goes from {ends_of[0]:.4g} to {ends_of[-1]:.4g}{which}."


def _over_names(what: str, words: str, axis: str, full: Sequence[str], values: np.ndarray) -> str:
    names = list(without_shared(full).values())
    if not np.isfinite(values).any():
        return f"{what}: {words} is not a number anywhere."
    low, high = int(np.nanargmin(values)), int(np.nanargmax(values))
    return (
        f"{what}: {words} lies between {values[low]:.4g} ({axis} {names[low]}) and {values[high]:.4g} "
        f"({axis} {names[high]})."
    )


def _quantities_table(state: State, worked: LoadedRuns, places: Places) -> TextTable:
    known = controls(places)
    rows = []
    for name in quantities(worked.run):
        values = worked.run[name]
        query = urlencode(write_state(known, {**state, "quantity": name}))
        axes = " × ".join(f"{axis} {size}" for axis, size in values.sizes.items()) or "one number"
        rows.append((Cell(name, link=f"/{VIEW.path}?{query}"), str(values.attrs.get("long_name", "")), axes))
    return TextTable("What was recorded", ("quantity", "what it is", "axes"), tuple(rows))


def _end_table(name: str, worked: LoadedRuns) -> tuple[TextTable, ...]:
    """Values at the end of every curve, and those of the other run beside them."""
    axis, curves, _ = curves_of(worked.run, name)
    other = curves_of(worked.other, name)[1] if worked.other is not None and name in worked.other else {}
    if _names_of(next(iter(curves.values())), axis) is not None:
        return _names_table(axis, curves, other)
    rows = []
    for label, values in curves.items():
        last = [f"{np.atleast_1d(each.values)[-1]:.4g}" for each in (values, other.get(label)) if each is not None]
        rows.append((label, *last, *([""] if worked.other is not None and len(last) == 1 else [])))
    head = ("curve", "this run", "the other") if worked.other is not None else ("curve", "at the end")
    return (TextTable("At the end", head, tuple(rows), numbers=(1, 2)),)


def _names_table(
    axis: str, ours: Mapping[str, xr.DataArray], other: Mapping[str, xr.DataArray]
) -> tuple[TextTable, ...]:
    """Every value by its full name: a column for each curve, and those of the other run beside them."""
    columns = [
        (label if not other else f"{label}, {whose}" if len(ours) > 1 else whose, each[label])
        for label in ours
        for each, whose in ((ours, "this run"), (other, "the other"))
        if label in each
    ]
    numbers = [dict(zip(map(str, v[axis].values), v.values.reshape(-1), strict=True)) for _, v in columns]
    full = list(dict.fromkeys(name for column in numbers for name in column))[:MOST_BARS]
    rows = [(name, *(f"{column[name]:.4g}" if name in column else "" for column in numbers)) for name in full]
    head = (axis, *(label for label, _ in columns))
    return (TextTable(f"By {axis}", head, tuple(rows), numbers=tuple(range(1, len(head)))),)


VIEW = View(
    path="runs",
    title="Runs",
    question="What did a run do, how does it differ from another, and what does the theory say?",
    controls=controls,
    draw=draw,
    work=work,
    stamp=stamp,
)
