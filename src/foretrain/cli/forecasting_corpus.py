"""foretrain forecast corpus: what a text classifier will key on, before training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foretrain.cli.common import console, require_writable, say
from foretrain.errors import require

if TYPE_CHECKING:
    from foretrain.forecast.corpus import CorpusForecast


def corpus(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Labelled texts: csv, tsv or parquet, also .gz.")],
    text: Annotated[str, typer.Option(help="Column of the texts.", metavar="COLUMN")] = "text",
    label: Annotated[str, typer.Option(help="Column of the labels.", metavar="COLUMN")] = "label",
    json_out: Annotated[
        Path | None, typer.Option("--json", help="Write the forecast as JSON.", metavar="FILE", show_default=False)
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write an HTML report.", metavar="FILE.html", show_default=False)
    ] = None,
    train: Annotated[bool, typer.Option("--train", help="Train small networks and compare their scores.")] = False,
    top: Annotated[int, typer.Option(help="How many tokens to print per class.", metavar="N")] = 10,
) -> None:
    """Which tokens and bigrams will a classifier key on, with which scores and bias, and what can it not learn?

    A column is a name of the header, or a number from 0 in a file without one.

    \b
    Examples:
      foretrain forecast corpus examples/reviews.csv --text text --label label
      foretrain forecast corpus reviews.csv --report forecast.html --train
    """
    from foretrain.data.labelled_texts import read_labelled
    from foretrain.forecast.corpus import forecast_corpus
    from foretrain.forecast.corpus_page import page, summary
    from foretrain.forecast.corpus_training import learned_against_predicted
    from foretrain.trajectory import write_text

    require(top >= 1, f"--top must be at least 1; got {top}.")
    for option, path in (("--json", json_out), ("--report", report)):
        if path is not None:
            require_writable(option, path)
    read = read_labelled(file, text=_column(text), label=_column(label))
    for note in read.notes[:5]:
        say(note)
    found = forecast_corpus(read)
    learned = learned_against_predicted(read, found) if train else None
    _print(found, learned, top)
    if json_out is not None:
        write_text(json_out, json.dumps(summary(found, learned), indent=1, ensure_ascii=False) + "\n")
        say(f"Wrote {json_out}.")
    if report is not None:
        write_text(report, page(found, file.name, learned))
        say(f"Wrote {report}.")


def _column(name: str) -> str | int:
    return int(name) if name.isdigit() else name


def _print(found: CorpusForecast, learned: dict[str, dict[str, float]] | None, top: int) -> None:
    from rich.table import Table

    out = console(results=True)
    sizes = ", ".join(f"{name}: {n:,}" for name, n in zip(found.classes, found.class_counts, strict=True))
    out.print(f"Texts by class: {sizes}", markup=False)
    lists = {name: found.top(scores, found.tokens, top) for name, scores in found.scores.items()}
    if found.bigrams:
        lists["matrix-vector"] = found.top(found.bigram_scores, found.bigrams, top)
    for name, by_class in lists.items():
        table = Table(title=f"{name} will key on (score in logits)", title_justify="left")
        for title in found.classes:
            table.add_column(f"for {title}")
        for row in zip(*by_class.values(), strict=True):
            table.add_row(*(f"{_plain(item)}  {score:.3g}" for item, score in row))
        out.print(table)
    for name, bias in found.bias.items():
        told = ", ".join(f"{title} {value:+.3g}" for title, value in zip(found.outputs, bias, strict=True))
        match = f"; learned scores have rank correlation {learned[name]['spearman']:.3f} with these" if learned else ""
        out.print(f"{name}: predicted bias (score of a token never seen) for {told}{match}", markup=False)
    imbalance = [token for token, flagged in zip(found.tokens, found.from_imbalance, strict=True) if flagged]
    _say_list(out, "Score from class imbalance, not from content", imbalance)
    _say_list(out, "Likely spurious", [f"{token} ({why})" for token, why in found.spurious.items()])
    bigrams = [f"{c['bigram']} ({c['class']} {c['log_odds']:+.2f}, its parts {c['log_odds_of_parts']:+.2f})"
               for c in found.contradictions]  # fmt: skip
    _say_list(out, "A network that adds up tokens cannot learn", bigrams)


def _say_list(out: object, title: str, items: list[str], most: int = 20) -> None:
    more = f" and {len(items) - most} more" if len(items) > most else ""
    out.print(f"{title}: {', '.join(items[:most]) or 'none'}{more}", markup=False)  # type: ignore[attr-defined]


def _plain(item: str) -> str:
    from rich.markup import escape

    return escape(item)
