"""What the variables and axes of claims are called: one table for each paper, which extends `BASE`.

Comparators put these words into their sentences and figures onto their axes. A paper's table is `QUANTITIES` in its
`quantities.py`; claims get it when their paper is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# What a figure does with it: values are drawn over axes. Repetitions along a replicate are averaged. An index only
# numbers things, so neighbours on it have nothing in common, and a sentence does not name a number on it.
Role = Literal["value", "axis", "replicate", "index"]


@dataclass(frozen=True)
class Quantity:
    """A variable or an axis, and what a reader calls it.

    words    what a sentence calls it, with its article: "the fall of entropy"; a figure leaves the article out
    symbol   what stands before a place on this axis, such as "t" in "at t = 690"; the words if empty
    """

    name: str
    words: str = ""
    symbol: str = ""
    unit: str = ""
    role: Role = "value"

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", self.words or self.name.replace("_", " "))

    @property
    def title(self) -> str:
        """The words without their article."""
        return self.words.removeprefix("the ")

    @property
    def place(self) -> str:
        """The label before a coordinate, as in "t = 690"."""
        return self.symbol or self.title

    @property
    def with_unit(self) -> str:
        """The unit behind a number; empty if there is none."""
        return f" {self.unit}" if self.unit else ""


@dataclass(frozen=True)
class Quantities:
    """The quantities of one paper by name."""

    table: Mapping[str, Quantity]

    def __getitem__(self, name: str) -> Quantity:
        """The quantity; one that is not in the table is called by its name."""
        return self.table.get(name) or Quantity(name)

    def __contains__(self, name: str) -> bool:
        return name in self.table

    def extended(self, *more: Quantity) -> Quantities:
        """These quantities and more; a name that is there already is replaced."""
        names = [quantity.name for quantity in more]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"{', '.join(sorted(twice))} stands twice in a table of quantities; name each one once.")
        return Quantities({**self.table, **{quantity.name: quantity for quantity in more}})


BASE = Quantities({}).extended(
    Quantity("time", symbol="t", role="axis"),
    *(Quantity(name, role="replicate") for name in ("seed", "draw", "trial", "sample", "repeat", "instance")),
    *(
        Quantity(name, role="index")
        for name in (
            "problem", "context", "token", "class", "row", "column", "entry", "text", "other", "pair", "component",
            "point", "cell", "item", "index", "case", "example", "template", "loser", "query",
        )
    ),
)  # fmt: skip
