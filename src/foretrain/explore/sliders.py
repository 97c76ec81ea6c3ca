"""Controls: what can be changed in a view, how it is written into the address, and how it is read back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from foretrain.core.errors import InputError, require
from foretrain.ledger.parameters import Parameter

Kind = Literal["number", "whole", "choice", "flag", "text", "bars"]
State = dict[str, Any]
DIGITS = 3  # significant digits of a slider
LONGEST = 200_000  # characters of a text


@dataclass(frozen=True)
class Slider:
    """One thing that can be changed.

    low, high  ends of a slider; `log` spaces it evenly in the logarithm
    options    what can be chosen; `shown` has other words for some of them
    names      of the bars, whose values are between `low` and `high`
    """

    name: str
    label: str
    kind: Kind
    default: Any
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    options: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    unit: str = ""
    says: str = ""
    rows: int = 1  # of a text
    shares: bool = False  # bars show their share of the sum
    in_address: bool = True  # a long text is not

    def read(self, text: str) -> Any:
        """The value that the address gives; InputError with a sentence if it cannot be one."""
        if self.kind in ("number", "whole"):
            return self._number(text)
        if self.kind == "flag":
            require(text in ("yes", "no"), f"{self.name} is yes or no; got {text[:40]!r}.")
            return text == "yes"
        if self.kind == "bars":
            values = [self._number(part) for part in text.split(",")]
            require(len(values) == len(self.names), f"{self.name} takes {len(self.names)} numbers; got {len(values)}.")
            return tuple(values)
        require(len(text) <= LONGEST, f"{self.name} takes at most {LONGEST:,} characters; got {len(text):,}.")
        if self.kind == "choice" and self.options:
            require(text in self.options, f"{self.name} is one of {', '.join(self.options)}; got {text[:40]!r}.")
        return text

    def write(self, value: Any) -> str:
        """The value as it stands in the address."""
        if self.kind == "flag":
            return "yes" if value else "no"
        if self.kind == "bars":
            return ",".join(f"{each:g}" for each in value)
        return f"{value:g}" if self.kind == "number" else str(value)

    def accept(self, value: Any) -> Any:
        """A value that the page sent, checked like one from the address."""
        if self.kind == "bars" and isinstance(value, Sequence) and not isinstance(value, str):
            return self.read(",".join(str(each) for each in value))
        if self.kind == "flag":
            return bool(value)
        return self.read(str(value))

    def _number(self, text: str) -> float | int:
        try:
            value = float(text)
        except ValueError:
            raise InputError(f"{self.name} must be a number; got {text[:40]!r}.") from None
        inside = math.isfinite(value) and self.low <= value <= self.high
        require(inside, f"{self.name} must lie between {self.low:g} and {self.high:g}; got {text[:40]}.")
        require(self.kind != "whole" or value == int(value), f"{self.name} must be a whole number; got {text[:40]}.")
        return int(value) if self.kind == "whole" else value

    def spec(self) -> dict[str, Any]:
        """What the script needs to draw the control."""
        options = list(zip(self.options, self.shown or self.options, strict=True))
        return {
            "name": self.name, "label": self.label, "kind": self.kind, "low": self.low, "high": self.high,
            "log": self.log, "options": options, "names": list(self.names), "unit": self.unit, "says": self.says,
            "rows": self.rows, "digits": DIGITS, "shares": self.shares,
        }  # fmt: skip


def from_parameter(
    parameter: Parameter, *, label: str, low: float | None = None, high: float | None = None, **changes: Any
) -> Slider:
    """A control for a parameter of an experiment: its sentence, unit, bounds and choices come from its description.

    `low` and `high` may narrow the range to what is worth looking at. A parameter that takes several values is offered
    one of them.
    """
    schema = parameter.schema()
    one = schema.get("items", schema)
    default = changes.pop("default", parameter.default)
    default = default[0] if isinstance(default, tuple | list) else default
    shared = {"says": parameter.says, "unit": parameter.unit, **changes}
    if "enum" in one:
        return Slider(parameter.name, label, "choice", default, options=tuple(map(str, one["enum"])), **shared)
    least = one.get("minimum", one.get("exclusiveMinimum", -math.inf))
    most = one.get("maximum", one.get("exclusiveMaximum", math.inf))
    low, high = least if low is None else low, most if high is None else high
    require(
        least <= low <= high <= most,
        f"{parameter.name} allows {least:g} to {most:g}; got {low:g} to {high:g}.",
    )
    kind: Kind = "whole" if one.get("type") == "integer" else "number"
    return Slider(parameter.name, label, kind, default, low=low, high=high, **shared)


def defaults(controls: Sequence[Slider]) -> State:
    return {control.name: control.default for control in controls}


def read_state(controls: Sequence[Slider], query: Mapping[str, str]) -> tuple[State, list[str]]:
    """The state that an address gives, and a sentence about everything in it that could not be used."""
    state, refused = defaults(controls), []
    known = {control.name: control for control in controls}
    for name, text in query.items():
        if name not in known:
            refused.append(f"The address has {name[:40]!r}, which this view does not know.")
            continue
        try:
            state[name] = known[name].read(text)
        except InputError as error:
            refused.append(f"The address was not followed: {error}")
    return state, refused


def write_state(controls: Sequence[Slider], state: State) -> dict[str, str]:
    """What the address says: everything that is not as at the start."""
    return {
        control.name: control.write(state[control.name])
        for control in controls
        if control.in_address and state[control.name] != control.default
    }
