"""The console that tables and texts are printed with: whatever they hold, only plain characters reach the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from foretrain.core.errors import visible_lines


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
