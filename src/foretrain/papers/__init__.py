"""The papers: folders here, and installed packages that name themselves in the entry points `foretrain.papers`.

A new paper touches nothing else. It has `PAPER` in `paper`, `CLAIMS` in `claims`, `QUANTITIES` in `quantities`,
`EXPERIMENTS` in `experiments` and `FIGURES` in `figures`, by the names of experiments; a part that it has no use for
may be missing, and an experiment without a figure is drawn by `CurvePanels`. `claims` and
`experiments` may be packages: then MODULES in their `__init__` names the modules that have such a list. What is not
asked for is not loaded.
"""

from __future__ import annotations

import pkgutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from foretrain.core.errors import require_known

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import xarray as xr

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


ENTRY_POINTS = "foretrain.papers"  # a package's entry point here gives the paper's name and the package that has it


@cache
def packages() -> dict[str, str]:
    """The package of every paper, by the paper's name. One that cannot be used is left out, with a warning."""
    inside = {module.name: f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__) if module.ispkg}
    outside: dict[str, str] = {}
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        problem = _problem(entry.name, entry.value, {**inside, **outside})
        if problem:
            warnings.warn(f"The paper {entry.name!r} of {_provider(entry)} is left out: {problem}.", stacklevel=2)
        else:
            outside[entry.name] = entry.value
    return dict(sorted({**inside, **outside}.items()))


def _problem(name: str, package: str, known: Mapping[str, str]) -> str:
    """Why a paper from another package cannot be used; empty if it can. Its lists are loaded, because it is unknown."""
    if name in known:
        return f"there is a paper of this name in {known[name]}"
    try:
        paper = import_module(f"{package}.paper").PAPER
        if not isinstance(paper, Paper) or paper.name != name:
            return f"{package}.paper has no PAPER with the name {name!r}"
        for part in ("claims", "experiments"):
            for module in _modules_in(package, part):
                for item in getattr(import_module(module), part.upper()):
                    if not item.id.startswith(f"{name}/"):
                        return f"{item.id!r} in {module} does not begin with {name}/"
    except (Exception, SystemExit) as error:  # whatever is wrong with somebody's package stops nothing else
        return f"{type(error).__name__}: {error}"
    return ""


def _provider(entry: EntryPoint) -> str:
    return f"the package {entry.dist.name}" if entry.dist is not None else entry.value


@cache
def names() -> tuple[str, ...]:
    """The names of the papers."""
    return tuple(packages())


@cache
def papers() -> dict[str, Paper]:
    """Every paper by its name."""
    return {name: import_module(f"{package}.paper").PAPER for name, package in packages().items()}


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
    loaded = {item.id: item for paper, module in _modules(part, wanted) for item in _items_in(paper, module, part)}
    if all("/" not in query or query in loaded for query in wanted):
        return loaded
    # A pattern, or an id that its module does not spell out: the whole paper.
    return _by_id(part, [query if query in loaded else query.partition("/")[0] for query in wanted])


@cache
def _items_in(paper: str, module: str, part: str) -> tuple[Any, ...]:
    if part == "experiments":
        return tuple(import_module(module).EXPERIMENTS)
    quantities = _quantities(paper)
    written = (replace(claim, module=module, quantities=quantities) for claim in import_module(module).CLAIMS)
    return tuple(half for claim in written for half in claim.halves())


def _quantities(paper: str) -> Quantities:
    """What the paper's variables and axes are called."""
    from foretrain.ledger.quantities import BASE

    table: Quantities = getattr(_part(paper, "quantities"), "QUANTITIES", BASE)
    return table


def _modules(part: str, wanted: Sequence[str]) -> list[tuple[str, str]]:
    """The modules of a part that have to be loaded, by the rules of `claims`, each with its paper before it."""
    everything = [(name, module) for name in names() for module in _modules_of(name, part)]
    chosen: set[str] = set()
    for query in wanted:
        paper, slash, _ = query.partition("/")
        if paper not in names():
            return everything
        modules = _modules_of(paper, part)
        chosen.update([module for module in modules if slash and _spells_out(module, query)] or modules)
    return [(paper, module) for paper, module in everything if module in chosen or not wanted]


@cache
def _modules_of(paper: str, part: str) -> tuple[str, ...]:
    return _modules_in(packages()[paper], part)


def _modules_in(package: str, part: str) -> tuple[str, ...]:
    """A part of a paper is one module, which is not loaded here, or a package whose MODULES names those inside it."""
    name = f"{package}.{part}"
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
    (folder,) = import_module(packages()[paper]).__path__
    return Path(folder)


def figure_of(experiment: str) -> Callable[[xr.Dataset], go.Figure]:
    """The function that draws an experiment's trajectory: the paper's, or else one that draws any numbers."""
    from foretrain.show.curve_panels import CurvePanels

    paper, name = experiment.split("/", 1)
    drawings: dict[str, Any] = getattr(_part(paper, "figures"), "FIGURES", {})
    drawing = drawings.get(name) or CurvePanels(experiments(experiment)[experiment].says.removesuffix("."))
    return partial(drawing.draw, quantities=_quantities(paper)) if isinstance(drawing, CurvePanels) else drawing


def forget() -> None:
    """Forget what was loaded, after the folders have changed: for tests."""
    for registry in (packages, names, papers, _items_in, _modules_of, _spells_out):
        registry.cache_clear()


def _part(paper: str, part: str) -> ModuleType | None:
    """A part of a paper's folder, or None where the paper has none."""
    name = f"{packages()[paper]}.{part}"
    return import_module(name) if find_spec(name) else None
