"""The papers: each is a folder here, found by itself. A new one adds its folder and touches nothing else.

A paper's folder has `PAPER` in its `__init__`, `CLAIMS` in `claims`, `EXPERIMENTS` in `experiments` and `FIGURES` in
`figures`; a part that it has no use for may be missing. `claims` and `experiments` may be packages: then MODULES in
their `__init__` names the modules that have such a list. What is not asked for is not loaded.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from foretrain.core.errors import require
from foretrain.ledger.claim import Claim
from foretrain.ledger.experiment import Experiment


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
def names() -> tuple[str, ...]:
    """The folders of the papers."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg))


@cache
def papers() -> dict[str, Paper]:
    """Every paper by the name of its folder."""
    return {name: import_module(f"{__name__}.{name}").PAPER for name in names()}


def claims(*wanted: str) -> dict[str, Claim]:
    """Claims by id, in the order of their papers.

    `wanted` keeps loading to a minimum: an id loads the module that defines it, the name of a paper loads that paper,
    and anything else, such as words to search for, loads every paper.
    """
    loaded = {claim.id: claim for module in _modules("claims", wanted) for claim in _claims_in(module)}
    missing = [query.partition("/")[0] for query in wanted if "/" in query and query not in loaded]
    if not missing:
        return loaded
    papers_wanted = [query if query in loaded else query.partition("/")[0] for query in wanted]
    return claims(*papers_wanted)  # a pattern, or an id that its module does not spell out as a literal


def experiments(*wanted: str) -> dict[str, Experiment]:
    """Experiments by id, such as "scan_snap/fig6"; `wanted` as for `claims`."""
    return {e.id: e for module in _modules("experiments", wanted) for e in import_module(module).EXPERIMENTS}


def claim(id: str) -> Claim:
    """One claim by id."""
    return claims(id)[id]


@cache
def _claims_in(module: str) -> tuple[Claim, ...]:
    return tuple(replace(claim, module=module) for claim in import_module(module).CLAIMS)


def _modules(part: str, wanted: Sequence[str]) -> list[str]:
    """The modules of a part that have to be loaded, by the rules of `claims`."""
    everything = [module for name in names() for module in _modules_of(name, part)]
    chosen: set[str] = set()
    for query in wanted:
        paper, slash, rest = query.partition("/")
        if paper not in names():
            return everything
        own = _modules_of(paper, part)
        home = [module for module in own if slash and _defines(module, query)]
        is_id = slash and rest.isidentifier()
        chosen.update(home or ([] if is_id and part == "experiments" else own))
    return [module for module in everything if module in chosen or not wanted]


@cache
def _modules_of(paper: str, part: str) -> tuple[str, ...]:
    """A part of a paper is one module, or a package whose MODULES names those inside it."""
    module = _part(paper, part)
    if module is None:
        return ()
    inner = getattr(module, "MODULES", None)
    return tuple(f"{module.__name__}.{name}" for name in inner) if inner is not None else (module.__name__,)


@cache
def _defines(module: str, id: str) -> bool:
    """Whether the source of a module has this id, or the printed half of its pair, as a literal; nothing is loaded."""
    spec = find_spec(module)
    source = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
    return any(f'"{name}"' in source for name in (id, id.removesuffix("_corrected")))


def folder_of(paper: str) -> Path:
    """Where the source code of a paper is."""
    (folder,) = import_module(f"{__name__}.{paper}").__path__
    return Path(folder)


def figure_of(experiment: str) -> Callable[..., Any]:
    """The function that draws an experiment's trajectory."""
    paper, name = experiment.split("/", 1)
    figures: dict[str, Callable[..., Any]] = getattr(_part(paper, "figures"), "FIGURES", {})
    require(name in figures, f"{experiment} has no figure; foretrain run and foretrain export give its numbers.")
    return figures[name]


def forget() -> None:
    """Forget what was loaded, after the folders have changed: for tests."""
    for registry in (names, papers, _claims_in, _modules_of, _defines):
        registry.cache_clear()


def _part(paper: str, part: str) -> ModuleType | None:
    """A part of a paper's folder, or None where the paper has none."""
    name = f"{__name__}.{paper}.{part}"
    return import_module(name) if find_spec(name) else None
