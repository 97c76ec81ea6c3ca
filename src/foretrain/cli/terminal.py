"""How results are printed: whatever texts and tables hold, only plain characters reach the terminal."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from foretrain.core.errors import visible, visible_lines
from foretrain.core.files import plain


class PlainConsole(Console):
    """Shows characters that would steer the terminal as escapes such as \\x1b; its own colours are the exception.

    Brackets and names of emojis in a text are not markup, because the text may come from a file.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible_lines(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible_lines(segment.text))

    def lines(self, *sentences: str) -> None:
        """Each sentence on a line of its own, wherever its words come from."""
        for sentence in sentences:
            self.print(visible(sentence))


def console(*, results: bool) -> PlainConsole:
    """A console for tables: results go to stdout. Outside a terminal, lines are long enough not to cut off names."""
    stream = sys.stdout if results else sys.stderr
    return PlainConsole(file=stream, width=None if stream.isatty() else 140)


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[object]] = (),
    *,
    title: str | None = None,
    frame: box.Box | None = box.SIMPLE_HEAD,
    **column: Any,
) -> Table:
    """Names in the first column, and numbers on the right in the others unless `column` says otherwise."""
    drawn = Table(box=frame, pad_edge=False, title=title and Text(visible(title)), title_justify="left")
    for index, name in enumerate(head):
        drawn.add_column(Text(visible(name)), **{"justify": "right" if index else "left", "overflow": "fold", **column})
    for row in rows:
        drawn.add_row(*(cell if isinstance(cell, Text) else Text(visible(str(cell))) for cell in row))
    return drawn


def show_json(value: Any, *, nulls: Sequence[str] = ()) -> None:
    """Print a result as JSON on stdout. Characters that would steer the terminal are written as \\uXXXX."""
    text = json_text(value, nulls=nulls)
    print("".join(c if c == "\n" or c.isprintable() else json.dumps(c)[1:-1] for c in text))


def json_text(value: Any, *, nulls: Sequence[str] = ()) -> str:
    """Strict JSON: numbers that are not finite become null, and so do the texts in `nulls`."""

    def strict(value: Any) -> Any:
        if isinstance(value, np.generic | np.ndarray):
            return strict(plain(value))
        if isinstance(value, dict):
            return {key: strict(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [strict(item) for item in value]
        not_finite = isinstance(value, float) and not math.isfinite(value)
        return None if not_finite or (isinstance(value, str) and value in nulls) else value

    return json.dumps(strict(value), indent=1, ensure_ascii=False, allow_nan=False, default=plain)
