"""Figures drawn from the two trajectories of a claim: nothing left out, nothing moved, and small enough."""

from __future__ import annotations

import json

import numpy as np
import plotly.graph_objects as go
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from foretrain import papers
from foretrain.core.trajectory import trajectory
from foretrain.ledger.comparators import bounded, covered, every, positive
from foretrain.ledger.judge import judge
from foretrain.ledger.quantities import BASE, Quantity
from foretrain.ledger.tolerances import Tolerance
from foretrain.show.axes import main_axis, wants_log
from foretrain.show.report.claim_figures import MOST_FIGURES, claim_figures
from foretrain.show.report.compact import POINTS, compact, keep


def _curve(values: np.ndarray, name: str = "h", **coords: np.ndarray) -> xr.Dataset:
    return trajectory({name: (tuple(coords), values)}, coords)


def test_line_and_markers_over_time() -> None:
    t = np.linspace(0, 1, 11)
    (figure,) = claim_figures(_curve(t**2, time=t), _curve(t**2 + 1, time=t))
    line, marks = figure.data
    assert (line.mode, marks.mode) == ("lines", "markers")
    np.testing.assert_allclose(line.y, t**2)
    np.testing.assert_allclose(marks.y, t**2 + 1)
    assert figure.layout.xaxis.title.text == "time"


def test_time_wins_over_a_longer_axis_and_units_are_shown() -> None:
    values = np.ones((3, 9))
    data = trajectory({"h": (("time", "size"), values)}, {"time": [0, 1, 2], "size": range(9)}, units={"h": "nats"})
    assert main_axis(data.h, BASE) == "time"
    assert main_axis(data.h.isel(time=0), BASE) == "size"
    assert main_axis(data.h.isel(time=0).drop_vars("size"), BASE) is None
    (figure,) = claim_figures(trajectory({}), data)
    assert figure.layout.yaxis.title.text == "h (nats)"


def test_many_curves_become_predicted_against_measured() -> None:
    values = np.random.default_rng(0).normal(size=(40, 30))
    coords = {"time": np.arange(40), "token": np.arange(30)}
    (figure,) = claim_figures(_curve(values, **coords), _curve(values + 1, **coords))
    diagonal, cells = figure.data
    assert diagonal.x == diagonal.y
    np.testing.assert_allclose(np.array(cells.y) - np.array(cells.x), 1)
    assert len(cells.x) == 1200


def test_shapes_without_order_become_predicted_against_measured() -> None:
    values = np.arange(12.0).reshape(3, 4)
    (figure,) = claim_figures(*(trajectory({"g": (("row", "column"), values)}) for _ in range(2)))
    assert figure.layout.xaxis.title.text == "predicted g"


def test_what_only_counts_things_is_no_axis_for_a_curve() -> None:
    values = np.arange(6.0)
    (figure,) = claim_figures(_curve(values, problem=np.arange(6)), _curve(values, problem=np.arange(6)))
    assert figure.layout.xaxis.title.text == "predicted h"
    assert main_axis(_curve(np.ones((9, 2)), problem=np.arange(9), epsilon=np.array([0.1, 0.2])).h, BASE) == "epsilon"


def test_names_are_places_side_by_side() -> None:
    names = np.array(["MLP", "CNN<"])
    (figure,) = claim_figures(_curve(np.array([1.0, 2]), network=names), _curve(np.array([1.5, 2]), network=names))
    assert figure.layout.xaxis.type == "category"
    assert [trace.mode for trace in figure.data] == ["markers", "markers"]
    assert figure.data[0].x == ("MLP", "CNN&lt;")


def test_times_that_grow_by_decades_from_zero_are_on_a_log_axis() -> None:
    t = np.concatenate([[0], np.geomspace(1e-3, 1e3, 20)])
    (figure,) = claim_figures(_curve(t, time=t), _curve(t, time=t))
    assert figure.layout.xaxis.type == "log"
    assert len(figure.data[0].x) == 20
    even = np.linspace(0, 1e4, 50)
    (figure,) = claim_figures(_curve(even, time=even), _curve(even, time=even))
    assert figure.layout.xaxis.type == "linear"


