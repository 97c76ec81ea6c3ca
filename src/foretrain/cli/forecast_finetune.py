"""foretrain forecast finetune: predict what fine-tuning will do to a model on labelled texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from foretrain.cli.common import Classes, Data, numbers_of, option, say
from foretrain.cli.files import require_outputs, write_json
from foretrain.cli.progress import progress_shown
from foretrain.cli.terminal import console, table
from foretrain.core.errors import require
from foretrain.forecast.finetuning.forecast import FinetuneForecast, accuracy_by_rows
from foretrain.forecast.finetuning.forecast import finetune as forecast_finetune
from foretrain.forecast.finetuning.words import score_words, setting_words, table_rows, trust_words
from foretrain.forecast.sources import texts_of

MODEL_HELP = "Folder or hub name of an encoder or decoder."
TEXTS_HELP = "Labelled texts: a file, or sst2, imdb, ag_news."


def finetune(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    file: Annotated[str, typer.Argument(metavar="DATA", help=TEXTS_HELP)],
    text: Annotated[str | None, option("Column with the texts.", "COLUMN")] = None,
    label: Annotated[str | None, option("Column with the labels.", "COLUMN")] = None,
    classes: Classes = None,
    n: Annotated[int | None, option("Rows to train on; by default 256, or 60 %.", "N", "--n")] = None,
    test: Annotated[int, option("Rows to test on, from the rest.", "N")] = 200,
    optimizer: Annotated[str, option("adamw or sgd.")] = "adamw",
    rate: Annotated[float, option("Learning rate.", "RATE")] = 2e-5,
    steps: Annotated[int, option("Fine-tuning steps.", "N")] = 48,
    batch: Annotated[int, option("Rows in a batch.", "N")] = 16,
    schedule: Annotated[str, option("constant, linear or cosine.")] = "constant",
    warm_up: Annotated[int, option("Warm-up steps.", "N")] = 0,
    weight_decay: Annotated[float, option("Weight decay.", "X")] = 0.0,
    momentum: Annotated[float, option("Momentum of sgd.", "X")] = 0.0,
    length: Annotated[int, option("Cut texts after this many tokens.", "N")] = 64,
    orders: Annotated[int, option("Batch orders to average over.", "N")] = 3,
    seed: Annotated[int, option("Which rows are drawn, and in what order.", "N")] = 1,
    also: Annotated[str | None, option("More rates to forecast, a second or so each.", "RATE,…")] = None,
    sizes: Annotated[str | None, option("More numbers of training rows; each takes a pass.", "N,…")] = None,
    drop: Annotated[str | None, option("What if these lines were left out?", "LINE,…")] = None,
    relabel: Annotated[str | None, option("What if these lines had other labels?", "LINE=CLASS,…")] = None,
    check: Annotated[int, option("Real steps to run before trusting the forecast; 4 are enough.", "N")] = 0,
    train: Annotated[bool, option("Also run the real training, and compare.", None, "--train")] = False,
    data: Data = None,
    report: Annotated[Path | None, option("Write an HTML page.", "FILE.html")] = None,
    rows: Annotated[Path | None, option("Write the forecast of every row.", "FILE.csv")] = None,
    json_out: Annotated[Path | None, option("Write the numbers as JSON.", "FILE", "--json")] = None,
    keep: Annotated[Path | None, option("Save the pass, for foretrain explore --kept FILE.", "FILE.nc")] = None,
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
    files = {"--report": report, "--json": json_out, "--rows": rows, "--keep": keep}
    require_outputs(files, texts=file)
    rates, counts = numbers_of("--also", also, float), numbers_of("--sizes", sizes, int)
    listed = classes.split(",") if classes else None
    texts = texts_of(file, text=text, label=label, classes=listed, folder=data)
    dropped, relabels = numbers_of("--drop", drop, int), _relabels(relabel, texts.classes)
    both = sorted(set(dropped) & set(relabels))
    require(not both, f"Line {both[0] if both else ''} cannot be both dropped and relabelled.")
    setting: dict[str, Any] = {
        "test": test, "length": length, "orders": orders, "seed": seed, "optimizer": optimizer, "rate": rate,
        "steps": steps, "batch": batch, "schedule": schedule, "warm_up": warm_up, "weight_decay": weight_decay,
        "momentum": momentum,
    }  # fmt: skip
    with progress_shown("forecasting"):
        whole = forecast = forecast_finetune(model, texts, n=n, **setting)
        if drop is not None:
            forecast = forecast.without(forecast.rows_on(dropped))
        if relabel is not None:
            forecast = forecast.relabelled(dict(zip(forecast.rows_on(relabels), relabels.values(), strict=True)))
        forecast = forecast.checked(check) if check else forecast
        others = [forecast.with_setting(rate=each) for each in rates]
        by_rows = accuracy_by_rows(model, texts, counts, **setting).reset_index() if counts else None
        if train:
            forecast = forecast.train()
        if keep is not None:
            whole.keep(keep)
    _print(forecast, whole, others)
    if by_rows is not None:
        sized = [(f"{n:,.0f}", f"{probe:.3f}", f"{a:.3f} ± {spread:.3f}") for n, probe, a, spread in by_rows.values]
        console(results=True).print(table(("training rows", "linear probe", "forecast accuracy"), sized))
    for path, write in ((report, forecast.report), (rows, forecast.write_rows)):
        if path is not None:
            write(path)
            say(f"Wrote {path}.")
    if json_out is not None:
        by_size = [] if by_rows is None else by_rows.to_dict("records")
        write_json(json_out, {**forecast.numbers(), "rates": [each.numbers() for each in others], "sizes": by_size})
    if keep is not None:
        say(f"Wrote {keep} ({keep.stat().st_size / 1e6:.0f} MB).")


def _relabels(given: str | None, classes: tuple[str, ...]) -> dict[int, int]:
    """Lines and the numbers of their new classes."""
    relabels = {}
    for each in given.split(",") if given else []:
        line, sign, name = each.partition("=")
        is_pair = bool(sign) and line.strip().isdigit()
        require(is_pair, f"--relabel takes LINE=CLASS, separated by commas; got {each!r}.")
        require(name in classes, f"There is no class {name!r}; the classes are {', '.join(classes)}.")
        relabels[int(line)] = classes.index(name)
    return relabels


def _print(forecast: FinetuneForecast, whole: FinetuneForecast, others: list[FinetuneForecast]) -> None:
    out = console(results=True)
    out.lines(forecast.summary, "", trust_words(forecast), "")
    rows = table_rows(forecast.table)
    if whole.what_if != forecast.what_if:
        rows.insert(2, ("forecast for all rows", *table_rows(whole.table)[2][1:]))
        rows[3] = ("forecast for this what-if", *rows[3][1:])
    out.print(table(("", "accuracy", "test loss"), rows, justify="left"))
    out.lines(*[score_words(forecast), ""] * ("real_logits" in forecast.dataset), setting_words(forecast))
    if others:
        rates = [
            (f"{each.setting.rate:g}", *table_rows(each.table)[2][1:], "good" if each.trust.holds else "none")
            for each in others
        ]
        out.print(table(("rate", "accuracy", "test loss", "trust"), rates, justify="left"))
