"""foretrain forecast corpus: predict what a text classifier will rely on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foretrain.cli.common import console, say
from foretrain.cli.progress import progress_shown
from foretrain.core.errors import InputError, require, visible
from foretrain.core.files import require_writable

if TYPE_CHECKING:
    from rich.console import Console

    from foretrain.data.labelled_texts import LabelledTexts
    from foretrain.forecast.corpora.shown import CorpusForecast
    from foretrain.forecast.corpora.training import Learned

NOTES, LISTED, COLUMNS = 5, 10, 4  # most notes, items of a list and classes of a table to print
FIXES = 3  # things to fix on the first screen
MISSED = 5  # test rows to print
MOMENTS = 6  # times of the predicted learning curve to print


def corpus(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="Labelled texts: .csv, .tsv (also .gz) or .parquet; or sst2, imdb, ag_news."
        ),
    ],
    text: Annotated[
        str | None, typer.Option(help="Column with the texts; by default, text.", metavar="COLUMN", show_default=False)
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="Column with the labels; by default, label.", metavar="COLUMN", show_default=False),
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether the first line is a header.", show_default=False),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(help="Allowed labels, in order; by default, all.", metavar="A,B,…", show_default=False),
    ] = None,
    window: Annotated[
        int | None, typer.Option(help="Tokens in a CNN's window; by default, 2.", metavar="K", show_default=False)
    ] = None,
    least: Annotated[
        int | None,
        typer.Option(
            help="Score what occurs at least this often; by default, 5 times.", metavar="N", show_default=False
        ),
    ] = None,
    time: Annotated[
        float | None,
        typer.Option(
            help="How long to train; by default, until the held-out loss is lowest.", metavar="T", show_default=False
        ),
    ] = None,
    optimizer: Annotated[str, typer.Option(help="adaptive (Adagrad, Adam) or sgd.", metavar="NAME")] = "adaptive",
    test: Annotated[
        str | None,
        typer.Option(
            help="More labelled texts, to predict which are misclassified.", metavar="FILE", show_default=False
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder with sst2, imdb and ag_news.", metavar="DIR", show_default=False)
    ] = None,
    json_out: Annotated[
        Path | None,
        typer.Option("--json", help="Write the forecast as JSON to this file.", metavar="FILE", show_default=False),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write an HTML report to this file.", metavar="FILE.html", show_default=False)
    ] = None,
    train: Annotated[
        bool, typer.Option("--train", help="Also train small networks, and compare their scores.")
    ] = False,
    top: Annotated[int, typer.Option(help="How many tokens to show per class.", metavar="N")] = 4,
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
    from foretrain.core.files import write_text
    from foretrain.forecast.corpora.forecast import corpus as forecast_corpus

    require(top >= 1, f"--top must be at least 1; got {top}.")
    _require_outputs(json_out, report)
    _keep(file, json_out, report)
    texts = read_texts(file, {"text": text, "label": label, "header": header, "classes": classes}, data)
    _keep(texts.file, json_out, report)  # if `file` was a corpus's name, its file is known only now
    further = None
    if test is not None:
        further = _read_test(test, {"text": text, "label": label, "header": header}, texts.classes, data)
        _keep(further.file, json_out, report)
    learned: dict[str, Learned] | None = None
    with progress_shown("forecasting"):
        forecast = forecast_corpus(texts, window=window, least=least, time=time, optimizer=optimizer, test=further)
        if train:
            from foretrain.forecast.corpora.training import learned_scores

            learned = learned_scores(texts, forecast)
    _print(forecast, learned, top)
    for note in forecast.notes[:NOTES]:
        say(note)
    if len(forecast.notes) > NOTES:
        say(f"… and {len(forecast.notes) - NOTES} more notes (--json has all); every row is kept.")
    if json_out is not None:
        from foretrain.forecast.corpora.words import IN_JSON, summary

        write_text(
            json_out, json.dumps(summary(forecast, learned, max(top, IN_JSON)), indent=1, ensure_ascii=False) + "\n"
        )
        say(f"Wrote {json_out}.")
    if report is not None:
        from foretrain.forecast.corpora.page import ON_PAGE, page

        write_text(report, page(forecast, Path(file).name, learned, max(top, ON_PAGE)))
        say(f"Wrote {report}.")


def _keep(corpus: str, json_out: Path | None, report: Path | None) -> None:
    """Refuse to overwrite the corpus, even under another name."""
    for option, path in (("--json", json_out), ("--report", report)):
        if path is not None and path.exists() and Path(corpus).is_file():
            require(not path.samefile(corpus), f"{option} {path} would overwrite the corpus; choose another name.")


def _require_outputs(json_out: Path | None, report: Path | None) -> None:
    """Check the output files now, not after the work is done."""
    for option, path in (("--json", json_out), ("--report", report)):
        if path is not None:
            require_writable(option, path)
    if report is not None:
        require(
            report.suffix.lower() in (".html", ".htm"),
            f"--report writes HTML; got {report.name}; give a name that ends in .html.",
        )
        same = json_out is not None and json_out.resolve() == report.resolve()
        require(not same, f"--json and --report both write {report}; give two names.")


def read_texts(file: str, options: Mapping[str, str | bool | None], data: Path | None) -> LabelledTexts:
    """A corpus by its name, or else a file; ./imdb is always a file."""
    from foretrain.data.corpora import HUB_NAMES, LABELLED, labelled_corpus
    from foretrain.data.labelled_texts import read_labelled

    given = {option: value for option, value in options.items() if value is not None}
    if file in LABELLED or file in HUB_NAMES:
        option = next(iter(given), None)
        require(option is None, f"--{option} is for files; the columns and classes of {file} are known.")
        return labelled_corpus(file, data=data)
    require(not Path(file).is_dir(), f"{file} is a folder; give a file in it.")
    if not Path(file).is_file() and not Path(file).suffix:
        near = get_close_matches(file, LABELLED, 1)
        hint = f"did you mean {near[0]}?" if near else f"the built-in corpora are {', '.join(LABELLED)}."
        raise InputError(f"There is no file {file}; {hint}")
    require(data is None, f"--data is for the built-in corpora ({', '.join(LABELLED)}); got the file {file}.")
    if "classes" in given:
        given["classes"] = [name.strip() for name in str(given["classes"]).split(",")]  # type: ignore[assignment]
    return read_labelled(file, **given)  # type: ignore[arg-type]


def _read_test(
    file: str, options: Mapping[str, str | bool | None], classes: tuple[str, ...], data: Path | None
) -> LabelledTexts:
    """Test rows: a file with the columns of the corpus, or the test split of a corpus with a name."""
    from foretrain.data.corpora import LABELLED, labelled_corpus
    from foretrain.data.labelled_texts import read_labelled

    if file in LABELLED:
        return labelled_corpus(file, "test", data=data)
    given = {option: value for option, value in options.items() if value is not None}
    return read_labelled(file, classes=classes, **given)  # type: ignore[arg-type]


def _print(forecast: CorpusForecast, learned: dict[str, Learned] | None, top: int) -> None:
    """The answer, what to fix, how far to trust it and the baselines on the first screen; then the details."""
    from foretrain.forecast.corpora.words import fix_words, nothing_to_fix_words, trust

    out = console(results=True)

    def show(words: str = "") -> None:
        out.print(visible(words), markup=False)

    show(forecast.summary)
    show()
    if forecast.fixes:
        show("Fix these first:")
        for k, fix in enumerate(forecast.fixes[:FIXES], 1):
            show(f"  {k}. {fix_words(forecast, fix)}")
        if len(forecast.fixes) > FIXES:
            show(f"  and {len(forecast.fixes) - FIXES} more (--report, --json)")
    else:
        show(nothing_to_fix_words(forecast))
    show()
    show(f"Trust: {trust(forecast)}")
    show()
    _print_held_out(out, forecast)
    if forecast.answered is not None:
        _print_missed(out, forecast)
    _print_details(out, forecast, learned, top)


def _print_held_out(out: Console, forecast: CorpusForecast) -> None:
    from rich import box
    from rich.table import Table

    if not forecast.curves:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("held-out rows", overflow="fold")
    for column in ("accuracy", "95 % interval", "loss", "best time"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, row in forecast.table.iterrows():
        loss = "" if name == "signed χ²" else f"{row['loss']:.3f}"
        time = f"{row['setting']:g}" if row["kind"] == "network" else ""
        table.add_row(str(name), f"{row['accuracy']:.3f}", f"{row['low']:.3f} to {row['high']:.3f}", loss, time)
    out.print(table)
    longest = max((curve.settings for curve in forecast.curves.values()), key=len)
    moments = range(0, len(longest), max(1, -(-len(longest) // MOMENTS)))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("accuracy / loss at time", overflow="fold")
    for k in moments:
        table.add_column(f"{longest[k]:g}", justify="right", no_wrap=True)
    for name, curve in forecast.curves.items():
        right, loss = curve.right.mean(axis=1), curve.loss.mean(axis=1)
        cells = [f"{right[k]:.2f} / {loss[k]:.2f}" if k < len(loss) else "" for k in moments]
        table.add_row(", ".join(forecast.rows_of(name)), *cells)
    out.print(table)


def _print_missed(out: Console, forecast: CorpusForecast) -> None:
    """Errors on the test rows: how many by architecture, and the rows that most architectures miss."""
    from foretrain.forecast.corpora.page import missed_rows

    rows = forecast.test_rows()
    for name in forecast.answered or {}:
        wrong = sum(name in row["errors"] for row in rows)
        shown = ", ".join(forecast.rows_of(name))
        out.print(visible(f"Test rows missed by {shown}: {wrong:,} of {len(rows):,}"), markup=False)
    for place, label, text, _, driver in missed_rows(forecast)[:MISSED]:
        out.print(visible(f"  {place} ({label}): {text}"), markup=False)
        out.print(visible(f"    {driver}"), markup=False)
    out.print()


def _print_details(out: Console, forecast: CorpusForecast, learned: dict[str, Learned] | None, top: int) -> None:
    from rich.table import Table
    from rich.text import Text

    from foretrain.forecast.corpora.words import (
        CHI2,
        CONTRADICTIONS,
        bias_words,
        biased,
        counted_words,
        number,
        sign_words,
        sizes_words,
    )

    out.print(visible(f"{sizes_words(forecast)} {counted_words(forecast)}"), markup=False)
    shown = sorted(range(len(forecast.classes)), key=lambda k: -forecast.class_counts[k])[:COLUMNS]
    title = f"What each architecture will rely on (scores in logits). {sign_words(forecast)}"
    if len(shown) < len(forecast.classes):
        title += f" The {len(shown)} largest of {len(forecast.classes)} classes."
    table = Table("architecture", title=Text(visible(title)), title_justify="left")
    for k in sorted(shown):
        table.add_column(Text(visible(f"for {forecast.classes[k]}")), ratio=1)
    if len(forecast.outputs) == 1:
        table.add_column("bias", justify="right")
    if learned is not None:
        table.add_column("rank correlation with learned", justify="right")
    if len(forecast.outputs) > 1:  # there signed χ² was closer to trained MLPs than the forecast
        best = forecast.top_by_chi2(top)
        lists = [" · ".join(item for item, _ in best[forecast.classes[k]]) for k in sorted(shown)]
        table.add_row(CHI2, *(Text(visible(items)) for items in lists), *([""] * (learned is not None)))
    for name in dict.fromkeys(forecast.same_as.values()):
        best = forecast.top(name, top)
        lists = [
            " · ".join(f"{item} {number(score)}" for item, score in best[forecast.classes[k]]) for k in sorted(shown)
        ]
        bias = [number(float(forecast.scores[name].bias[0]), sign=True)] * (len(forecast.outputs) == 1)
        rank = [f"{learned[name].spearman:.3f}" if name in learned else "too large"] if learned is not None else []
        table.add_row(", ".join(forecast.rows_of(name)), *(Text(visible(items)) for items in lists), *bias, *rank)
    out.print(table)
    out.print(visible(bias_words(forecast)), markup=False)
    if len(forecast.outputs) > 1:
        for name in biased(forecast):
            each = " · ".join(
                f"{forecast.classes[k]} {number(forecast.scores[name].bias[k], sign=True)}" for k in sorted(shown)
            )
            out.print(visible(f"  {name}: {each}"), markup=False)
    imbalance = [token for token, flagged in zip(forecast.tokens, forecast.from_imbalance, strict=True) if flagged]
    _say_list(out, "Score due to class imbalance, not content", imbalance)
    quiet = [s.phrase for s in forecast.shortcuts if not s.costs]
    if quiet:
        _say_list(out, "Markers at a fixed place that cost nothing so far", quiet)
    for kind, title in CONTRADICTIONS.items():
        bigrams = [f"{c['bigram']} ({c['class']} {c['log_odds']:+.2f}, its parts {c['log_odds_of_parts']:+.2f})"
                   for c in forecast.contradictions if c["kind"] == kind]  # fmt: skip
        _say_list(out, f"{title} (log-odds)", bigrams)
    out.print("For more: --top N (per class), --json FILE (complete lists), --report FILE.html (up to 50 of each).")


def _say_list(out: Console, title: str, items: list[str]) -> None:
    more = f" and {len(items) - LISTED} more" if len(items) > LISTED else ""
    out.print(visible(f"{title}: {' · '.join(items[:LISTED]) or 'none'}{more}"), markup=False)