def test_what_the_comparator_looks_at_comes_first_with_its_own_bounds() -> None:
    size = np.arange(1, 6)
    coords = {"size": size}
    ratio, within = ("size", size * 1.0), ("size", size * 0.1)
    observation = trajectory({"aside": ratio, "ratio": ratio, "within": within}, coords)
    prediction = trajectory({"floor": ((), 0.0), "ceiling": ((), 9.0), "promised": ((), 0.5)})
    compare = every(positive("within"), bounded("ratio", low="floor", high="ceiling"))
    figures = claim_figures(prediction, observation, compare, BASE.extended(Quantity("floor", "the floor")))
    assert [figure.layout.yaxis.title.text for figure in figures] == ["ratio", "within", "aside"]
    assert [trace.name for trace in figures[0].data] == ["measured", "floor", "upper bound"]
    assert [len(figure.data) for figure in figures] == [3, 1, 1]


def test_long_names_label_axes() -> None:
    seeds = ("seed", [1, 2])
    observation = trajectory(
        {"gain_low": (("worse", "seed"), np.ones((2, 2)), {"long_name": "low end", "units": "nats"})},
        {"worse": ("worse", ["RNN", "<b>"], {"long_name": "compared with"}), "seed": seeds},
    )
    (figure,) = claim_figures(trajectory({"least": 0.0}), observation)
    assert figure.layout.yaxis.title.text == "low end (nats)"
    assert figure.layout.xaxis.title.text == "compared with"
    (figure,) = claim_figures(trajectory({"least": 0.0}), observation.isel(worse=[0], seed=[0]))
    assert list(figure.data[0].x) == ["low end (nats)"]
    curves = xr.concat([observation, observation], dim=xr.IndexVariable("n", [8, 16], {"long_name": "samples"}))
    (figure,) = claim_figures(trajectory({"least": 0.0}), curves.mean("seed", keep_attrs=True))
    assert figure.data[0].name == "compared with RNN"


def test_mean_over_seeds_with_its_spread() -> None:
    rng = np.random.default_rng(1)
    measured = rng.normal(size=(5, 7))
    eta = np.arange(1.0, 6)
    observation = _curve(measured, "entropy", eta=eta, seed=np.arange(7))
    prediction = _curve(np.zeros(5), "entropy", eta=eta)
    (figure,) = claim_figures(prediction, observation)
    np.testing.assert_allclose(figure.data[1].y, measured.mean(1))
    np.testing.assert_allclose(figure.data[1].error_y.array, measured.std(1))


def test_measured_with_its_bounds() -> None:
    size = np.arange(1, 6)
    prediction = trajectory({"low": ("size", size * 1.0), "high": ((), 9.0)}, {"size": size})
    compare = bounded("ratio", low="low", high="high")
    (figure,) = claim_figures(prediction, _curve(size + 0.5, "ratio", size=size), compare)
    marks, low, high = figure.data
    np.testing.assert_allclose(marks.y, size + 0.5)
    np.testing.assert_allclose(low.y, size)
    np.testing.assert_allclose(high.y, 9.0)
    assert (low.name, high.name) == ("lower bound", "upper bound")


def test_a_tolerance_is_drawn_as_a_bound() -> None:
    size = np.arange(1, 6)
    observation = trajectory({"ratio": ("size", size * 1.0), "rest": 0.5}, {"size": size})
    compare = every(bounded("ratio", low=Tolerance(0.5, "made up")), bounded("rest", high=Tolerance(2.0, "made up")))
    single, figure = claim_figures(trajectory({}), observation, compare)
    assert [trace.name for trace in figure.data] == ["measured", "lower bound"]
    np.testing.assert_array_equal(figure.data[1].y, 0.5)
    assert [(trace.name, trace.y) for trace in single.data] == [("measured", (0.5,)), ("upper bound", (2.0,))]


