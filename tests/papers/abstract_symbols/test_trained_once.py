"""The same networks are trained once, in whatever words they are asked for."""

from __future__ import annotations

import pytest

from foretrain.core.trajectory import trajectory
from foretrain.papers.abstract_symbols.setting import TrainingSetting
from foretrain.papers.abstract_symbols.simulations import trained

SETTING = TrainingSetting(learning_rate=0.02)
ASKED = {"n": 8, "seeds": 2, "setting": SETTING}


@pytest.fixture
def trainings(monkeypatch):
    """The arguments of every training, none of which takes place."""
    done = []

    def cell(task, architecture, **arguments):
        done.append((task, architecture, arguments))
        numbers = {name: (("rate", "seed"), [[0.0] * len(arguments["seeds"])]) for name in trained.SCALARS}
        return trajectory(numbers, {"rate": [0.0], "seed": arguments["seeds"]})

    monkeypatch.setattr(trained, "cell", cell)
    trained._kept.cache_clear()
    yield done
    trained._kept.cache_clear()


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"seeds": (1, 2)},
        {"seeds": [1, 2]},
        {"rates": (0.02,)},
        {"rates": [0.02]},
        {"rates": ()},
        {"good_enough": 0.0},
    ],
    ids=str,
)
def test_the_same_in_other_words_is_trained_once(trainings, change):
    first = trained.summary("aba_abb", **ASKED)
    assert trained.summary("aba_abb", trained.VANILLA, **{**ASKED, **change}) is first
    assert len(trainings) == 1
    assert trainings[0][2]["rates"] == (0.02,)


@pytest.mark.parametrize(
    "change",
    [
        {"seeds": (2, 1)},
        {"seeds": 1},
        {"rates": (0.01,)},
        {"n": 9},
        {"setting": TrainingSetting()},
        {"good_enough": 0.1},
        {"last_layer": True},
    ],
    ids=str,
)
def test_other_networks_are_trained_too(trainings, change):
    for arguments in (ASKED, {**ASKED, **change}):
        trained.summary("aba_abb", **arguments)
    assert len(trainings) == 2
