"""Every figure of trained networks trains what its caption says; no training takes place here."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from foretrain import papers
from foretrain.core.trajectory import trajectory
from foretrain.data.template_examples import random_templates
from foretrain.models.sequence_baselines import LSTM, MLP, MLP_XX, RNN
from foretrain.papers.abstract_symbols.experiments.hyperparameters import RATES
from foretrain.papers.abstract_symbols.simulations import trained
from foretrain.papers.abstract_symbols.simulations.trained import TRANSFORMERS, VANILLA, WITH_A, WITH_AB, WITH_B

ONE_SIZE = {"n": (8,), "seeds": 1}


@pytest.fixture
def trainings(monkeypatch):
    """The arguments of every training, with the fields of the setting among them."""
    done = []

    def cell(task, architecture, **arguments):
        done.append({"task": task, "architecture": architecture, **asdict(arguments.pop("setting")), **arguments})
        axes = {"rate": list(arguments["rates"]), "seed": list(arguments["seeds"])}
        zeros = [[0.0] * len(axes["seed"]) for _ in axes["rate"]]
        return trajectory(dict.fromkeys(trained.SCALARS, (("rate", "seed"), zeros)), axes)

    monkeypatch.setattr(trained, "cell", cell)
    trained._kept.cache_clear()
    yield done
    trained._kept.cache_clear()


def run(figure, **arguments):
    id = f"abstract_symbols/fig{figure}"
    return papers.experiments(id)[id].run(**arguments)


@pytest.mark.parametrize(
    ("figure", "arguments", "expected"),
    [
        (2, ONE_SIZE, {"task": {"print_program"}, "architecture": {VANILLA, WITH_A}}),
        (
            3,
            ONE_SIZE,
            {"task": {"print_symbol"}, "architecture": {VANILLA, WITH_B}, "depth": {4}, "embedding": {512}},
        ),
        (
            5,
            ONE_SIZE,
            {
                "task": {"copying"},
                "architecture": {VANILLA, WITH_B},
                "embedding": {64, 512, 2048},
                "readout": {"cls"},
            },
        ),
        (8, {"seeds": 1}, {"n": {64, 128, 256, 512, 1024, 2048}, "rates": {RATES}}),
        (9, {"seeds": 1}, {"n": {512}, "depth": {1, 2, 4, 8}, "rates": {RATES}}),
        (10, {"seeds": 1}, {"n": {1024}, "depth": {1, 2, 4, 8}, "rates": {RATES}}),
        (11, {"seeds": 1}, {"n": {512}, "heads": {1, 2, 4, 8, 16, 32}, "rates": {RATES}}),
        (12, {"seeds": 1}, {"n": {1024}, "heads": {1, 2, 4, 8, 16, 32}, "rates": {RATES}}),
        (13, {"seeds": 1}, {"n": {1024}, "embedding": {32, 64, 128, 256, 512}, "rates": {RATES}}),
        (14, {"seeds": 1}, {"n": {512}, "batch": {32, 64, 128, 256, 512}, "rates": {RATES}}),
        (
            15,
            ONE_SIZE,
            {"attention_multiplier": {1.0, 8.0, 64.0}, "last_layer": {True}, "heads": {64}, "epochs": {10000}},
        ),
        (16, ONE_SIZE, {"batch": {32, 64, 128, 256, 512, 1024}, "rates": {(1e-3,)}}),
        (17, ONE_SIZE, {"task": {"aba_abb", "abab_aabb", *(f"majority_{k}" for k in range(2, 7))}}),
        (22, ONE_SIZE, {"task": {"aba_abb"}, "architecture": {*TRANSFORMERS, RNN, LSTM, MLP}}),
        (23, ONE_SIZE, {"task": {f"majority_{k}" for k in range(2, 7)}, "architecture": {VANILLA, WITH_AB}}),
        (25, ONE_SIZE, {"task": {"aba_abb"}, "architecture": {MLP_XX, MLP, VANILLA}}),
    ],
)
def test_a_figure_varies_what_its_caption_says(figure, arguments, expected, trainings):
    """Fig 2, Fig 3, Fig 5, Fig 8 to 17, Fig 22, Fig 23, Fig 25."""
    run(figure, **arguments)
    assert {name: {training[name] for training in trainings} for name in expected} == expected
    if 8 <= figure <= 16:
        assert {(training["task"], training["architecture"]) for training in trainings} == {("aba_abb", VANILLA)}


@pytest.mark.parametrize(
    ("figure", "varied", "values", "fixed"),
    [
        (18, "length", (3, 5, 7, 9), {"count": 2, "wildcards": 2, "tokens": 0}),
        (19, "wildcards", (2, 3, 4, 5), {"count": 2, "length": 5, "tokens": 0}),
        (20, "tokens", (0, 1, 2), {"count": 2, "length": 5, "wildcards": 2}),
        (21, "count", (2, 4, 8, 16), {"length": 5, "wildcards": 3, "tokens": 2}),
    ],
)
def test_random_templates_of_a_figure(figure, varied, values, fixed, trainings):
    """Fig 18 to 21: each seed has templates of its own, which differ in one respect along the axis."""
    run(figure, n=(8,), seeds=2)
    assert [training["task"] for training in trainings] == [
        tuple(random_templates(**{**fixed, varied: value}, seed=seed) for seed in (1, 2)) for value in values
    ]