def test_single_values_share_one_figure() -> None:
    inside = trajectory({"inside": ("draw", np.arange(10) < 9), "shift": ((), 2.0)})
    compare = covered("inside", "promised")
    (figure,) = claim_figures(trajectory({"promised": ((), 0.8), "shift": ((), 2.5)}), inside, compare)
    predicted, measured, promised = figure.data
    assert predicted.x == measured.x == ("inside", "shift")
    np.testing.assert_allclose(predicted.y, [np.nan, 2.5])
    np.testing.assert_allclose(measured.y, [0.9, 2.0])
    assert (promised.name, promised.x, promised.y) == ("lower bound", ("inside",), (0.8,))


def test_single_values_without_a_prediction_name_none() -> None:
    (figure,) = claim_figures(trajectory({}), trajectory({"shift": ((), 2.0)}))
    assert [trace.name for trace in figure.data] == ["measured"]


@pytest.mark.parametrize(
    ("values", "log"), [([1, 10, 400], True), ([1, 100], False), ([0, 1e6], False), ([-1, 1e6], False), ([], False)]
)
def test_log_axis_only_where_positive_and_wide(values: list[float], log: bool) -> None:
    assert wants_log(np.array(values, dtype=float)) is log


def test_on_a_log_axis_every_decade_keeps_its_points() -> None:
    x = np.arange(1, 100_001)
    chosen = x[keep(x, 100, log=True)]
    assert len(chosen) <= 102
    for decade in range(5):
        assert ((chosen >= 10**decade) & (chosen < 10 ** (decade + 1))).sum() >= 5


@given(st.integers(1, 5000), st.integers(2, 200), st.booleans())
def test_keep_is_small_in_order_and_has_both_ends(size: int, count: int, log: bool) -> None:
    chosen = keep(np.arange(1, size + 1), count, log=log)
    assert len(chosen) <= max(count, 0) + 2
    assert chosen[0] == 0
    assert chosen[-1] == size - 1
    assert (np.diff(chosen) > 0).all()


def test_long_traces_are_thinned_together_with_what_belongs_to_them() -> None:
    n = 20_000
    figure = go.Figure(
        go.Scatter(x=np.arange(n), y=np.arange(n) * 2.0, error_y={"array": np.arange(n) * 3.0}, text=["<b>"] * n)
    )
    parts = json.loads(compact(figure))
    (trace,) = parts["data"]
    assert len(trace["x"]) <= POINTS
    np.testing.assert_allclose(trace["y"], np.array(trace["x"]) * 2.0, rtol=1e-5)
    np.testing.assert_allclose(trace["error_y"]["array"], np.array(trace["x"]) * 3.0, rtol=1e-5)
    assert "template" not in parts["layout"]
    assert "<" not in compact(figure)


def test_what_is_not_finite_is_a_gap() -> None:
    (trace,) = json.loads(compact(go.Figure(go.Scatter(x=[1, 2, 3], y=[1.0, np.nan, np.inf]))))["data"]
    assert trace["y"] == [1.0, None, None]


def test_every_made_up_claim_can_be_drawn(made_up_papers: None) -> None:
    for claim in papers.claims().values():
        verdict = judge(claim) if not claim.id.startswith("toy/slow") else None
        if verdict is None or verdict.prediction is None or verdict.observation is None:
            continue
        figures = claim_figures(verdict.prediction, verdict.observation)
        assert 1 <= len(figures) <= MOST_FIGURES, claim.id
        for figure in figures:
            assert figure.layout.yaxis.title.text


def test_axes_say_what_a_reader_calls_the_quantity() -> None:
    data = trajectory({"factor": ("rate", [1.0, 2.0])}, {"rate": [0.1, 0.2]})
    words = BASE.extended(Quantity("factor", "the growth factor χ", unit="nats"), Quantity("rate", "learning rate η"))
    (figure,) = claim_figures(data, data, bounded("factor", low="factor"), words)
    assert figure.layout.yaxis.title.text == "growth factor χ (nats)"
    assert figure.layout.xaxis.title.text == "learning rate η"
