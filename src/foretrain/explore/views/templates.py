"""Templates: will a transformer, an MLP and the repaired transformer learn them, from how many samples, and why?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from foretrain.core.errors import require
from foretrain.explore.figure_theme import BELOW
from foretrain.explore.sliders import Slider, State
from foretrain.explore.view import Cell, Formula, Passage, Picture, Places, TextTable, View, python_call

MOST_TEMPLATES = 12
LONGEST = 8  # symbols, so that the kernels answer at once
EXAMPLES = {
    "ABA, not ABB": "αβα = 1\nαββ = -1",
    "same or different": "αα = 1\nαβ = -1",
    "which of three repeats": "ααβ = 1\nαβα = 2\nβαα = 3",
    "a token among wildcards": "xα = 1\nαx = -1",
    "copy the second symbol": "αβ = β",
}
NAME = "these templates"
FORMULAS = (
    Formula(
        r"N_{ij} = K\left(\mathrm{sub}(z_i, s),\, \mathrm{sub}(z_j, s')\right)",
        "The kernel between templates filled with different symbols. If N is nonsingular, kernel regression learns the "
        "task on symbols it has never seen.",
        "abstract_symbols/theorem3_4",
    ),
)


def controls(_: Places) -> Sequence[Slider]:
    return (
        Slider("templates", "templates", "text", EXAMPLES["ABA, not ABB"], rows=6,
                says="One per line: the template, =, its label. Greek letters are wildcards, and the capitals A, B, C "
                "… stand for them; other characters are tokens."),
        Slider("error", "error to reach", "number", 0.1, low=0.01, high=0.9, log=True,
                says="Squared error on unseen symbols, as a share of the error of a constant guess."),
        Slider("beta", "β, inverse temperature", "number", 1.0, low=0, high=10,
                says="Of the plain transformer's attention."),
        Slider("gamma", "γ, size of positions", "number", 1.0, low=0, high=10, says="Relative to tokens."),
        Slider("activation", "activation", "choice", "cosine", options=("cosine", "relu", "gelu")),
    )  # fmt: skip


def read_templates(text: str) -> dict[str, Any]:
    """The content of a task file from lines such as "αβα = 1"; capital letters stand for wildcards."""
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        string, sign, label = (part.strip() for part in line.rpartition("="))
        require(
            bool(sign and string and label), f"Line {number} must be a template, =, and its label; got {line[:40]!r}."
        )
        require(
            len(string) <= LONGEST, f"Line {number} has {len(string)} symbols; at most {LONGEST} can be shown at once."
        )
        rows.append((_greek(string), _greek(label)))
    require(1 <= len(rows) <= MOST_TEMPLATES, f"Give 1 to {MOST_TEMPLATES} templates, one per line; got {len(rows)}.")
    numbers = [_number(label) for _, label in rows]
    regression = all(number is not None for number in numbers)
    labels: list[Any] = numbers if regression else [label for _, label in rows]
    return {
        "name": NAME,
        "kind": "regression" if regression else "next-token",
        "template": [{"string": string, "label": label} for (string, _), label in zip(rows, labels, strict=True)],
    }


def _greek(text: str) -> str:
    return "".join("αβγδεζηθικλμ"[ord(c) - ord("A")] if "A" <= c <= "L" else c for c in text)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def work(state: State, _: Places) -> Any:
    from foretrain.data.template_files import task_of
    from foretrain.forecast.templating.forecast import ForecastSetting, templates

    task = replace(task_of(read_templates(state["templates"])).task, name=NAME)
    setting = ForecastSetting(beta=state["beta"], gamma=state["gamma"], activation=state["activation"])
    return templates(task, setting, error=state["error"])


def draw(state: State, worked: Any, places: Places) -> Picture:
    content = read_templates(state["templates"])
    shown = TextTable(
        "The task", ("template", "label"), tuple((t["string"], _shown(t["label"])) for t in content["template"])
    )
    if worked is None:
        return Picture(
            "Computing the kernels of these templates …",
            tables=(shown, _examples()),
            formulas=FORMULAS,
            waiting="This takes a second.",
            empty=True,
        )
    figure = worked.figure().update_layout(title="Predicted error on unseen symbols", height=480)
    figure.update_layout(**BELOW)
    table = worked.table
    rows = tuple(
        (
            str(name),
            Cell(str(row["verdict"]), shade=_shade(str(row["verdict"]))),
            str(row["in words"]),
            str(row["why"]),
        )
        for name, row in table.iterrows()
    )
    return Picture(
        answer=worked.summary.removeprefix(f"{NAME}. "),
        slow_figures={"error": figure},
        tables=(
            TextTable("Who learns it, and why", ("architecture", "on unseen symbols", "samples needed", "why"), rows),
            shown,
            _examples(),
        ),
        passages=(Passage("", (f"Trust: {worked.trust}",)),),
        formulas=FORMULAS,
        python=_python(state, content, places),
    )


def _examples() -> TextTable:
    links = (Cell(name, link=f"/{VIEW.path}?{urlencode({'templates': text})}") for name, text in EXAMPLES.items())
    return TextTable("Other tasks to try", (), tuple((link,) for link in links))


def _shown(label: Any) -> str:
    return f"{label:g}" if isinstance(label, float) else str(label)


def _shade(verdict: str) -> Any:
    return "good" if verdict == "learns" else "bad" if verdict.startswith("fails") else "unsure"


def _python(state: State, content: dict[str, Any], places: Places) -> str:
    given = ", ".join(f"{name}={state[name]!r}" for name in ("beta", "gamma", "activation"))
    return (
        "from foretrain.data.template_files import task_of\n"
        "from foretrain.forecast.templating.forecast import ForecastSetting, templates\n\n"
        f"task = task_of({content!r}).task\n"
        f"setting = ForecastSetting({given})\n"
        f"forecast = templates(task, setting, error={state['error']!r})\n"
        'print(forecast.summary)\nprint(forecast.table["samples"])\n\n'
        + python_call(VIEW.path, controls(places), state)
    )


VIEW = View(
    path="templates",
    title="Templates",
    question="Will a transformer, an MLP or the repaired transformer learn these templates?",
    controls=controls,
    draw=draw,
    work=work,
)
