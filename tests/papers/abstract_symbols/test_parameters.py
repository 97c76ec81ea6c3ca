"""The names that parameters take are those that the code knows, and their limits are those of the functions."""

from __future__ import annotations

from typing import get_args

import pytest

from foretrain.core.errors import InputError
from foretrain.kernels import architectures as kernels
from foretrain.papers.abstract_symbols.experiments import parameters
from foretrain.papers.abstract_symbols.experiments.architectures import EXPERIMENTS, train
from foretrain.papers.abstract_symbols.setting import REGRESSION_TASKS, SETTINGS
from foretrain.papers.abstract_symbols.simulations.trained import ARCHITECTURES, TASKS, TRANSFORMERS


def test_names_are_those_that_the_code_knows():
    assert get_args(parameters.TransformerName) == TRANSFORMERS
    assert get_args(parameters.ArchitectureName) == ARCHITECTURES
    assert get_args(parameters.KernelName) == kernels.ARCHITECTURES
    assert get_args(parameters.SettingName) == tuple(SETTINGS)
    assert get_args(parameters.RegressionTaskName) == tuple(REGRESSION_TASKS)


def test_lengths_of_majorities_are_those_that_are_tasks():
    """Fig 23: every length that can be set has its task, and no other."""
    lengths = _parameters("fig23")["length"]
    for length in range(13):
        if f"majority_{length}" in TASKS:
            assert lengths.read(str(length)) == (length,)
        else:
            with pytest.raises(InputError):
                lengths.read(str(length))


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("task", "mine.toml", "mine.toml"),
        ("n", "1e3", 1000),
        ("identity_kq", "true", True),
        ("rates", "", ()),
        ("rates", "1e-3,.01", (1e-3, 1e-2)),
        ("seeds", "3", 3),
        ("seeds", "2,5", (2, 5)),
        ("epochs", "none", None),
    ],
)
def test_values_of_the_command_line(name, text, value):
    assert _parameters()[name].read(text) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("n", "0"),
        ("n", "1000001"),
        ("rates", "0"),
        ("seeds", "0"),
        ("setting", "huge"),
        ("epochs", "0"),
        ("epochs", "1000001"),
        ("heads", "-1"),
        ("scaling_multiplier", "0"),
        ("patience", "0"),
    ],
)
def test_the_command_line_refuses_what_training_refuses(name, text, as_users_run_it):
    with pytest.raises(InputError, match=f"^{name} takes "):
        _parameters()[name].read(text)
    quick = {"n": 8, "setting": "glance", "epochs": 1, "seeds": 1, "rates": (1e-2,), "identity_kq": True}
    value = text if name == "setting" else (float(text),) if name == "rates" else int(text)
    with pytest.raises(InputError):
        train(**{**quick, name: value})


def _parameters(name="train"):
    (experiment,) = (one for one in EXPERIMENTS if one.id == f"abstract_symbols/{name}")
    return experiment.parameters()
