"""Pages with one figure."""

from __future__ import annotations

from foretrain.show.pages import as_html
from foretrain.show.plotting import new_figure, plain_text


def test_the_title_of_a_figure_page_is_escaped_and_its_script_is_not() -> None:
    page = as_html(new_figure("", x="x", y="y"), "a < b")
    assert "<title>a &lt; b</title>" in page
    assert 'const drawn = document.getElementById("' in page
    assert "getElementById(&#34;" not in page


def test_plotly_shows_tags_and_quotation_marks_literally() -> None:
    assert plain_text('<br /> & "\x1b"') == '&lt;br /&gt; &amp; "\\x1b"'
