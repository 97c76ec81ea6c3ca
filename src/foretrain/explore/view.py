"""A view: a question, its controls, and a pure function from their state to a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import plotly.graph_objects as go

from foretrain.explore.sliders import Slider, State

Shade = Literal["good", "bad", "unsure", "open", "known"]


@dataclass(frozen=True)
class Places:
    """Folders and files that the command line has opened to the page; nothing else on the disk can be reached."""

    runs: Path = Path("runs")
    kept: Path | None = None  # a stored pass over a model and its data


@dataclass(frozen=True)
class Formula:
    """A formula that a view draws, the claim that tests it, and what it is in words."""

    latex: str
    says: str
    claim: str


@dataclass(frozen=True)
class Light:
    """A condition or verdict: its shade, its name, and the reason."""

    shade: Shade
    word: str  # what the shade means, for those who do not see it
    name: str
    reason: str


@dataclass(frozen=True)
class Cell:
    """Text in a table that leads somewhere else, or that carries a shade."""

    text: str
    link: str = ""
    shade: Shade | None = None


@dataclass(frozen=True)
class TextTable:
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str | Cell, ...], ...]
    numbers: tuple[int, ...] = ()  # columns that are aligned to the right


@dataclass(frozen=True)
class Passage:
    """A heading and its paragraphs."""

    title: str
    paragraphs: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """What a view shows for one state: the answer first."""

    answer: str
    sentences: tuple[str, ...] = ()
    figures: dict[str, go.Figure] = field(default_factory=dict)  # by a name that stays the same while sliders move
    lights: tuple[Light, ...] = ()
    lights_title: str = ""
    tables: tuple[TextTable, ...] = ()
    passages: tuple[Passage, ...] = ()
    formulas: tuple[Formula, ...] = ()
    python: str = ""
    slow_figures: dict[str, go.Figure] = field(default_factory=dict)  # which `work` makes; old ones stay until then
    waiting: str = ""  # what is still being computed
    empty: bool = False  # there is nothing to see before that: what is on the page stays
    problem: bool = False  # the answer says what is wrong

    def show(self) -> None:
        """Print the answer and open the figures."""
        print(self.answer)
        for figure in (*self.figures.values(), *self.slow_figures.values()):
            figure.show()


@dataclass(frozen=True)
class View:
    """One page.

    draw    the picture of a state; `worked` is what `work` returned for it, or None while that is being computed
    work    what takes longer than a glance: a simulation, a forecast. It is kept for states it has been computed for
    stamp   what `work` depends on besides the controls, such as when a file was written
    """

    path: str
    title: str
    question: str
    controls: Callable[[Places], Sequence[Slider]]
    draw: Callable[[State, Any, Places], Picture]
    work: Callable[[State, Places], Any] | None = None
    stamp: Callable[[State, Places], Any] | None = None

    def picture(self, state: State, places: Places) -> Picture:
        """The whole picture, whatever it takes."""
        return self.draw(state, None if self.work is None else self.work(state, places), places)


def python_call(path: str, controls: Sequence[Slider], state: State, **places: Path | None) -> str:
    """The lines that draw the picture again; `places` are those that the view reads."""
    given = {c.name: state[c.name] for c in controls if state[c.name] != c.default}
    given |= {name: str(place) for name, place in places.items() if place is not None}
    arguments = "".join(f", {name}={value!r}" for name, value in given.items())
    return f"from foretrain.explore import picture\n\npicture({path!r}{arguments}).show()\n"
