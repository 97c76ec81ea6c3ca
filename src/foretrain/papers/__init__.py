"""The papers: each is a folder here, found by itself. A new one adds its folder and touches nothing else.

A paper's folder has `PAPER` in its `__init__`, `CLAIMS` in `claims`, `EXPERIMENTS` in `experiments` and
`FIGURES` in `figures`; a part that it has no use for may be missing.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from foretrain.claim import Claim
from foretrain.errors import require
from foretrain.experiment import Experiment


@dataclass(frozen=True)
class Symbol:
    """A letter of the paper, the word used for it here, its shape and meaning."""

    letter: str
    name: str
    shape: str
    meaning: str


@dataclass(frozen=True)
class Paper:
    """A paper: what it is called, how to cite it, and its letters."""

    name: str  # the folder's name
    title: str
    citation: str
    symbols: tuple[Symbol, ...]


@cache
def papers() -> dict[str, Paper]:
    """Every paper by the name of its folder."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)
    return {name: import_module(f"{__name__}.{name}").PAPER for name in names}


@cache
def claims() -> dict[str, Claim]:
    """Every claim of every paper by its id, in the order its paper gives them."""
    listed = [claim for name in papers() for claim in getattr(_part(name, "claims"), "CLAIMS", [])]
    assert len({claim.id for claim in listed}) == len(listed), "two claims share an id"
    return {claim.id: claim for claim in listed}


@cache
def experiments() -> dict[str, Experiment]:
    """Every experiment by its id, such as "scan_snap/fig6"."""
    listed = [e for name in papers() for e in getattr(_part(name, "experiments"), "EXPERIMENTS", [])]
    return {experiment.id: experiment for experiment in listed}


def figure_of(experiment: str) -> Callable[..., Any]:
    """The function that draws an experiment's trajectory."""
    paper, name = experiment.split("/", 1)
    figures: dict[str, Callable[..., Any]] = getattr(_part(paper, "figures"), "FIGURES", {})
    require(name in figures, f"{experiment} has no figure; foretrain run and foretrain export give its numbers.")
    return figures[name]


def _part(paper: str, part: str) -> ModuleType | None:
    """A module of a paper's folder, or None where the paper has none."""
    name = f"{__name__}.{paper}.{part}"
    return import_module(name) if find_spec(name) else None
