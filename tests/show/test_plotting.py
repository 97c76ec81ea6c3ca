"""Ticks and titles of figures."""

from __future__ import annotations

import numpy as np

from foretrain.show.plotting import add_subtitle, log_ticks, new_figure, power_ticks


def test_ticks_are_as_dense_as_the_range_is_short() -> None:
    assert "tickvals" not in log_ticks([2.0, 3.0])
    assert {0.02, 0.05, 0.1, 0.2, 0.5, 1.0} <= set(log_ticks([0.02, 1.0])["tickvals"])
    assert log_ticks([1e-4, 1.0]) == power_ticks([1e-4, 1.0])
    assert "tickvals" not in log_ticks([np.nan, 0.0])


def test_powers_of_ten_are_written_as_such() -> None:
    ticks = power_ticks([1e-2, 50.0])
    named = dict(zip(ticks["ticktext"], ticks["tickvals"], strict=True))
    assert {"10<sup>−2</sup>": 1e-2, "1": 1.0, "10": 10.0, "10<sup>2</sup>": 100.0}.items() <= named.items()


def test_a_long_subtitle_is_broken_and_has_room() -> None:
    figures = [new_figure("title", x="x", y="y") for _ in range(2)]
    for figure, words in zip(figures, ("few words", "many words " * 30), strict=True):
        add_subtitle(figure, words)
    assert [figure.layout.title.subtitle.text.count("<br>") for figure in figures] == [0, 2]
    assert figures[0].layout.margin.t < figures[1].layout.margin.t
    assert figures[0].layout.title.text == "title"
