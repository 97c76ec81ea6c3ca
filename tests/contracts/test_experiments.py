"""One suite over every experiment of every paper."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
import xarray as xr

from foretrain import papers
from foretrain.cli.values import read_value
from foretrain.core.streams import seed_list
from foretrain.ledger.experiment import Experiment
from foretrain.runs.sweep import sweep

EXPERIMENTS = papers.experiments()
every_experiment = pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS.keys())


@every_experiment
def test_says_what_it_is(experiment: Experiment) -> None:
    paper, name = experiment.id.split("/")
    assert paper in papers.papers()
    assert re.fullmatch(r"[A-Za-z0-9_]+", name)
    assert experiment.says.strip()
    defaults = experiment.defaults()
    assert inspect.Parameter.empty not in defaults.values(), "every argument has a default: the paper's own"
    assert set(experiment.quick) | set(experiment.full) <= set(defaults)
    assert set(experiment.cut) <= set(defaults)
    for axis in experiment.cut:
        assert axis == "seeds" or isinstance(defaults[axis], tuple | list | range), f"{axis} is not a sequence"


@every_experiment
def test_arguments_can_be_given_on_the_command_line(experiment: Experiment) -> None:
    defaults = experiment.defaults()
    for name, value in [*defaults.items(), *experiment.quick.items(), *experiment.full.items()]:
        if isinstance(value, bool | int | float | str | tuple | list):
            written = ",".join(map(repr, value)) if isinstance(value, tuple | list) else str(value)
            read = read_value(name, written, defaults[name])
            assert read == (tuple(value) if isinstance(value, list) else value), name


@every_experiment
def test_quick_run_whole_and_cut_is_the_same_and_can_be_drawn(experiment: Experiment, tmp_path: Path) -> None:
    arguments = experiment.arguments("fast")
    whole = experiment.run(**arguments)
    assert isinstance(whole, xr.Dataset)
    assert len(whole.data_vars) >= 1
    figure = papers.figure_of(experiment.id)(whole)
    _check_figure(figure)
    if not experiment.cut:
        return
    cut = {name: _listed(name, arguments[name]) for name in experiment.cut}
    fixed = {name: value for name, value in arguments.items() if name not in cut}
    for axis in cut:  # an axis is called as its argument, or in the singular: seeds, seed
        assert {axis, axis.removesuffix("s")} & set(whole.dims), f"the result has no axis {axis}"
    parts = sweep(experiment.id, experiment.run, cut=cut, fixed=fixed, root=tmp_path).dataset()
    for name, variable in whole.data_vars.items():
        found = parts[name].reindex({axis: whole[axis] for axis in variable.dims if axis in whole.coords})
        np.testing.assert_array_equal(found.transpose(*variable.dims).values, variable.values, err_msg=str(name))
    _check_figure(papers.figure_of(experiment.id)(parts))


def _listed(name: str, value: Any) -> list[Any]:
    return seed_list(value) if name == "seeds" else list(value)


def _check_figure(figure: go.Figure) -> None:
    assert isinstance(figure, go.Figure)
    assert len(figure.data) >= 1
    assert figure.layout.title.text
    titled = [axis.title.text for axis in (*figure.select_xaxes(), *figure.select_yaxes())]
    assert any(titled), "no axis says what it shows"
