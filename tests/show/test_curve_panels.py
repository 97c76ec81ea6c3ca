"""The drawing of experiments that have no figure of their own."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from foretrain.core.errors import InputError
from foretrain.core.trajectory import trajectory
from foretrain.ledger.quantities import BASE, Quantity
from foretrain.show.curve_panels import MOST_PANELS, CurvePanels

WORDS = BASE.extended(
    Quantity("loss", "the loss", unit="nats"),
    Quantity("rate", "the rate η", "η", role="axis"),
    Quantity("depth", role="axis"),
)


def run_of(depths: int = 2, rates: int = 3, seeds: int = 4) -> xr.Dataset:
    t = np.arange(30.0)
    sizes = {"depth": depths, "rate": rates, "seed": seeds, "time": len(t)}
    loss = np.exp(-t / 9) * np.ones(tuple(sizes.values())) + np.arange(seeds)[:, None] / 10
    coordinates = {axis: list(range(1, size + 1)) for axis, size in sizes.items() if axis != "time"}
    return trajectory(
        {"loss": (tuple(sizes), loss), "final": (("depth", "seed"), loss[:, 0, :, -1])}, {**coordinates, "time": t}
    )


def lines(figure):
    return [trace for trace in figure.data if trace.fill is None]


def test_a_panel_for_each_variable_and_a_curve_for_each_setting_with_a_band_over_seeds() -> None:
    run = run_of()
    figure = CurvePanels("Loss").draw(run, WORDS)
    assert [panel.text for panel in figure.layout.annotations] == ["loss (nats)", "final"]
    drawn = [trace for trace in lines(figure) if trace.xaxis == "x"]
    assert [trace.name for trace in drawn] == [f"depth {d}, η = {r}" for d in (1, 2) for r in (1, 2, 3)]
    np.testing.assert_allclose(drawn[0].y, run["loss"].isel(depth=0, rate=0).mean("seed"))
    bands = [trace for trace in figure.data if trace.fill == "toself"]
    assert max(bands[0].y) == pytest.approx(1 + 0.15 + run["loss"].isel(depth=0, rate=0, time=0).std("seed").item())


def test_a_crowded_variable_is_split_along_an_axis_and_colours_stay() -> None:
    figure = CurvePanels().draw(run_of(depths=4, rates=3), WORDS)
    assert [panel.text for panel in figure.layout.annotations] == [f"depth {d}" for d in (1, 2, 3, 4)]
    colors = {(trace.name, trace.line.color) for trace in lines(figure)}
    assert len(colors) == len({name for name, _ in colors}) == 3
    assert sum(bool(trace.showlegend) for trace in lines(figure)) == 3


def test_what_to_draw_can_be_said() -> None:
    figure = CurvePanels("After {steps} steps", ("loss",), over="rate", panels="depth").draw(
        run_of().isel(time=[0, 29]).assign_attrs(config='{"steps": 7}'), WORDS
    )
    assert figure.layout.title.text == "After 7 steps"
    assert lines(figure)[0].x == (1, 2, 3)
    assert figure.layout.xaxis.title.text == "rate η"


def test_numbers_over_decades_get_a_logarithmic_axis_and_names_a_category() -> None:
    run = trajectory({"v": ("kind", [1.0, 1e-4])}, {"kind": ["<b>one</b>", "two"]})
    figure = CurvePanels().draw(run)
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("category", "log")
    assert "<b>" not in str(figure.data)


def test_at_most_nine_panels_and_nothing_to_draw_is_said() -> None:
    many = trajectory({f"v{i}": ("time", np.arange(3.0)) for i in range(20)}, {"time": [0, 1, 2]})
    assert len(CurvePanels().draw(many).layout.annotations) == MOST_PANELS
    with pytest.raises(InputError, match="--to csv"):
        CurvePanels().draw(trajectory({"words": ("item", ["a", "b"])}))


def test_numbers_without_an_axis_of_their_own_stand_side_by_side() -> None:
    counted = CurvePanels().draw(trajectory({"v": ("item", [3.0, 1.0])}))
    assert lines(counted)[0].x == (0, 1)
    single = CurvePanels().draw(trajectory({"one": 1.0, "two": 2.0}))
    assert (list(lines(single)[0].x), list(lines(single)[0].y)) == (["one", "two"], [1.0, 2.0])
