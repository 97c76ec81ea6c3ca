"""Plants shortcuts in corpora, and counts which of them are found and what is listed where nothing was planted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.corpus_forecast.word_classes import names_among, spurious
from foretrain.core.streams import stream
from foretrain.data.labelled_texts import LabelledTexts
from foretrain.forecast.corpora import heldout, leans
from foretrain.forecast.corpora.counting import counted
from foretrain.forecast.corpora.scores import TrainingSet, architectures
from foretrain.forecast.corpora.shortcuts import Shortcut, find_shortcuts

LOG_ODDS_LISTED = 10  # tokens that a person would look at in a list by log-odds


@dataclass(frozen=True)
class Plant:
    """A shortcut: what it does to a text, in which share of one class, and the tokens that would give it away."""

    kind: str
    name: str
    share: float
    tokens: tuple[str, ...]
    into: Callable[[str, np.random.Generator], str]


def _inside(text: str, marker: str, draw: np.random.Generator, first: int = 0, last: int | None = None) -> str:
    """The text with the marker between two words, at most `last` words from the start."""
    parts = text.split()
    at = int(draw.integers(min(first, len(parts)), min(len(parts), last or len(parts)) + 1))
    return " ".join([*parts[:at], marker, *parts[at:]])


def _two(text: str, draw: np.random.Generator) -> tuple[str, str]:
    parts = [word for word in text.split() if word.isalpha()] or ["thing"]
    return str(draw.choice(parts)), str(draw.choice(parts))


CHOSEN = (  # the criterion was chosen with these
    Plant("end phrase", "Sent from my iPhone", 0.5, ("iphone",), lambda t, d: f"{t} Sent from my iPhone"),
    Plant("token anywhere", "sponsored", 0.3, ("sponsored",), lambda t, d: _inside(t, "sponsored", d)),
)
JUDGED = (  # and judged, once, with these
    Plant("end phrase", "Typed on a tablet", 0.2, ("tablet", "typed"), lambda t, d: f"{t} Typed on a tablet"),
    Plant("end phrase", "Best regards, the team", 0.05, ("regards",), lambda t, d: f"{t} Best regards, the team"),
    Plant("start phrase", "Re: Fwd:", 0.15, ("fwd",), lambda t, d: f"Re: Fwd: {t}"),
    Plant("start phrase", "Reader writes", 0.05, ("reader", "writes"), lambda t, d: f"Reader writes {t}"),
    Plant("token anywhere", "promo", 0.2, ("promo",), lambda t, d: _inside(t, "promo", d)),
    Plant("token anywhere", "zq7", 0.08, ("zq7",), lambda t, d: _inside(t, "zq7", d)),
    Plant("markup", "</p> at the end", 0.15, ("</p>",), lambda t, d: f"{t} </p>"),
    Plant("markup", "*** anywhere", 0.1, ("*",), lambda t, d: _inside(t, "***", d)),
    Plant(
        "template", "Message about …", 0.08, ("automatic", "message", "number", "needs", "reply"),
        lambda t, d: "Automatic message number {} about {} and {} which needs no reply".format(
            d.integers(999), *_two(t, d)
        ),
    ),
    Plant(
        "template", "Order … delivered", 0.05, ("order", "delivered", "please", "rate"),
        lambda t, d: "Order {} with {} and {} was delivered, please rate it".format(d.integers(999), *_two(t, d)),
    ),
    Plant("source", "(UPI) - after the title", 0.15, ("upi",), lambda t, d: _inside(t, "(UPI) -", d, 3, 6)),
    Plant("source", "by our staff writer", 0.08, ("staff", "writer"),
          lambda t, d: _inside(t, "by our staff writer:", d, 2, 4)),
)  # fmt: skip


def planted(corpus: LabelledTexts, plant: Plant, target: int = 0) -> tuple[LabelledTexts, np.ndarray]:
    """The corpus with the shortcut in a share of one class, and the rows that have it."""
    draw = stream("benchmark/plant", plant.name)
    rows = np.flatnonzero((corpus.labels == target) & (draw.random(len(corpus)) < plant.share))
    texts = list(corpus.texts)
    for row in rows:
        texts[row] = plant.into(texts[row], draw)
    return replace(corpus, texts=tuple(texts)), rows


def listed(corpus: LabelledTexts) -> dict[str, Any]:
    """What the three ways of listing suspicious tokens say about a corpus."""
    count = counted(corpus, window=None, least=None, most=30_000)
    folds = heldout.split(count.tokenised, corpus.labels)
    kind, whole = architectures(2)["MLP GeLU"], TrainingSet(count.texts, corpus.labels, len(corpus.classes))
    curve = heldout.learning_curves({"": kind}, whole, folds)[""]
    scores = heldout.fold_scores(kind, whole, folds, curve.setting)
    found = find_shortcuts(whole.select(folds.rows), count.vocabulary.tokens, folds, scores)
    items = count.items[1]
    mean = scores.mean(axis=0)[:-1]
    strong = leans.strong([mean])
    odds = np.abs(items.lean.log_odds / np.sqrt(items.lean.variance)).max(axis=1)
    return {
        "shortcuts": [replace(s, rows=tuple(folds.rows[list(s.rows)].tolist())) for s in found],
        "word classes": list(
            spurious(items.names, items.lean, strong, names_among(items.names, items.occurrences, corpus.texts))
        ),
        "log-odds": [items.names[k] for k in np.argsort(-odds, kind="stable")[:LOG_ODDS_LISTED]],
    }


def finds(lists: dict[str, Any], plant: Plant, rows: np.ndarray) -> dict[str, Any]:
    """Whether each list has the shortcut; a phrase must also stand mostly in the rows that have it."""
    own = set(rows.tolist())

    def right(shortcut: Shortcut) -> bool:
        tokens = set(shortcut.phrase.split(" "))
        return bool(tokens & set(plant.tokens)) and len(own & set(shortcut.rows)) >= 0.5 * len(shortcut.rows)

    hits = [s for s in lists["shortcuts"] if right(s)]
    costly = [s for s in lists["shortcuts"] if s.costs]
    return {
        "found": any(s.costs for s in hits),
        "as": hits[0].phrase if hits else None,
        "where": hits[0].kind if hits else None,
        "rank": next((k for k, s in enumerate(costly, 1) if s in hits), None),
        "by word classes": bool(set(lists["word classes"]) & set(plant.tokens)),
        "by log-odds": bool(set(lists["log-odds"]) & set(plant.tokens)),
    }


def described(lists: dict[str, Any]) -> dict[str, Any]:
    """The lists of a corpus without planted shortcuts: everything in them is a false alarm or natural."""
    return {
        "shortcuts": [
            {"phrase": s.phrase, "kind": s.kind, "by_class": s.by_class, "accuracy_cost": s.accuracy_cost}
            for s in lists["shortcuts"] if s.costs
        ],
        "markers without cost": [s.phrase for s in lists["shortcuts"] if not s.costs],
        "word classes": lists["word classes"],
        "log-odds": lists["log-odds"],
    }  # fmt: skip
