"""An experiment: one figure or table of a paper, as a function that returns a trajectory."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import xarray as xr

from foretrain.claim import TIERS
from foretrain.errors import require_known


@dataclass(frozen=True)
class Experiment:
    """`run` takes keyword arguments with defaults at the paper's sizes.

    cut    arguments that are sequences (or `seeds`) along which a run on disk is cut into shards: each names
           an axis of the result, and one value at a time gives the same numbers as all together
    quick  arguments of tier fast: a matter of seconds, for tests and a first look
    full   arguments of tier full: a thinned grid on smaller networks, a matter of minutes
    concludes  what a whole run says, in a sentence for those who made it
    """

    id: str
    says: str
    run: Callable[..., xr.Dataset]
    cut: tuple[str, ...] = ()
    quick: Mapping[str, Any] = field(default_factory=dict)
    full: Mapping[str, Any] = field(default_factory=dict)
    concludes: Callable[[xr.Dataset], str] | None = None

    def defaults(self) -> dict[str, Any]:
        return {p.name: p.default for p in inspect.signature(self.run).parameters.values()}

    def arguments(self, tier: str = "paper") -> dict[str, Any]:
        """All arguments at a tier: at `paper` the defaults; a tier without arguments of its own takes the next one."""
        require_known("tier", tier, TIERS)
        own = {"fast": self.quick or self.full, "full": self.full, "paper": {}}[tier]
        return {**self.defaults(), **own}
