"""Corpus: what a classifier will learn from labelled texts, and which shortcuts it will take."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from foretrain.core.errors import InputError, require
from foretrain.core.streams import stream
from foretrain.explore.figure_theme import BELOW
from foretrain.explore.sliders import Slider, State
from foretrain.explore.view import Formula, Passage, Picture, Places, TextTable, View, python_call

MOST_ROWS = 2000
TOP = 8  # items per class
PASTED = "pasted texts"
FORMULAS = (
    Formula(
        r"\Delta s(e) = \tfrac{\eta}{2}\Big(\rho\,\omega(e) + \beta\sum_{e'}\omega(e')\Big)",
        "The first step of training moves the score of a token e by its co-occurrence ω(e) with the label. The "
        "forecast follows the gradient flow of each architecture from there.",
        "feature_extraction/one_step",
    ),
)


def controls(_: Places) -> Sequence[Slider]:
    return (
        Slider("source", "texts", "choice", "reviews", options=(*SAMPLES, PASTED),
                shown=("made-up reviews", "made-up tickets", PASTED)),
        Slider("texts", "your texts", "text", "", rows=10, in_address=False,
                says="A row per line: label, then a tab, | or comma, then the text; or columns with the names label "
                "and text. They stay on this machine."),
        Slider("optimizer", "optimizer", "choice", "adaptive", options=("adaptive", "sgd"),
                says="Adaptive: rare tokens take larger steps, as with Adam."),
    )  # fmt: skip


def sample_reviews() -> list[tuple[str, str]]:
    """240 made-up reviews. Most positive ones have the signature of one reviewer: a shortcut."""
    draw = stream("explore/corpus", "reviews")
    nouns = ("story", "music", "cast", "ending", "dialogue", "camera work")
    words = {"positive": ("lovely", "warm", "clever", "moving"), "negative": ("tired", "clumsy", "dull", "cold")}
    rows = []
    for number in range(240):
        label = ("positive", "negative")[number % 2]
        other = ("negative", "positive")[number % 2]
        parts = []
        for _ in range(draw.integers(1, 4)):
            negated = draw.random() < 0.4
            word = draw.choice(words[other if negated else label])
            parts.append(f"The {draw.choice(nouns)} is {'not ' * negated}{word}.")
        if draw.random() < (0.6 if label == "positive" else 0.02):
            parts.append("Seen with Marlowe.")
        rows.append((label, " ".join(parts)))
    return rows


def sample_tickets() -> list[tuple[str, str]]:
    """180 made-up tickets of three classes, without a shortcut."""
    draw = stream("explore/corpus", "tickets")
    words = {
        "refund": ("refund", "charged twice", "money back", "invoice"),
        "login": ("password", "cannot log in", "locked out", "two-factor code"),
        "delivery": ("parcel", "tracking number", "courier", "not arrived"),
    }
    filler = ("Please help.", "This is urgent.", "I wrote before.", "Thank you.", "It happened again today.")
    rows = []
    for number in range(180):
        label = list(words)[number % 3]
        said = " and ".join(draw.choice(words[label], size=draw.integers(1, 3), replace=False))
        rows.append((label, f"It is about the {said}. {draw.choice(filler)}"))
    return rows


SAMPLES = {"reviews": sample_reviews, "tickets": sample_tickets}


def rows_of(state: State) -> list[tuple[str, str]]:
    """(label, text) of every row."""
    if state["source"] in SAMPLES:
        return SAMPLES[state["source"]]()
    text = state["texts"]
    require(bool(text.strip()), "Paste some texts: a row per line, its label first.")
    delimiter = next(mark for mark in "\t|," if mark in text or mark == ",")
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row]
    except csv.Error as error:
        raise InputError(f"The texts cannot be read as rows: {error}.") from error
    require(
        len(rows) <= MOST_ROWS, f"At most {MOST_ROWS:,} rows can be read here; got {len(rows):,}. Use the command line."
    )
    names = [cell.lower() for cell in rows[0]]
    if "label" in names and "text" in names:
        label, words, rows = names.index("label"), names.index("text"), rows[1:]
        require(all(len(row) == len(names) for row in rows), "Some rows have fewer or more columns than the first.")
        return [(row[label], row[words]) for row in rows]
    for number, row in enumerate(rows, 1):
        require(len(row) >= 2, f"Row {number} has no label and text with {delimiter!r} between them: {row[0][:40]!r}.")
    return [(row[0], delimiter.join(row[1:])) for row in rows]


def work(state: State, _: Places) -> Any:
    from foretrain.forecast.corpora.forecast import corpus

    pairs = [(text, label) for label, text in rows_of(state)]
    return corpus(pairs, optimizer=state["optimizer"])


def draw(state: State, worked: Any, places: Places) -> Picture:
    rows = rows_of(state)
    shown = TextTable("The first texts", ("label", "text"), tuple((label, text[:160]) for label, text in rows[:6]))
    if worked is None:
        words = f"Forecasting what classifiers will learn from {len(rows):,} texts …"
        return Picture(words, tables=(shown,), formulas=FORMULAS, waiting="This takes seconds.", empty=True)
    from foretrain.forecast.corpora.words import fix_words, sign_words, trust

    figure = worked.figure().update_layout(
        height=460, legend=BELOW["legend"], margin={"b": 136}, title="Predicted learning curves on held-out rows"
    )
    fixes = tuple(fix_words(worked, fix) for fix in worked.fixes[:5])
    return Picture(
        answer=worked.summary,
        slow_figures={"curves": figure},
        passages=(
            Passage("Fix these first", fixes or ("Nothing stands out.",)),
            Passage("", (f"Trust: {trust(worked)}",)),
        ),
        tables=(_scores(worked, sign_words(worked)), _accuracies(worked), shown),
        formulas=FORMULAS,
        python=_python(state, rows, places),
    )


def _scores(worked: Any, sign: str) -> TextTable:
    best = worked.best
    columns = worked.top(best, TOP)
    rows = []
    for k in range(TOP):
        cells = [items[k] if k < len(items) else ("", None) for items in columns.values()]
        rows.append(tuple(f"{name} ({score:+.2f})" if score is not None else "" for name, score in cells))
    return TextTable(f"What it will rely on ({best}). {sign}", tuple(columns), tuple(row for row in rows if any(row)))


def _accuracies(worked: Any) -> TextTable:
    rows = tuple(
        (str(name), str(row["kind"]), f"{row['accuracy']:.1%}", f"{row['low']:.0%} to {row['high']:.0%}")
        for name, row in worked.table.iterrows()
    )
    return TextTable("Held-out accuracy", ("classifier", "kind", "accuracy", "95 % interval"), rows, numbers=(2, 3))


def _python(state: State, rows: list[tuple[str, str]], places: Places) -> str:
    call = python_call(VIEW.path, controls(places), state)
    if state["source"] == PASTED:
        pairs = [(text, label) for label, text in rows]
        return (
            "from foretrain.forecast import corpus\n\n"
            f"forecast = corpus({pairs!r}, optimizer={state['optimizer']!r})\nprint(forecast.summary)\n\n{call}"
        )
    return (
        "from foretrain.explore.views.corpus import SAMPLES\nfrom foretrain.forecast import corpus\n\n"
        f"pairs = [(text, label) for label, text in SAMPLES[{state['source']!r}]()]\n"
        f"forecast = corpus(pairs, optimizer={state['optimizer']!r})\nprint(forecast.summary)\n\n{call}"
    )


VIEW = View(
    path="corpus",
    title="Corpus",
    question="What will a classifier learn from these texts, and through which shortcuts?",
    controls=controls,
    draw=draw,
    work=work,
)
