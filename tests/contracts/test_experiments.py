"""One suite over every experiment of every paper."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest
import xarray as xr

from contracts.everywhere import problems
from foretrain import papers
from foretrain.api.run import plan_of
from foretrain.core.errors import InputError
from foretrain.core.streams import seed_list
from foretrain.core.workers import single_threaded
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import is_described
from foretrain.ledger.tiers import TIERS
from foretrain.runs.identity import RunIdentity

EXPERIMENTS = papers.experiments()
every_experiment = pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS.keys())


def says_what_it_is(experiment: Experiment) -> None:
    paper, name = experiment.id.split("/")
    assert paper in papers.papers()
    assert re.fullmatch(r"[A-Za-z0-9_]+", name)
    assert experiment.says.strip()
    defaults = experiment.defaults()
    assert inspect.Parameter.empty not in defaults.values(), "every argument has a default: the paper's own"
    assert set(experiment.settings) <= set(TIERS)
    for setting in experiment.settings.values():
        assert set(setting) <= set(defaults)
    assert set(experiment.cut) <= set(defaults)
    for argument in experiment.cut:
        assert argument == "seeds" or isinstance(defaults[argument], tuple | list | range), f"{argument}: no sequence"


def every_parameter_is_typed_and_described(experiment: Experiment) -> None:
    for name, parameter in experiment.parameters().items():
        assert is_described(parameter), f"{name} has no sentence"
        assert parameter.says.endswith("."), name
        assert parameter.takes not in ("", "values", "text") or parameter.schema().get("type") == "string", name
        json.dumps(parameter.schema())


def arguments_can_be_given_on_the_command_line(experiment: Experiment) -> None:
    """Every default and every value of a tier is read back from its text."""
    for tier in TIERS:
        for name, value in experiment.arguments(tier).items():
            written = ",".join(map(str, value)) if isinstance(value, tuple | list | range) else str(value)
            read = experiment.parameters()[name].read(written)
            assert read == (tuple(value) if isinstance(value, list | range) else value), name


def a_single_value_from_python_is_a_list_of_one(experiment: Experiment) -> None:
    """Of every axis and whatever is batched; what is valid stays as it is, because it names the run."""
    defaults = experiment.defaults()
    for name in experiment.cut:
        first = seed_list(defaults[name])[0] if name == "seeds" else defaults[name][0]
        if name != "seeds":  # of which 3 means 1, 2 and 3
            for bare in (first, np.asarray(first)):
                assert experiment.take({name: bare})[name] == [first], f"{name}={bare!r}"
            assert _planned(experiment, {name: first}) == _planned(experiment, {name: [first]}), name
        for valid in ([first], (first,), np.array([first])):
            assert experiment.take({name: valid})[name] is valid, f"{name}={valid!r} is changed"
    for tier in TIERS:
        arguments = experiment.arguments(tier)
        for name, value in experiment.take(arguments).items():
            assert value is arguments[name], f"{name} at tier {tier} is changed"


def _planned(experiment: Experiment, given: dict[str, object]) -> object:
    plan = plan_of(experiment, {**experiment.defaults(), **experiment.take(given)}, {})
    identity = RunIdentity.of(experiment.id, {**plan.fixed, **plan.cut}, "source", cut=list(plan.cut))
    return plan, identity.name


def what_cannot_be_taken_is_refused_in_a_sentence(experiment: Experiment) -> None:
    never: list[object] = [object(), (object(),), None, {"a": 1}]
    for name in experiment.cut:
        one = experiment.parameters()[name].schema().get("items", {})
        any_text = one.get("type") == "string" and not {"enum", "pattern"} & set(one)
        for garbage in [*never, *([] if any_text else [float("nan"), "\N{SNOWMAN}", ("\N{SNOWMAN}",)])]:
            refused = "taken"
            try:
                experiment.take({name: garbage})
            except InputError as error:
                refused = str(error)
            assert re.fullmatch(rf"{name} takes .*; got .*\.", refused), f"{name}={garbage!r}: {refused}"


def parameters_that_take_files_say_so(experiment: Experiment) -> None:
    """Otherwise a changed file would be taken for the same run."""
    says = {name: parameter.says for name, parameter in experiment.parameters().items()}
    mentions = [name for name, words in says.items() if ".toml" in words or "a text file" in words]
    assert experiment.files() == mentions


def loading_one_experiment_finds_it(experiment: Experiment) -> None:
    assert papers.experiments(experiment.id)[experiment.id] == experiment


@pytest.mark.parametrize(
    "check",
    [
        says_what_it_is,
        every_parameter_is_typed_and_described,
        arguments_can_be_given_on_the_command_line,
        a_single_value_from_python_is_a_list_of_one,
        what_cannot_be_taken_is_refused_in_a_sentence,
        parameters_that_take_files_say_so,
        loading_one_experiment_finds_it,
    ],
    ids=lambda check: check.__name__,
)
def test_every_experiment(check: Callable[[Experiment], None]) -> None:
    assert problems(EXPERIMENTS, check) == {}


@every_experiment
def test_fast_run_whole_and_cut_is_the_same_and_can_be_drawn(
    experiment: Experiment, tmp_path: Path, as_users_run_it: None
) -> None:
    arguments = experiment.arguments("fast")
    with single_threaded():  # as sweeps run: two threads of BLAS round differently
        whole = experiment.run(**arguments)
    assert isinstance(whole, xr.Dataset)
    assert len(whole.data_vars) >= 1
    figure = papers.figure_of(experiment.id)(whole)
    _check_figure(figure)
    if not experiment.cut:
        return
    for axis in experiment.cut.values():
        assert axis in whole.dims, f"the result has no axis {axis}"
    parts = plan_of(experiment, arguments, {}).run(tmp_path, piece=1).dataset()
    for name, variable in whole.data_vars.items():
        in_parts = parts[name].reindex({axis: whole[axis] for axis in variable.dims if axis in whole.coords})
        np.testing.assert_array_equal(in_parts.transpose(*variable.dims).values, variable.values, err_msg=str(name))
    for axis in experiment.cut.values():
        assert parts[axis].values.tolist() == whole[axis].values.tolist(), f"{axis} is in another order"
    _check_figure(papers.figure_of(experiment.id)(parts))


def _check_figure(figure: go.Figure) -> None:
    assert isinstance(figure, go.Figure)
    assert len(figure.data) >= 1
    assert figure.layout.title.text
    titled = [axis.title.text for axis in (*figure.select_xaxes(), *figure.select_yaxes())]
    assert any(titled), "no axis says what it shows"
