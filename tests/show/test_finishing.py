"""What every figure gets before it is shown."""

from __future__ import annotations

import shutil

import numpy as np
import plotly.graph_objects as go
import pytest

from foretrain.show.finishing import broken, finished
from foretrain.show.pages import as_html, as_image
from foretrain.show.plotting import new_figure, new_panels, panel_place, prediction_line


def test_log_axes_say_so_and_have_readable_ticks() -> None:
    figure = new_panels("", ["a", "b"])
    for panel in range(2):
        figure.add_trace(go.Scatter(x=np.array([1.0, 1e5]), y=[1, 30]), **panel_place(panel))
    figure.update_xaxes(type="log", title="time")
    figure.update_yaxes(type="log", dtick=1, **panel_place(0))
    figure.update_yaxes(type="log", tickvals=[1, 30], **panel_place(1))
    drawn = finished(figure).layout
    assert drawn.xaxis.title.text == drawn.xaxis2.title.text == "time (log scale)"
    assert "10<sup>3</sup>" in drawn.xaxis2.ticktext
    assert {"1", "10"} <= set(drawn.yaxis.ticktext)
    assert drawn.yaxis2.tickvals == (1, 30)  # its own
    assert figure.layout.xaxis.title.text == "time"  # the figure itself is left alone


def test_titles_are_broken_where_they_would_be_cut_off() -> None:
    figure = new_panels("many words " * 20, ["words over one panel only " * 3, "short"])
    figure.add_trace(prediction_line([0, 1], [0, 1], "line"), **panel_place(0))
    figure.update_yaxes(title="an axis title that is far longer than the axis is high, so that it needs three")
    drawn = finished(figure).layout
    assert drawn.title.text.count("<br>") == 2
    assert drawn.annotations[0].text.count("<br>") == 1
    assert drawn.annotations[1].text == "short"
    assert drawn.yaxis.title.text.count("<br>") == 2
    assert drawn.height - figure.layout.height == drawn.margin.t - 72 > 0


def test_tags_are_not_broken_and_count_nothing() -> None:
    assert broken("η<sub>Z</sub> and η<sub>Y</sub>", 9) == ("η<sub>Z</sub> and η<sub>Y</sub>", 1)
    assert broken("one two<br>three", 3) == ("one<br>two<br>three", 3)


def test_pages_show_finished_figures() -> None:
    figure = new_figure("", x="", y="").update_xaxes(type="log", title="samples")
    assert "samples (log scale)" in as_html(figure, "a")


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "begins"), [(".png", b"\x89PNG"), (".svg", b"<svg"), (".pdf", b"%PDF")])
def test_figures_become_images(ending: str, begins: bytes) -> None:
    if not any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")):
        pytest.skip("no Chrome or Chromium here, which draws images")
    figure = new_figure("a title", x="x", y="y", log_x=True)
    figure.add_trace(prediction_line([1, 10], [0, 1], "line"))
    image = as_image(figure, ending)
    assert image.startswith(begins)
    if ending == ".svg":
        assert "x (log scale)" in image.decode()
