"""foretrain forecast corpus: what a text classifier will key on, before training."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foretrain.cli.common import console, require_writable, say
from foretrain.errors import require

if TYPE_CHECKING:
    from foretrain.data.labelled_texts import LabelledTexts
    from foretrain.forecast.corpus import CorpusForecast
    from foretrain.forecast.corpus_training import Learned


def corpus(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="Labelled texts: csv, tsv or parquet, also .gz; or sst2, imdb, ag_news."),
    ],
    text: Annotated[str, typer.Option(help="Column of the texts.", metavar="COLUMN")] = "text",
    label: Annotated[str, typer.Option(help="Column of the labels.", metavar="COLUMN")] = "label",
    classes: Annotated[
        str, typer.Option(help="Labels allowed, in order; by default all that occur.", metavar="A,B,…")
    ] = "",
    window: Annotated[
        int | None, typer.Option(help="Window of the CNNs; 2 by default.", metavar="K", show_default=False)
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the corpora known by name.", metavar="DIR", show_default=False)
    ] = None,
    json_out: Annotated[
        Path | None, typer.Option("--json", help="Write the forecast as JSON.", metavar="FILE", show_default=False)
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write an HTML report.", metavar="FILE.html", show_default=False)
    ] = None,
    train: Annotated[bool, typer.Option("--train", help="Train small networks and compare their scores.")] = False,
    top: Annotated[int, typer.Option(help="How many tokens to print per class.", metavar="N")] = 10,
) -> None:
    """Which tokens and n-grams will a classifier key on, with which scores and bias, and what can it not learn?

    A column is a name of the header, or a number from 0 in a file without one.

    \b
    Examples:
      foretrain forecast corpus examples/reviews.csv --text text --label label
      foretrain forecast corpus reviews.csv --report forecast.html --train
      foretrain forecast corpus imdb --data corpora
    """
    from foretrain.forecast.corpus import forecast_corpus
    from foretrain.trajectory import write_text

    require(top >= 1, f"--top must be at least 1; got {top}.")
    for option, path in (("--json", json_out), ("--report", report)):
        if path is not None:
            require_writable(option, path)
    read = _read(file, text, label, [name.strip() for name in classes.split(",")] if classes else None, data)
    found = forecast_corpus(read, window=window)
    for note in found.notes[:5]:
        say(note)
    if len(found.notes) > 5:
        say(f"… and {len(found.notes) - 5} more such rows, all kept.")
    learned: dict[str, Learned] | None = None
    if train:
        from foretrain.forecast.corpus_training import learned_scores

        learned = learned_scores(read, found)
    _print(found, learned, top)
    if json_out is not None:
        from foretrain.forecast.corpus_page import summary

        write_text(json_out, json.dumps(summary(found, learned), indent=1, ensure_ascii=False) + "\n")
        say(f"Wrote {json_out}.")
    if report is not None:
        from foretrain.forecast.corpus_page import page

        write_text(report, page(found, Path(file).name, learned))
        say(f"Wrote {report}.")


def _read(file: str, text: str, label: str, classes: list[str] | None, data: Path | None) -> LabelledTexts:
    """A file, or a corpus known by its name where there is no such file."""
    from foretrain.data.corpora import LABELLED, labelled_corpus
    from foretrain.data.labelled_texts import read_labelled

    if file in LABELLED and not Path(file).exists():
        return labelled_corpus(file, data=data)
    require(data is None, f"--data is for corpora known by name ({', '.join(LABELLED)}); got the file {file}.")
    return read_labelled(file, text=_column(text), label=_column(label), classes=classes)


def _column(name: str) -> str | int:
    return int(name) if name.isdigit() else name


def _print(found: CorpusForecast, learned: dict[str, Learned] | None, top: int) -> None:
    from rich.table import Table

    out = console(results=True)
    train = learned is not None
    sizes = ", ".join(f"{name}: {n:,}" for name, n in zip(found.classes, found.class_counts, strict=True))
    out.print(f"Texts by class: {sizes}", markup=False)
    for name in found.scores:
        table = Table(title=f"{name} will key on (score in logits)", title_justify="left")
        for title in found.classes:
            table.add_column(f"for {_plain(title)}")
        for row in zip_longest(*found.top(name, top).values()):
            table.add_row(*(f"{_plain(cell[0])}  {cell[1]:.3g}" if cell else "" for cell in row))
        out.print(table)
    table = Table(title="Predicted bias: the score of what was never seen (logits)", title_justify="left")
    for title in (
        "architecture",
        "bias",
        "settles at, if tokens said nothing",
        *(["rank correlation with learned"] * train),
    ):
        table.add_column(title)
    for name, one in found.scores.items():
        settles = _by_output(found, found.plateau[name]) if name in found.plateau else ""
        rank = f"{learned[name].spearman:.3f}" if learned and name in learned else "not trained: too large"
        table.add_row(name, _by_output(found, one.bias), settles, *([rank] * train))
    out.print(table)
    imbalance = [token for token, flagged in zip(found.tokens, found.from_imbalance, strict=True) if flagged]
    _say_list(out, "Score from class imbalance, not from content", imbalance)
    _say_list(out, "Likely spurious", [f"{token} ({why})" for token, why in found.spurious.items()])
    bigrams = [f"{c['bigram']} ({c['class']} {c['log_odds']:+.2f}, its parts {c['log_odds_of_parts']:+.2f})"
               for c in found.contradictions]  # fmt: skip
    _say_list(out, "A network that adds up tokens cannot learn", bigrams)


def _say_list(out: object, title: str, items: list[str], most: int = 20) -> None:
    more = f" and {len(items) - most} more" if len(items) > most else ""
    out.print(f"{title}: {', '.join(items[:most]) or 'none'}{more}", markup=False)  # type: ignore[attr-defined]


def _by_output(found: CorpusForecast, values: Iterable[float]) -> str:
    return ", ".join(f"{_plain(title)} {value:+.3g}" for title, value in zip(found.outputs, values, strict=True))


def _plain(item: str) -> str:
    from rich.markup import escape

    return escape(item)
