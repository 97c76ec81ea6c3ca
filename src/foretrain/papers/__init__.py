"""The papers: each is a folder here, found by itself. A new one adds its folder and touches nothing else.

A paper's folder has `PAPER` in `paper`, `CLAIMS` in `claims`, `QUANTITIES` in `quantities`, `EXPERIMENTS` in
`experiments` and `FIGURES` in `figures`; a part that it has no use for may be missing. `claims` and `experiments` may
be packages: then MODULES in their `__init__` names the modules that have such a list. What is not asked for is not
loaded.
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
from typing import TYPE_CHECKING, Any

from foretrain.core.errors import require, require_known

if TYPE_CHECKING:
    from foretrain.ledger.claim import Claim
    from foretrain.ledger.experiment import Experiment
    from foretrain.ledger.quantities import Quantities


@dataclass(frozen=True)
class Symbol:
    """A letter of the paper, the word used for it here, its shape and meaning."""

    letter: str
    name: str
    shape: str
    meaning: str


@dataclass(frozen=True)
class Story:
    """A paper on one card: four short paragraphs in plain words, and the claim whose figure is shown."""

    says: str  # what the paper says
    holds: str  # what holds
    wrong: str  # what is wrong as printed
    training: str  # what training does instead, or where the theory stops
    picture: str  # id of a claim


@dataclass(frozen=True)
class Paper:
    """A paper: what it is called, how to cite it, and its letters."""

    name: str  # the folder's name
    title: str
    citation: str
    symbols: tuple[Symbol, ...]
    short: str = ""  # what it is called in a sentence; the title if empty
    story: Story | None = None
    position: int = 99  # in the report, from the top

    def __post_init__(self) -> None:
        object.__setattr__(self, "short", self.short or self.title)


@cache
def names() -> tuple[str, ...]:
    """The folders of the papers."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg))


@cache
def papers() -> dict[str, Paper]:
    """Every paper by the name of its folder."""
    return {name: import_module(f"{__name__}.{name}.paper").PAPER for name in names()}


def claims(*wanted: str) -> dict[str, Claim]:
    """Claims by id, in the order of their papers.

    `wanted` keeps loading to a minimum: an id loads the module that defines it, the name of a paper loads that paper,
    and anything else, such as words to search for, loads every paper.
    """
    return _by_id("claims", wanted)


def experiments(*wanted: str) -> dict[str, Experiment]:
    """Experiments by id, such as "scan_snap/fig6"; `wanted` as for `claims`."""
    return _by_id("experiments", wanted)


def claim(id: str) -> Claim:
    """One claim by id."""
    loaded = claims(id)
    require_known("claim", id, loaded)
    return loaded[id]


def has_experiment(id: str) -> bool:
    """Whether there is an experiment with this id, without loading it: every experiment spells out its id."""
    paper = id.partition("/")[0]
    return paper in names() and any(_spells_out(module, id) for module in _modules_of(paper, "experiments"))


def _by_id(part: str, wanted: Sequence[str]) -> dict[str, Any]:
    loaded = {item.id: item for module in _modules(part, wanted) for item in _items_in(module, part)}
    if all("/" not in query or query in loaded for query in wanted):
        return loaded
    # A pattern, or an id that its module does not spell out: the whole paper.
    return _by_id(part, [query if query in loaded else query.partition("/")[0] for query in wanted])


@cache
def _items_in(module: str, part: str) -> tuple[Any, ...]:
    if part == "experiments":
        return tuple(import_module(module).EXPERIMENTS)
    quantities = _quantities(module.split(".")[2])
    return tuple(replace(claim, module=module, quantities=quantities) for claim in import_module(module).CLAIMS)


def _quantities(paper: str) -> Quantities:
    """What the paper's variables and axes are called."""
    from foretrain.ledger.quantities import BASE

    table: Quantities = getattr(_part(paper, "quantities"), "QUANTITIES", BASE)
    return table


def _modules(part: str, wanted: Sequence[str]) -> list[str]:
    """The modules of a part that have to be loaded, by the rules of `claims`."""
    everything = [module for name in names() for module in _modules_of(name, part)]
    chosen: set[str] = set()
    for query in wanted:
        paper, slash, _ = query.partition("/")
        if paper not in names():
            return everything
        own = _modules_of(paper, part)
        chosen.update([module for module in own if slash and _spells_out(module, query)] or own)
    return [module for module in everything if module in chosen or not wanted]


@cache
def _modules_of(paper: str, part: str) -> tuple[str, ...]:
    """A part of a paper is one module, which is not loaded here, or a package whose MODULES names those inside it."""
    name = f"{__name__}.{paper}.{part}"
    spec = find_spec(name)
    if spec is None:
        return ()
    inner = getattr(import_module(name), "MODULES", None) if spec.submodule_search_locations else None
    return (name,) if inner is None else tuple(f"{name}.{module}" for module in inner)


@cache
def _spells_out(module: str, id: str) -> bool:
    """Whether the source of a module has this id as a literal; nothing is loaded."""
    spec = find_spec(module)
    return bool(spec and spec.origin) and f'"{id}"' in Path(str(spec.origin)).read_text(encoding="utf-8")  # type: ignore[union-attr]


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
    for registry in (names, papers, _items_in, _modules_of, _spells_out):
        registry.cache_clear()


def _part(paper: str, part: str) -> ModuleType | None:
    """A part of a paper's folder, or None where the paper has none."""
    name = f"{__name__}.{paper}.{part}"
    return import_module(name) if find_spec(name) else None
