"""The forecast of a corpus as one HTML page that opens offline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foretrain.forecast.corpora.figures import scatter, trained_scatter
from foretrain.forecast.corpora.forecast import CorpusForecast, Learned
from foretrain.forecast.corpora.words import CONTRADICTIONS, bias_words, counted_words, sizes_words, summary
from foretrain.show.pages import figure_html, render

ON_PAGE = 12  # default number of items shown per class and architecture
LISTED = 50  # most rows in a table of suspicious items, and most notes; the JSON has all

_CONTRADICTION_SAYS = {
    "wrong": "Bigrams that lean to a class while the sum of their parts leans away from it. Log-odds are those of the "
    "class, minus those among all texts.",
    "undecided": "Bigrams that lean to a class while the sum of their parts leans neither way by more than chance.",
}


def page(forecast: CorpusForecast, name: str, learned: Mapping[str, Learned] | None = None, top: int = ON_PAGE) -> str:
    """One self-contained HTML file, with the `top` items of every class."""
    words = summary(forecast, learned, top)
    figure, views = scatter(forecast)
    return render(
        "corpus.html",
        title=f"Forecast of {name}",
        facts=f"{sizes_words(forecast)} {counted_words(forecast)}",
        listed=LISTED,
        lists={**words["tokens"], **words["ngrams"]},
        spurious=_spurious(forecast),
        from_imbalance=words["from_imbalance"],
        contradictions=[
            {"title": title, "says": _CONTRADICTION_SAYS[kind], "rows": _contradictions(forecast, kind)}
            for kind, title in CONTRADICTIONS.items()
        ],
        bias_says=f"{bias_words(forecast)} The value where it would settle if tokens carried no information about the "
        "class is known for MLPs only.",
        **_bias(forecast, words),
        views=views,
        scatter=figure_html(figure, div_id="scatter"),
        learned_rows=[(name, scores.spearman, scores.pearson) for name, scores in (learned or {}).items()],
        learned_scatter=figure_html(trained_scatter(forecast, learned), with_plotly=False) if learned else "",
        notes=forecast.notes,
        notes_say=_notes_say(len(forecast.notes)),
    )


def _notes_say(count: int) -> str:
    return f"The first {LISTED} of {count:,}; every row is kept." if count > LISTED else "Every row is kept."


def _spurious(forecast: CorpusForecast) -> list[tuple[Any, ...]]:
    tokens = forecast.items[1]
    index = {token: i for i, token in enumerate(tokens.names)}
    rows = []
    for token, kind in forecast.spurious.items():
        texts, odds = tokens.lean.texts[index[token]], tokens.lean.log_odds[index[token]]
        rows.append((token, kind, forecast.classes[int(odds.argmax())], float(odds.max()), int(texts.sum())))
    return rows


def _contradictions(forecast: CorpusForecast, kind: str) -> list[tuple[Any, ...]]:
    columns = ("bigram", "class", "log_odds", "log_odds_of_parts", "texts")
    return [tuple(row[column] for column in columns) for row in forecast.contradictions if row["kind"] == kind]


def _bias(forecast: CorpusForecast, words: Mapping[str, Any]) -> dict[str, Any]:
    heads = ("architecture", *(f"for {output}" for output in forecast.outputs))
    plateau = tuple(f"would settle at, for {output}" for output in forecast.outputs)
    unknown = dict.fromkeys(forecast.outputs, "")
    rows = [
        (architecture, *bias.values(), *words["bias_plateau"].get(architecture, unknown).values())
        for architecture, bias in words["bias"].items()
    ]
    return {"bias_head": (*heads, *plateau), "bias_rows": rows}
