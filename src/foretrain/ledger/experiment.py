"""An experiment: one figure or table of a paper, as a cell that computes one point and the axes it is computed over."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import xarray as xr

from foretrain.core.files import plain
from foretrain.core.looping import over
from foretrain.core.streams import seed_list
from foretrain.ledger.parameters import Parameter, parameters_of, require_setting
from foretrain.ledger.tiers import Settings, at_tier


@dataclass(frozen=True)
class Experiment:
    """`cell` computes one point; the experiment is that cell at every point of the grid that its axes span.

    axes       arguments of the cell, one value at a time, with the values they take in the paper. Each becomes an axis
               of the result. An axis `seed` is set as `seeds`, which may be a number: 3 means 1, 2 and 3
    batched    arguments of which the cell takes several values at once, because it computes them faster together, each
               with the axis of the result it becomes, such as {"seeds": "seed"}. One value at a time gives the same
               numbers
    fixed      arguments of the cell that belong to the experiment and cannot be set
    together   how many points it computes faster in one call than one after another, if it does
    settings   arguments by tier; a missing tier takes the next smaller one. `paper` holds the paper's own, where the
               cell has another default
    concludes  what a whole run shows, in a sentence for whoever ran it
    """

    id: str
    says: str
    cell: Callable[..., Any]
    axes: Mapping[str, Sequence[Any] | int] = field(default_factory=dict)
    batched: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    together: int = 1
    settings: Settings = field(default_factory=dict)
    concludes: Callable[[xr.Dataset], str] | None = None

    def run(self, **given: Any) -> xr.Dataset:
        """The result at every point, computed in this process; arguments that are not given are the paper's."""
        grid, lists, rest = self.split({**self.defaults(), **self.take(given)})
        whole = over(self.cell, grid, rest, lists)
        whole.attrs.setdefault("config", json.dumps(rest, default=plain))
        return whole

    @property
    def paper(self) -> str:
        """The name of its paper, such as "joma"."""
        return self.id.split("/", 1)[0]

    @property
    def cut(self) -> dict[str, str]:
        """Arguments along which a run on disk is cut into pieces, each with the axis of the result it becomes."""
        return {**{_setting(axis): axis for axis in self.axes}, **self.batched}

    def parameters(self) -> dict[str, Parameter]:
        """Every argument that can be set, with its type, range, default, unit and one sentence."""
        taken = {name: p for name, p in parameters_of(self.cell).items() if name not in self.fixed}
        axes = [taken[axis].along(_setting(axis), values) for axis, values in self.axes.items()]
        listed = [*axes, *(parameter for name, parameter in taken.items() if name not in self.axes)]
        paper = self.settings.get("paper", {})
        return {p.name: p.with_default(paper[p.name]) if p.name in paper else p for p in listed}

    def defaults(self) -> dict[str, Any]:
        """The default of every parameter, by name."""
        return {name: parameter.default for name, parameter in self.parameters().items()}

    def arguments(self, tier: str = "paper") -> dict[str, Any]:
        """All arguments at a tier."""
        return {**self.defaults(), **at_tier({**self.settings, "paper": {}}, tier)}

    def take(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments given from Python, each as its parameter takes it."""
        parameters = self.parameters()
        for name in given:
            require_setting(name, parameters)
        return {name: parameters[name].take(value) for name, value in given.items()}

    def files(self) -> list[str]:
        """Arguments whose values may be paths of files."""
        return [name for name, parameter in self.parameters().items() if parameter.is_file]

    def split(self, arguments: Mapping[str, Any]) -> tuple[dict[str, list[Any]], dict[str, list[Any]], dict[str, Any]]:
        """All arguments of the cell: values of the axes, lists for what it takes batched, and the others."""
        grid = {axis: _values(_setting(axis), arguments) for axis in self.axes}
        lists = {name: _values(name, arguments) for name in self.batched}
        rest = {name: value for name, value in arguments.items() if name not in self.cut}
        return grid, lists, {**rest, **self.fixed}


def _setting(axis: str) -> str:
    """What people set to vary an axis."""
    return "seeds" if axis == "seed" else axis


def _values(name: str, arguments: Mapping[str, Any]) -> list[Any]:
    return seed_list(arguments[name]) if name == "seeds" else list(arguments[name])
