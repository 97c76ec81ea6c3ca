"""Help that fits the terminal: paragraphs are wrapped once, and switches do not ask for a value."""

from __future__ import annotations

import inspect
from typing import Any

from typer.core import TyperCommand, TyperGroup


def joined(text: str) -> str:
    """A docstring whose paragraphs are one line each; a paragraph that begins with \\b keeps its lines."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    lines = [part.removeprefix("\b\n") if part.startswith("\b") else part.replace("\n", " ") for part in paragraphs]
    if len(lines) > 1 and paragraphs[1].startswith("\b"):
        lines[1] = f"\n{lines[1]}"  # typer dedents what follows the first paragraph, and would take this one's indent
    return "\n\n".join(lines)


def _without_types_of_switches(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.display_type_rich = lambda ctx: None
    return params


class Command(TyperCommand):
    """A command with such help."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types_of_switches(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.help = joined(self.help or "")
        super().format_help(ctx, formatter)


class Group(TyperGroup):
    """A group of commands with such help."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types_of_switches(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.help = joined(self.help or "")
        super().format_help(ctx, formatter)
