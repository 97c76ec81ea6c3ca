"""Ticks, titles, bands and labels of figures."""

from __future__ import annotations

import numpy as np

from foretrain.show.plotting import (
    PALETTE,
    add_subtitle,
    band,
    label_ends,
    log_ticks,
    log_title,
    measurement_marks,
    new_figure,
    power_ticks,
    prediction_line,
    typeset,
)


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


def test_a_logarithmic_axis_says_so() -> None:
    figure = new_figure("", x="time (steps)", y="error", log_x=True, log_y=True)
    assert figure.layout.xaxis.title.text == "time (steps, log scale)"
    assert figure.layout.yaxis.title.text == "error (log scale)"
    assert log_title("log of the error") == "log of the error"
    assert new_figure("", x="x", y="y").layout.xaxis.title.text == "x"


def test_symbols_are_typeset_and_words_left_alone() -> None:
    assert typeset("eta_z at beta, K_attn, W_Q·W_Kᵀ") == (
        "η<sub>Z</sub> at β, K<sub>attn</sub>, W<sub>Q</sub>·W<sub>K</sub>ᵀ"
    )
    assert typeset("η_Y/M, width^(−1/2), x^-2, ρ_{β|α}") == (
        "η<sub>Y</sub>/M, width<sup>−1/2</sup>, x<sup>−2</sup>, ρ<sub>β|α</sub>"
    )
    assert typeset("growth_factor of beta_gap") == "growth_factor of beta_gap"


def test_a_band_goes_up_and_back_and_leaves_out_gaps() -> None:
    drawn = band([1, 2, 3], [0.0, np.nan, 2.0], [1.0, 5.0, 4.0], color=1)
    assert (drawn.x, drawn.y) == ((1, 3, 3, 1), (1.0, 4.0, 2.0, 0.0))
    assert drawn.fillcolor == "rgba(213,94,0,.15)"
    assert band([1], [0], [1], "rgb(1, 2, 3)").fillcolor == "rgba(1,2,3,.15)"
    assert band([1], [np.nan], [1.0]).x == ()


def test_lines_are_named_where_they_end_if_there_is_room() -> None:
    apart, near = new_figure("", x="x", y="y"), new_figure("", x="x", y="y")
    for figure, second in ((apart, [0.0, 5.0]), (near, [0.0, 9.9])):
        figure.add_trace(prediction_line([0, 1], [0.0, 10.0], "first", 0))
        figure.add_trace(prediction_line([0, 1], second, "second", 1))
        figure.add_trace(measurement_marks([0, 1], [0.0, 9.0], "measured", 0))
        label_ends(figure)
    labels = [(note.text, note.y, note.font.color) for note in apart.layout.annotations]
    assert labels == [("first", 10.0, PALETTE[0]), ("second", 5.0, PALETTE[1])]
    assert [trace.showlegend for trace in apart.data] == [False, False, None]
    assert not near.layout.annotations
    assert [trace.showlegend for trace in near.data] == [None] * 3
