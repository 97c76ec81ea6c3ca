"""The forecast of a corpus as one HTML page that opens offline."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from foretrain.forecast.corpus import CorpusForecast, Learned
from foretrain.forecast.corpus_figures import scatter, shown, trained_scatter
from foretrain.forecast.corpus_words import (
    CONTRADICTIONS,
    bias_words,
    counted_words,
    number,
    sizes_words,
    summary,
)
from foretrain.show.report.files import CONFIG

ON_PAGE = 12  # items per class and architecture, where not more are asked for
LISTED = 50  # rows of what looks wrong, and notes, at the most; the JSON has all of these


def page(found: CorpusForecast, name: str, learned: Mapping[str, Learned] | None = None, top: int = ON_PAGE) -> str:
    """One self-contained HTML file, with the `top` items of every class."""
    said = summary(found, learned, top)
    figure, views = scatter(found)
    drawn = figure.to_html(full_html=False, include_plotlyjs=True, config=CONFIG, div_id="scatter")
    options = "".join(f"<option>{shown(view)}</option>" for view in views)
    parts = [
        _section("What each architecture will key on", "Scores in logits, of tokens, or of n-grams for networks that "
                 "read windows.",
                 "".join(_lists(of, lists) for of, lists in {**said["tokens"], **said["ngrams"]}.items())),
        _section("Likely spurious", "High score, no content, and a lean to a class that is more than chance: look at "
                 "where they come from.", _spurious(found)),
        _section("Score from class imbalance", "High score, but mostly because one class has more texts.",
                 _chips(said["from_imbalance"])),
        _section(CONTRADICTIONS["wrong"], "Bigrams that lean to a class while their parts, added up, lean away from "
                 "it: log-odds of the class, beyond those of all texts.", _against(found, "wrong")),
        _section(CONTRADICTIONS["undecided"], "Bigrams that lean to a class while their parts, added up, lean neither "
                 "way by more than chance.", _against(found, "undecided")),
        _section("Predicted bias", f"{bias_words(found)} Where it would settle if tokens said nothing of the class is "
                 "known for MLPs.", _bias(found, said)),
        _section("Predicted score against co-occurrence",
                 "Every point is a token, or an n-gram for networks that read windows; the dotted line is the bias.",
                 f'<p><label>Architecture <select id="view">{options}</select></label></p>{drawn}'),
    ]  # fmt: skip
    if learned:
        rows = [(k, v.spearman, v.pearson) for k, v in learned.items()]
        table = _table(("architecture", "rank correlation", "correlation"), rows)
        drawn = trained_scatter(found, learned).to_html(full_html=False, include_plotlyjs=False, config=CONFIG)
        parts.append(_section("Predicted against learned", "Small networks trained on these texts.", table + drawn))
    if found.notes:
        notes = "".join(f"<li>{shown(note)}</li>" for note in found.notes[:LISTED])
        first = f"The first {LISTED} of {len(found.notes):,}; e" if len(found.notes) > LISTED else "E"
        says = f"{first}very row is kept."
        parts.append(_section("Notes", says, f"<ul>{notes}</ul>"))
    template = files("foretrain.forecast").joinpath("corpus_page.html").read_text(encoding="utf-8")
    filled = {"title": shown(f"Forecast of {name}"), "facts": shown(f"{sizes_words(found)} {counted_words(found)}"),
              "views": json.dumps(len(views)), "body": "\n".join(parts)}  # fmt: skip
    return re.sub(r"%(\w+)%", lambda found: filled[found[1]], template)


def _chips(tokens: Sequence[str]) -> str:
    """Tokens told apart also where they are signs."""
    more = f" and {len(tokens) - LISTED} more" if len(tokens) > LISTED else ""
    return f"<p>{' '.join(f'<code>{shown(token)}</code>' for token in tokens[:LISTED]) or 'none'}{more}</p>"


def _spurious(found: CorpusForecast) -> str:
    of = found.items[1]
    number = {token: i for i, token in enumerate(of.names)}
    rows = []
    for token, kind in found.spurious.items():
        texts, odds = of.lean.texts[number[token]], of.lean.log_odds[number[token]]
        rows.append((token, kind, found.classes[int(odds.argmax())], float(odds.max()), int(texts.sum())))
    return _first(("token", "kind", "leans to", "log-odds", "texts"), rows)


def _against(found: CorpusForecast, kind: str) -> str:
    rows = [
        (c["bigram"], c["class"], c["log_odds"], c["log_odds_of_parts"], c["texts"])
        for c in found.contradictions
        if c["kind"] == kind
    ]
    return _first(("bigram", "class", "log-odds", "of its parts", "texts"), rows)


def _first(head: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> str:
    more = f"<p>and {len(rows) - LISTED:,} more</p>" if len(rows) > LISTED else ""
    return _table(head, rows[:LISTED]) + more


def _section(title: str, says: str, body: str) -> str:
    return f'<section><h2>{shown(title)}</h2><p class="says">{shown(says)}</p>{body}</section>'


def _lists(architecture: str, lists: Mapping[str, Sequence[tuple[str, float]]]) -> str:
    tables = "".join(
        _table((f"for {c}", "score"), list(rows)) if rows else f"<p>for {shown(c)}: none</p>"
        for c, rows in lists.items()
    )
    return f'<details><summary>{shown(architecture)}</summary><div class="lists">{tables}</div></details>'


def _bias(found: CorpusForecast, said: dict[str, Any]) -> str:
    heads = ("architecture", *(f"for {output}" for output in found.outputs))
    plateau = tuple(f"would settle at, for {output}" for output in found.outputs)
    rows = [
        (name, *bias.values(), *said["bias_plateau"].get(name, dict.fromkeys(found.outputs, "")).values())
        for name, bias in said["bias"].items()
    ]
    return _table((*heads, *plateau), rows)


def _table(head: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> str:
    if not rows:
        return "<p>none</p>"

    def cell(value: Any) -> str:
        if isinstance(value, int | float):
            return f'<td class="number">{number(value) if isinstance(value, float) else format(value, ",")}</td>'
        return f"<td>{shown(value)}</td>"

    body = "".join("<tr>" + "".join(cell(v) for v in row) + "</tr>" for row in rows)
    heads = "".join(
        f'<th class="number">{shown(h)}</th>' if isinstance(v, int | float) else f"<th>{shown(h)}</th>"
        for h, v in zip(head, rows[0], strict=True)
    )
    return f'<div class="wide"><table><tr>{heads}</tr>{body}</table></div>'
