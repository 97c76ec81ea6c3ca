"""An experiment: one figure or table of a paper, as a function that returns a trajectory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import xarray as xr

from foretrain.core.streams import seed_list
from foretrain.ledger.parameters import Parameter, parameters_of
from foretrain.ledger.tiers import Settings, at_tier


@dataclass(frozen=True)
class Experiment:
    """`run` takes keyword arguments, whose defaults are the paper's own sizes.

    cut        arguments along which a run on disk is cut into pieces, each with the axis of the result it becomes, such
               as {"depths": "depth"}. Running one value at a time gives the same numbers as running all together
    together   how many cells of the grid it computes faster in one call than one after another, if it does
    settings   arguments by tier; a missing tier takes the next smaller one, and `paper` is always the defaults
    concludes  what a whole run shows, in a sentence for whoever ran it
    """

    id: str
    says: str
    run: Callable[..., xr.Dataset]
    cut: Mapping[str, str] = field(default_factory=dict)
    together: int = 1
    settings: Settings = field(default_factory=dict)
    concludes: Callable[[xr.Dataset], str] | None = None

    @property
    def paper(self) -> str:
        """The name of its paper, such as "joma"."""
        return self.id.split("/", 1)[0]

    def parameters(self) -> dict[str, Parameter]:
        """Every argument with its type, range, default, unit and one sentence."""
        return parameters_of(self.run)

    def defaults(self) -> dict[str, Any]:
        """The default of every parameter, by name."""
        return {name: parameter.default for name, parameter in self.parameters().items()}

    def arguments(self, tier: str = "paper") -> dict[str, Any]:
        """All arguments at a tier."""
        return {**self.defaults(), **at_tier({**self.settings, "paper": {}}, tier)}

    def files(self) -> list[str]:
        """Arguments whose values may be paths of files."""
        return [name for name, parameter in self.parameters().items() if parameter.is_file]

    def split(self, arguments: Mapping[str, Any]) -> tuple[dict[str, list[Any]], dict[str, Any]]:
        """Arguments along which the run is cut, as lists, and the others."""
        cut = {name: seed_list(arguments[name]) if name == "seeds" else list(arguments[name]) for name in self.cut}
        return cut, {name: value for name, value in arguments.items() if name not in cut}
