"""Figures of trained networks: what they say of their setting, and with which colours and marks."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from foretrain.core.looping import over
from foretrain.core.trajectory import trajectory
from foretrain.papers.abstract_symbols.figures import FIGURES, needs, sides
from foretrain.papers.abstract_symbols.figures.trained import setting_words
from foretrain.papers.abstract_symbols.setting import SETTINGS
from foretrain.papers.abstract_symbols.simulations.trained import ARCHITECTURES, VANILLA, WITH_A, setting_attrs


def _made_up_losses(setting="base", rates=(), architectures=(VANILLA, WITH_A), seeds=3):
    """Made-up losses over architectures and n, with what real ones say of themselves."""

    def one(architecture, n):
        values = {name: ("seed", np.full(seeds, 1 / n)) for name in ("test_loss", "train_loss", "test_accuracy")}
        values["diverged_at"] = ("seed", np.full(seeds, np.nan))
        attrs = setting_attrs(SETTINGS[setting], rates)
        return trajectory(values, {"seed": range(seeds)}).assign_attrs(
            attrs, task="aba_abb", architecture=architecture, n=n
        )

    return over(one, {"architecture": architectures, "n": (8, 16, 32)}, {})


def test_a_small_network_is_called_so():
    paper, glance = setting_words(_made_up_losses()), setting_words(_made_up_losses("glance", seeds=1))
    assert paper == (
        "Task αβα vs αββ; depth 2, 16 heads, embedding 128, 1000 epochs, rate 0.001, a and b at 10 times the rate; "
        "mean and standard error of 3 seeds"
    )
    assert "a and b" not in setting_words(_made_up_losses(architectures=(VANILLA,)))
    assert glance == (
        "Task αβα vs αββ; smaller than in the paper: depth 2, 2 heads, embedding 16, heads of width 8, "
        "MLP of width 32, 25 epochs, rate 0.01; 1 seed"
    )


def test_rates_and_lost_runs_are_told():
    run = _made_up_losses(rates=(1e-3, 3e-3))
    assert "best of rates 0.001, 0.003 by validation" in setting_words(run)
    assert "diverged" not in setting_words(run)
    run.diverged_at[0, 0, :2] = 40.0
    run.test_loss[0, 0, 0] = np.nan  # the other run was finite for a while, and its best epoch is shown
    assert "diverged and left out: 1" in setting_words(run)


@pytest.mark.parametrize("figure", ["fig2", "fig22", "fig25"])
def test_an_architecture_has_one_colour(figure):
    drawn = FIGURES[figure](_made_up_losses(architectures=ARCHITECTURES))
    two = FIGURES["fig2"](_made_up_losses(architectures=(ARCHITECTURES[-1], WITH_A)))
    colors = {trace.name: trace.line.color for trace in drawn.data if trace.name}
    assert len(set(colors.values())) == len(ARCHITECTURES)
    assert {trace.name: trace.line.color for trace in two.data if trace.name}.items() <= colors.items()


def test_a_need_beyond_the_largest_size_is_drawn_open_at_it():
    needed = xr.Dataset(
        {"n_needed": (("task", "architecture"), [[20.0, np.inf]])},
        {"task": ["aba_abb"], "architecture": [VANILLA, WITH_A], "n": [8, 16, 32]},
        {**setting_attrs(SETTINGS["glance"]), "loss": 0.25},
    )
    figure = FIGURES["data_need"](needed)
    assert "less than 25%" in figure.layout.title.text
    assert [trace.x for trace in figure.data] == [(20.0,), (32.0,)]
    assert [trace.marker.symbol for trace in figure.data] == [("circle",), ("triangle-right-open",)]
    assert "open: more than 32 samples" in figure.layout.title.subtitle.text.replace("<br>", " ")


def test_factors_are_drawn_from_least_to_greatest_and_unlearned_tasks_are_named():
    axes = ("task", "architecture")
    run = trajectory(
        {
            "factor": (axes, [[1.0, 4.0], [np.nan, np.nan]]),
            "factor_low": (axes, [[1.0, 2.0], [0.0, 0.0]]),
            "factor_high": (axes, [[1.0, np.inf], [np.inf, np.inf]]),
        },
        {"task": ["aba_abb", "majority_4"], "architecture": [VANILLA, WITH_A]},
        most_samples=64,
    )
    figure = needs.gained(run)
    (marks,) = figure.data  # the plain network is what the others are held against
    (least, greatest) = 10 ** np.array(figure.layout.xaxis.range)
    assert marks.name == WITH_A
    assert marks.x[0] - marks.error_x.arrayminus[0] == 2.0
    assert marks.x[0] + marks.error_x.array[0] == pytest.approx(greatest)
    assert least < 1 < greatest
    assert [(words.text, words.y) for words in figure.layout.annotations] == [("not learned", "majority of 4")]
    assert figure.layout.yaxis.categoryarray == ("αβα vs αββ", "majority of 4")


def test_a_comparison_draws_every_seed_and_what_is_published():
    made = trajectory(
        {"test_loss": (("side", "seed"), [[0.1, 0.3], [1.0, 0.8]], {"long_name": "loss"})},
        {"side": [VANILLA, "RNN"], "seed": [1, 2]},
        argument="architecture",
        setting="tiny",
        n=[64],
    )
    figure = sides.sides(made, {"RNN": 1.05, "LSTM": 1.0})
    every, mean, published = figure.data
    assert sorted(every.y) == [0.1, 0.3, 0.8, 1.0]
    assert list(mean.y) == pytest.approx([0.2, 0.9])
    assert (list(published.x), list(published.y)) == (["RNN"], [1.05])
    assert figure.layout.xaxis.title.text == "network"
    assert len(sides.sides(made, {}).data) == 2
