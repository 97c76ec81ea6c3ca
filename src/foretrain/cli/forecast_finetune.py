"""foretrain forecast finetune: predict what fine-tuning will do to a model on labelled texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from foretrain.cli.common import console, say
from foretrain.cli.forecast_corpus import read_texts
from foretrain.cli.progress import progress_shown
from foretrain.core.errors import InputError, require, require_whole, visible
from foretrain.core.files import require_writable

if TYPE_CHECKING:
    from foretrain.forecast.finetuning.forecast import FinetuneForecast

Number = TypeVar("Number", int, float)


def finetune(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Folder or hub name of an encoder or decoder.")],
    file: Annotated[str, typer.Argument(metavar="DATA", help="Labelled texts: a file, or sst2, imdb, ag_news.")],
    text: Annotated[str | None, typer.Option(help="Column with the texts.", metavar="COLUMN")] = None,
    label: Annotated[str | None, typer.Option(help="Column with the labels.", metavar="COLUMN")] = None,
    classes: Annotated[
        str | None, typer.Option(help="Allowed labels, in order; by default, all.", metavar="A,B,…", show_default=False)
    ] = None,
    n: Annotated[
        int | None,
        typer.Option("--n", help="Rows to train on; by default 256, or 60 %.", metavar="N", show_default=False),
    ] = None,
    test: Annotated[int, typer.Option(help="Rows to test on, from the rest.", metavar="N")] = 200,
    optimizer: Annotated[str, typer.Option(help="adamw or sgd.")] = "adamw",
    rate: Annotated[float, typer.Option(help="Learning rate.", metavar="RATE")] = 2e-5,
    steps: Annotated[int, typer.Option(help="Fine-tuning steps.", metavar="N")] = 48,
    batch: Annotated[int, typer.Option(help="Rows in a batch.", metavar="N")] = 16,
    schedule: Annotated[str, typer.Option(help="constant, linear or cosine.")] = "constant",
    warm_up: Annotated[int, typer.Option(help="Warm-up steps.", metavar="N")] = 0,
    weight_decay: Annotated[float, typer.Option(help="Weight decay.", metavar="X")] = 0.0,
    momentum: Annotated[float, typer.Option(help="Momentum of sgd.", metavar="X")] = 0.0,
    length: Annotated[int, typer.Option(help="Cut texts after this many tokens.", metavar="N")] = 64,
    orders: Annotated[int, typer.Option(help="Batch orders to average over.", metavar="N")] = 3,
    seed: Annotated[int, typer.Option(help="Which rows are drawn, and in what order.", metavar="N")] = 1,
    also: Annotated[
        str | None,
        typer.Option(help="More rates to forecast, a second or so each.", metavar="RATE,…", show_default=False),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(help="More numbers of training rows; each takes a pass.", metavar="N,…", show_default=False),
    ] = None,
    drop: Annotated[
        str | None, typer.Option(help="What if these lines were left out?", metavar="LINE,…", show_default=False)
    ] = None,
    relabel: Annotated[
        str | None,
        typer.Option(help="What if these lines had other labels?", metavar="LINE=CLASS,…", show_default=False),
    ] = None,
    check: Annotated[
        int, typer.Option(help="Real steps to run before trusting the forecast; 4 are enough.", metavar="N")
    ] = 0,
    train: Annotated[bool, typer.Option("--train", help="Also run the real training, and compare.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder with sst2, imdb and ag_news.", metavar="DIR")] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML page.", metavar="FILE.html")] = None,
    rows: Annotated[
        Path | None, typer.Option(help="Write the forecast of every row.", metavar="FILE.csv", show_default=False)
    ] = None,
    json_out: Annotated[Path | None, typer.Option("--json", help="Write the numbers as JSON.", metavar="FILE")] = None,
    keep: Annotated[
        Path | None,
        typer.Option(help="Save the pass, for foretrain explore --kept FILE.", metavar="FILE.nc", show_default=False),
    ] = None,
) -> None:
    """What will fine-tuning do to this model on these texts: how accurate will it get, and when does it stop helping?

    It forecasts one recipe: the head starts at a linear probe, all weights are trained, dropout is off. A head that
    starts at random trains differently. The first setting costs about as much as training it, each further one (--also,
    --drop, --relabel) about a second. --train runs the same recipe and compares.

    \b
    Examples:
      foretrain forecast finetune MODEL reviews.csv --text review --label stars
      foretrain forecast finetune MODEL sst2 --data corpora --rate 5e-5 --train
      foretrain forecast finetune ./my-model tickets.csv --also 1e-5,5e-5
      foretrain forecast finetune ./my-model tickets.csv --drop 14,87
    """
    for option, path in (("--report", report), ("--json", json_out), ("--rows", rows), ("--keep", keep)):
        if path is not None:
            require_writable(option, path)
            same = Path(file).is_file() and path.exists() and path.samefile(file)
            require(not same, f"{option} {path} would overwrite the texts; choose another name.")
    written_to = [path.resolve() for path in (report, json_out, rows, keep) if path is not None]
    require(len(set(written_to)) == len(written_to), "--report, --json, --rows and --keep must be different files.")
    require(report is None or report.suffix == ".html", f"--report must end in .html; got {report}.")
    from foretrain.forecast.finetuning.dynamics import FinetuneSetting
    from foretrain.forecast.finetuning.forecast import accuracy_by_rows, forecast_with
    from foretrain.forecast.finetuning.kept import kept_pass, save_pass
    from foretrain.forecast.finetuning.prepared import prepare

    setting = FinetuneSetting(
        optimizer=optimizer,  # type: ignore[arg-type]
        rate=rate,
        steps=steps,
        batch=batch,
        schedule=schedule,  # type: ignore[arg-type]
        warm_up=warm_up,
        weight_decay=weight_decay,
        momentum=momentum,
        seed=seed,
    )
    rates, counts = _numbers("--also", also, float), _numbers("--sizes", sizes, int)
    require_whole("orders", orders, 1)
    texts = read_texts(file, {"text": text, "label": label, "classes": classes}, data)
    dropped = _numbers("--drop", drop, int)
    relabels = _relabels(relabel, texts.classes)
    both = sorted(set(dropped) & set(relabels))
    require(not both, f"Line {both[0] if both else ''} cannot be both dropped and relabelled.")
    with progress_shown("forecasting"):
        prepared = prepare(model, texts, rows=n, test=test, length=length, seed=seed)
        forecast = forecast_with(prepared, setting, orders=orders)
        whole = forecast
        if drop is not None:
            forecast = forecast.without([_row(forecast, line) for line in dropped])
        if relabel is not None:
            forecast = forecast.relabelled({_row(forecast, line): label for line, label in relabels.items()})
        forecast = forecast.checked(check) if check else forecast
        others = [forecast.with_setting(rate=each) for each in rates]
        given = {**setting.as_dict(), "test": test, "length": length, "orders": orders}
        given.pop("betas")
        by_rows = accuracy_by_rows(model, texts, counts, **given) if counts else None
        if train:
            forecast = forecast.train()
        kept = None if keep is None else kept_pass(prepared, setting)
    _print(forecast, whole)
    if others:
        _print_rates(others)
    if by_rows is not None:
        _print_sizes(by_rows.reset_index().values.tolist())
    for path, written in ((report, forecast.report), (rows, lambda to: _write_rows(forecast, to))):
        if path is not None:
            written(path)
            say(f"Wrote {path}.")
    if json_out is not None:
        from foretrain.core.files import write_text
        from foretrain.forecast.finetuning.words import numbers

        written_numbers = numbers(forecast)
        written_numbers["rates"] = [numbers(each) for each in others]
        written_numbers["sizes"] = [] if by_rows is None else by_rows.reset_index().to_dict("records")
        write_text(json_out, json.dumps(written_numbers, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
        say(f"Wrote {json_out}.")
    if keep is not None and kept is not None:
        save_pass(kept, keep)
        say(f"Wrote {keep} ({keep.stat().st_size / 1e6:.0f} MB).")


def _numbers(option: str, given: str | None, kind: type[Number]) -> list[Number]:
    try:
        return [kind(each) for each in given.split(",")] if given else []
    except ValueError as error:
        raise InputError(f"{option} takes numbers separated by commas; got {given!r}.") from error


def _row(forecast: FinetuneForecast, line: int) -> int:
    """The training row that is on a line of the file."""
    texts = forecast.prepared.texts
    lines = texts.lines[: forecast.prepared.train] if texts is not None else ()
    require(
        line in lines,
        f"Line {line} is not among the {len(lines)} rows drawn for training; --rows FILE.csv, without --drop and "
        "--relabel, writes which lines are.",
    )
    return lines.index(line)


def _relabels(given: str | None, classes: tuple[str, ...]) -> dict[int, int]:
    """Lines and the numbers of their new classes."""
    found = {}
    for each in given.split(",") if given else []:
        line, sign, name = each.partition("=")
        require(
            bool(sign) and line.strip().isdigit(), f"--relabel takes LINE=CLASS, separated by commas; got {each!r}."
        )
        require(name in classes, f"There is no class {name!r}; the classes are {', '.join(classes)}.")
        found[int(line)] = classes.index(name)
    return found


def _print(forecast: FinetuneForecast, whole: FinetuneForecast) -> None:
    from rich import box
    from rich.table import Table

    from foretrain.forecast.finetuning.words import score_words, setting_words, table_rows, trust_words

    out = console(results=True)
    out.print(visible(forecast.summary), highlight=False, markup=False)
    out.print()
    out.print(visible(trust_words(forecast)), highlight=False, markup=False)
    out.print()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("", "accuracy", "test loss"):
        table.add_column(column)
    named = table_rows(forecast.table)
    if whole.what_if != forecast.what_if:
        before = table_rows(whole.table)
        named.insert(2, ("forecast for all rows", *before[2][1:]))
        named[3] = ("forecast for this what-if", *named[3][1:])
    for row in named:
        table.add_row(*row)
    out.print(table)
    if score_words(forecast):
        out.print(visible(score_words(forecast)), highlight=False, markup=False)
        out.print()
    out.print(visible(setting_words(forecast)), highlight=False, markup=False)


def _print_rates(forecasts: list[FinetuneForecast]) -> None:
    from rich import box
    from rich.table import Table

    from foretrain.forecast.finetuning.words import table_rows

    table = Table("rate", "accuracy", "test loss", "trust", box=box.SIMPLE_HEAD, pad_edge=False)
    for each in forecasts:
        row = {name: rest for name, *rest in table_rows(each.table)}["forecast"]
        table.add_row(f"{each.setting.rate:g}", *row, "good" if each.trust.holds else "none")
    console(results=True).print(table)


def _print_sizes(rows: list[list[float]]) -> None:
    from rich import box
    from rich.table import Table

    table = Table("training rows", "linear probe", "forecast accuracy", box=box.SIMPLE_HEAD, pad_edge=False)
    for size, probe, accuracy, spread in rows:
        table.add_row(f"{size:,.0f}", f"{probe:.3f}", f"{accuracy:.3f} ± {spread:.3f}")
    console(results=True).print(table)


def _write_rows(forecast: FinetuneForecast, path: Path) -> None:
    from foretrain.core.files import write_text
    from foretrain.core.tables import csv_text

    write_text(path, csv_text(forecast.rows, index=True))
