"""Commands that are loaded when they are called, and help that fits the terminal."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from foretrain.core.errors import InputError


@dataclass(frozen=True)
class Lazy:
    """A command that is not loaded yet: where it is, what it does, and its panel on the first screen."""

    where: str  # "module:name"; the name is a function or a class of commands
    says: str
    panel: str = "Commands"
    listed: bool = True  # on the first screen, which has room for eleven; every command has its help


class _WrappedHelp:
    """Paragraphs are wrapped once, by the terminal, and switches do not ask for a value."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.display_type_rich = lambda ctx: None
        return params

    def format_help(self, ctx: Any, formatter: Any) -> None:
        wrapped: Any = self
        wrapped.help = joined(wrapped.help or "")
        super().format_help(ctx, formatter)  # type: ignore[misc]


class Command(_WrappedHelp, TyperCommand):
    """One command."""


class LazyGroup(_WrappedHelp, TyperGroup):
    """A group of commands, each loaded when it is called."""

    lazy: ClassVar[Mapping[str, Lazy]] = {}
    moved: ClassVar[Mapping[str, str]] = {}  # former names, and what to type instead
    _on_first_screen = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: Any, name: str) -> Any:
        if name not in self.lazy:
            return None
        entry = self.lazy[name]
        if self._on_first_screen:
            return TyperCommand(name, help=entry.says, rich_help_panel=entry.panel, hidden=not entry.listed)
        module, _, attribute = entry.where.partition(":")
        command = getattr(import_module(f"foretrain.cli.{module}"), attribute)
        return command if isinstance(command, TyperGroup) else _command(name, command)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in self.moved:
            raise InputError(f"{ctx.command_path} {args[0]} is now {self.moved[args[0]]}.")
        if args[0] not in self.lazy:
            meant = difflib.get_close_matches(args[0], [*self.lazy, *self.moved], n=1)
            hint = f" Did you mean {meant[0]!r}?" if meant else ""
            raise InputError(f"No such command {args[0]!r}.{hint} See {ctx.command_path} --help.")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._on_first_screen = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._on_first_screen = False


def _command(name: str, function: Any) -> Any:
    app = typer.Typer(rich_markup_mode="rich", add_completion=False, pretty_exceptions_enable=False)
    app.command(name, cls=Command)(function)
    return typer.main.get_command(app)


def group(cls: type[LazyGroup]) -> Any:
    """A group as a command; its help is the docstring of its class."""
    app = typer.Typer(
        cls=cls, help=inspect.cleandoc(cls.__doc__ or ""), rich_markup_mode="rich", no_args_is_help=True,
        add_completion=False, pretty_exceptions_enable=False,
    )  # fmt: skip
    app.callback()(lambda: None)
    return typer.main.get_command(app)


def joined(text: str) -> str:
    """A docstring whose paragraphs are one line each; a paragraph that begins with \\b keeps its lines."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    lines = [part.removeprefix("\b\n") if part.startswith("\b") else part.replace("\n", " ") for part in paragraphs]
    if len(lines) > 1 and paragraphs[1].startswith("\b"):
        lines[1] = f"\n{lines[1]}"  # typer dedents what follows the first paragraph, and would take this one's indent
    return "\n\n".join(lines)
