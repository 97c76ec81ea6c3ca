"""The forecast of a corpus as one HTML page that opens offline, and as a fragment for a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foretrain.forecast.corpora.figures import learning_curves, scatter, trained_scatter
from foretrain.forecast.corpora.fixes import PLACES
from foretrain.forecast.corpora.result import CorpusResult
from foretrain.forecast.corpora.words import (
    CHI2,
    CONTRADICTIONS,
    answer,
    bias_words,
    counted_words,
    fix_words,
    nothing_to_fix_words,
    sign_words,
    sizes_words,
    summary,
    trust,
)
from foretrain.show import pages
from foretrain.show.pages import figure_html, render

ON_PAGE = 12  # default number of items shown per class and architecture
LISTED = 50  # most rows in a table of suspicious items, and most notes; the JSON has all
FIXES = 3  # shown at the top; the others are below them, folded
EXCERPT = 160  # characters of an example text

_CONTRADICTION_SAYS = {
    "wrong": "Bigrams that lean to a class while the sum of their parts leans away from it. Log-odds are those of the "
    "class, minus those among all texts.",
    "undecided": "Bigrams that lean to a class while the sum of their parts leans neither way by more than chance.",
}


def page(forecast: CorpusResult, name: str = "", top: int = ON_PAGE) -> str:
    """One self-contained HTML file, with the `top` items of every class."""
    words, learned, notes = summary(forecast, top), forecast.learned or {}, len(forecast.notes)
    columns = ("bigram", "class", "log_odds", "log_odds_of_parts", "texts")
    bigrams = {
        kind: [tuple(row[column] for column in columns) for row in forecast.contradictions if row["kind"] == kind]
        for kind in CONTRADICTIONS
    }
    figure, views = scatter(forecast)
    lists = {**words["tokens"], **words["ngrams"]}
    by_network = {", ".join(forecast.rows_of(k)): lists[k] for k in dict.fromkeys(forecast.same_as.values())}
    chi2 = {CHI2: words["tokens_by_chi2"]}
    return render(
        "corpus.html",
        title=f"Forecast of {name or 'a corpus'}",
        answer=answer(forecast),
        trust=trust(forecast),
        facts=f"{sizes_words(forecast)} {counted_words(forecast)}",
        fixes=[_fix(forecast, fix) for fix in forecast.fixes[:FIXES]],
        nothing_to_fix=nothing_to_fix_words(forecast),
        more_fixes=[_fix(forecast, fix) for fix in forecast.fixes[FIXES : FIXES + LISTED]],
        held_out=[cells for *cells, _ in held_out_rows(forecast)],
        curves=figure_html(learning_curves(forecast)) if forecast.curves else "",
        shortcuts=_shortcuts(forecast),
        listed=LISTED,
        lists={**chi2, **by_network} if len(forecast.classes) > 2 else {**by_network, **chi2},
        sign=sign_words(forecast),
        from_imbalance=words["from_imbalance"],
        contradictions=[
            {"title": title, "says": _CONTRADICTION_SAYS[kind], "rows": bigrams[kind]}
            for kind, title in CONTRADICTIONS.items()
        ],
        bias_says=f"{bias_words(forecast)} {sign_words(forecast)} The value where it would settle if tokens carried no "
        "information about the class is known for MLPs only.",
        **_bias(forecast, words),
        views=views,
        scatter=figure_html(figure, div_id="scatter", with_plotly=not forecast.curves),
        test_rows=missed_rows(forecast),
        learned_rows=[(name, scores.spearman, scores.pearson) for name, scores in learned.items()],
        learned_scatter=figure_html(trained_scatter(forecast), with_plotly=False) if learned else "",
        notes=forecast.notes,
        notes_say=f"The first {LISTED} of {notes:,}; every row is kept." if notes > LISTED else "Every row is kept.",
    )


def fragment(forecast: CorpusResult) -> str:
    """For a notebook: the answer, what to fix, how far to trust it, and the table."""
    fixes = [f"{k}. {fix_words(forecast, fix)}" for k, fix in enumerate(forecast.fixes[:FIXES], 1)]
    head = ("", "held-out accuracy", "95 % interval", "held-out loss")
    rows = (cells for *cells, _ in held_out_rows(forecast))
    return pages.fragment((answer(forecast), *fixes, f"Trust: {trust(forecast)}"), head, rows)


def excerpt(text: str, phrase: str = "") -> str:
    """One line of a text; the part with the phrase if it is long."""
    line = " ".join(text.split())
    if len(line) <= EXCERPT:
        return line
    at = line.casefold().find(phrase.split(" ")[0]) if phrase else 0
    start = max(0, min(at - EXCERPT // 2, len(line) - EXCERPT))
    return ("…" if start else "") + line[start : start + EXCERPT] + ("…" if start + EXCERPT < len(line) else "")


def _fix(forecast: CorpusResult, fix: Any) -> dict[str, Any]:
    phrase = fix.says.split('"')[1] if fix.kind == "shortcut" else ""
    texts = [
        (forecast.corpus.place(row), forecast.classes[forecast.corpus.labels[row]],
         excerpt(forecast.corpus.texts[row], phrase))
        for row in fix.rows
    ]  # fmt: skip
    return {"says": fix.says, "texts": texts}


def held_out_rows(forecast: CorpusResult) -> list[tuple[str, ...]]:
    """Name, accuracy, interval, loss and best time in words; signed χ² has no loss: it is no log-probability."""
    return [
        (
            str(row.Index), f"{row.accuracy:.3f}", f"{row.low:.3f} to {row.high:.3f}",
            "" if row.Index == "signed χ²" else f"{row.loss:.3f}", f"{row.setting:g}" if row.kind == "network" else "",
        )
        for row in forecast.table.itertuples()
    ]  # fmt: skip


def _shortcuts(forecast: CorpusResult) -> list[tuple[Any, ...]]:
    return [
        (
            s.phrase, PLACES[s.kind], forecast.classes[s.towards], len(s.rows), f"{100 * s.share:.0f} %",
            f"{100 * s.accuracy_cost:.2f} ± {100 * s.accuracy_error:.2f} %",
            f"{s.loss_cost:.4f} ± {s.loss_error:.4f}" + ("" if s.costs else " (not sure)"),
        )
        for s in forecast.shortcuts
    ]  # fmt: skip


def missed_rows(forecast: CorpusResult) -> list[tuple[Any, ...]]:
    """Test rows that some architecture gets wrong: place, label, text, who errs, and the row that drives it most (for
    the best of those that err)."""
    if forecast.answered is None or forecast.test is None:
        return []
    rows = []
    loss = {name: float(curve.chosen_loss.mean()) for name, curve in forecast.curves.items()}
    for record in forecast.test_rows():
        wrong = record["errors"]
        if wrong:
            best = min(wrong, key=lambda name: loss.get(name, 0.0))
            said = record["networks"][best]
            driver = said["drivers"][0]
            place = forecast.corpus.place(driver["row"])
            drives = f"{best} scores {said['score']:+.2f}, of which {place} adds {driver['adds']:+.2f}"
            text = excerpt(forecast.test.texts[record["row"]])
            rows.append((forecast.test.place(record["row"]), record["label"], text, ", ".join(wrong), drives))
    return sorted(rows, key=lambda row: -row[3].count(","))


def _bias(forecast: CorpusResult, words: Mapping[str, Any]) -> dict[str, Any]:
    heads = ("architecture", *(f"for {output}" for output in forecast.outputs))
    plateau = tuple(f"would settle at, for {output}" for output in forecast.outputs)
    unknown = dict.fromkeys(forecast.outputs, "")
    rows = [
        (architecture, *bias.values(), *words["bias_plateau"].get(architecture, unknown).values())
        for architecture, bias in words["bias"].items()
    ]
    return {"bias_head": (*heads, *plateau), "bias_rows": rows}
