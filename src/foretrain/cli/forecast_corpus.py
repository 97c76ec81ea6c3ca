"""foretrain forecast corpus: predict what a text classifier will rely on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box

from foretrain.cli.common import Classes, Data, option, say
from foretrain.cli.files import require_outputs, write_json
from foretrain.cli.progress import progress_shown
from foretrain.cli.terminal import PlainConsole, console, table
from foretrain.core.errors import require
from foretrain.forecast.corpora.forecast import CorpusForecast
from foretrain.forecast.corpora.forecast import corpus as forecast_corpus
from foretrain.forecast.corpora.page import ON_PAGE, held_out_rows, missed_rows
from foretrain.forecast.corpora.words import (
    CHI2,
    CONTRADICTIONS,
    IN_JSON,
    bias_words,
    biased,
    counted_words,
    fix_words,
    nothing_to_fix_words,
    number,
    sign_words,
    sizes_words,
    trust,
)
from foretrain.forecast.sources import further_texts, texts_of

NOTES, LISTED, COLUMNS = 5, 10, 4  # most notes, items of a list and classes of a table to print
FIXES = 3  # things to fix on the first screen
MISSED = 5  # test rows to print
MOMENTS = 6  # times of the predicted learning curve to print

FILE_HELP = "Labelled texts: .csv, .tsv (also .gz) or .parquet; or sst2, imdb, ag_news."
HEADER = ("--header/--no-header",)


def corpus(
    file: Annotated[str, typer.Argument(metavar="FILE", help=FILE_HELP)],
    text: Annotated[str | None, option("Column with the texts; by default, text.", "COLUMN")] = None,
    label: Annotated[str | None, option("Column with the labels; by default, label.", "COLUMN")] = None,
    header: Annotated[bool | None, option("Whether the first line is a header.", None, *HEADER)] = None,
    classes: Classes = None,
    window: Annotated[int | None, option("Tokens in a CNN's window; by default, 2.", "K")] = None,
    least: Annotated[int | None, option("Score what occurs at least this often; by default, 5 times.", "N")] = None,
    time: Annotated[
        float | None, option("How long to train; by default, until the held-out loss is lowest.", "T")
    ] = None,
    optimizer: Annotated[str, option("adaptive (Adagrad, Adam) or sgd.", "NAME")] = "adaptive",
    test: Annotated[str | None, option("More labelled texts, to predict which are misclassified.", "FILE")] = None,
    data: Data = None,
    json_out: Annotated[Path | None, option("Write the forecast as JSON to this file.", "FILE", "--json")] = None,
    report: Annotated[Path | None, option("Write an HTML report to this file.", "FILE.html")] = None,
    train: Annotated[bool, option("Also train small networks, and compare their scores.", None, "--train")] = False,
    top: Annotated[int, option("How many tokens to show per class.", "N")] = 4,
) -> None:
    """How well will a classifier learn these texts, which shortcuts will it take, and what should you fix first?

    Give columns by their names in the header, or by their numbers from 0. If both are numbers, the file is taken to
    have no header.

    \b
    Examples:
      foretrain forecast corpus examples/reviews.csv --text text --label label
      foretrain forecast corpus reviews.csv --report forecast.html --train
      foretrain forecast corpus reviews.csv --test new_reviews.csv
      foretrain forecast corpus reviews.tsv --text 0 --label 1
      foretrain forecast corpus imdb --data corpora
    """
    require(top >= 1, f"--top must be at least 1; got {top}.")
    files = {"--json": json_out, "--report": report}
    require_outputs(files, texts=file)
    columns: dict[str, Any] = {"text": text, "label": label, "header": header}
    listed = [name.strip() for name in classes.split(",")] if classes is not None else None
    texts = texts_of(file, **columns, classes=listed, folder=data)
    further = None if test is None else further_texts(test, texts, **columns, folder=data)
    for read in (texts, further):
        if read is not None:
            require_outputs(files, texts=read.file)  # the file of a corpus with a name is known only now
    with progress_shown("forecasting"):
        forecast = forecast_corpus(texts, window=window, least=least, time=time, optimizer=optimizer, test=further)
        forecast = forecast.train() if train else forecast
    _print(forecast, top)
    for note in forecast.notes[:NOTES]:
        say(note)
    if len(forecast.notes) > NOTES:
        say(f"… and {len(forecast.notes) - NOTES} more notes (--json has all); every row is kept.")
    if json_out is not None:
        write_json(json_out, forecast.numbers(max(top, IN_JSON)))
    if report is not None:
        forecast.report(report, name=Path(file).name, top=max(top, ON_PAGE))
        say(f"Wrote {report}.")


def _print(forecast: CorpusForecast, top: int) -> None:
    """The answer, what to fix, how far to trust it and the baselines on the first screen; then the details."""
    out = console(results=True)
    out.lines(forecast.summary, "")
    if forecast.fixes:
        out.lines("Fix these first:")
        out.lines(*(f"  {k}. {fix_words(forecast, fix)}" for k, fix in enumerate(forecast.fixes[:FIXES], 1)))
        if len(forecast.fixes) > FIXES:
            out.lines(f"  and {len(forecast.fixes) - FIXES} more (--report, --json)")
    else:
        out.lines(nothing_to_fix_words(forecast))
    out.lines("", f"Trust: {trust(forecast)}", "")
    if forecast.curves:
        _print_held_out(out, forecast)
    if forecast.answered is not None:
        _print_missed(out, forecast)
    _print_details(out, forecast, top)


def _print_held_out(out: PlainConsole, forecast: CorpusForecast) -> None:
    head = ("held-out rows", "accuracy", "95 % interval", "loss", "best time")
    out.print(table(head, held_out_rows(forecast)))
    longest = max((curve.settings for curve in forecast.curves.values()), key=len)
    moments = range(0, len(longest), max(1, -(-len(longest) // MOMENTS)))
    rows = []
    for name, curve in forecast.curves.items():
        right, loss = curve.right.mean(axis=1), curve.loss.mean(axis=1)
        cells = (f"{right[k]:.2f} / {loss[k]:.2f}" if k < len(loss) else "" for k in moments)
        rows.append((", ".join(forecast.rows_of(name)), *cells))
    out.print(table(("accuracy / loss at time", *(f"{longest[k]:g}" for k in moments)), rows))


def _print_missed(out: PlainConsole, forecast: CorpusForecast) -> None:
    """Errors on the test rows: how many by architecture, and the rows that most architectures miss."""
    rows = forecast.test_rows()
    for name in forecast.answered or {}:
        wrong = sum(name in row["errors"] for row in rows)
        out.lines(f"Test rows missed by {', '.join(forecast.rows_of(name))}: {wrong:,} of {len(rows):,}")
    for place, label, text, _, driver in missed_rows(forecast)[:MISSED]:
        out.lines(f"  {place} ({label}): {text}", f"    {driver}")
    out.lines("")


def _print_details(out: PlainConsole, forecast: CorpusForecast, top: int) -> None:
    out.lines(f"{sizes_words(forecast)} {counted_words(forecast)}")
    classes = forecast.classes
    shown = sorted(sorted(range(len(classes)), key=lambda k: -forecast.class_counts[k])[:COLUMNS])
    one_output = len(forecast.outputs) == 1
    title = f"What each architecture will rely on (scores in logits). {sign_words(forecast)}"
    if len(shown) < len(classes):
        title += f" The {len(shown)} largest of {len(classes)} classes."
    learned = forecast.learned
    head = ["architecture", *(f"for {classes[k]}" for k in shown)]
    head += ["bias"] * one_output + ["rank correlation with learned"] * (learned is not None)
    rows = []
    if not one_output:  # there signed χ² was closer to trained MLPs than the forecast
        best = forecast.top_by_chi2(top)
        rows.append([CHI2, *(" · ".join(item for item, _ in best[classes[k]]) for k in shown)])
    for name in dict.fromkeys(forecast.same_as.values()):
        best, bias = forecast.top(name, top), forecast.scores[name].bias
        lists = (" · ".join(f"{item} {number(score)}" for item, score in best[classes[k]]) for k in shown)
        row = [", ".join(forecast.rows_of(name)), *lists, *[number(float(bias[0]), sign=True)] * one_output]
        if learned is not None:
            row.append(f"{learned[name].spearman:.3f}" if name in learned else "too large")
        rows.append(row)
    out.print(table(head, rows, title=title, frame=box.HEAVY_HEAD, justify="left"))
    out.lines(bias_words(forecast))
    for name in () if one_output else biased(forecast):
        bias = forecast.scores[name].bias
        out.lines(f"  {name}: {' · '.join(f'{classes[k]} {number(bias[k], sign=True)}' for k in shown)}")
    imbalance = [token for token, flagged in zip(forecast.tokens, forecast.from_imbalance, strict=True) if flagged]
    _print_list(out, "Score due to class imbalance, not content", imbalance)
    if quiet := [s.phrase for s in forecast.shortcuts if not s.costs]:
        _print_list(out, "Markers at a fixed place that cost nothing so far", quiet)
    for kind, title in CONTRADICTIONS.items():
        bigrams = [f"{c['bigram']} ({c['class']} {c['log_odds']:+.2f}, its parts {c['log_odds_of_parts']:+.2f})"
                   for c in forecast.contradictions if c["kind"] == kind]  # fmt: skip
        _print_list(out, f"{title} (log-odds)", bigrams)
    out.lines("For more: --top N (per class), --json FILE (complete lists), --report FILE.html (up to 50 of each).")


def _print_list(out: PlainConsole, title: str, items: list[str]) -> None:
    more = f" and {len(items) - LISTED} more" if len(items) > LISTED else ""
    out.lines(f"{title}: {' · '.join(items[:LISTED]) or 'none'}{more}")
