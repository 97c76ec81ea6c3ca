"""foretrain forecast finetune: predict what fine-tuning will do to a model on labelled texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foretrain.cli.common import console, require_writable, say
from foretrain.cli.forecast_corpus import read_texts
from foretrain.cli.progress import progress_shown

if TYPE_CHECKING:
    from foretrain.forecast.finetuning.forecast import FinetuneForecast


def finetune(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Folder or hub name of an encoder or decoder.")],
    file: Annotated[str, typer.Argument(metavar="DATA", help="Labelled texts: a file, or sst2, imdb, ag_news.")],
    text: Annotated[str | None, typer.Option(help="Column with the texts.", metavar="COLUMN")] = None,
    label: Annotated[str | None, typer.Option(help="Column with the labels.", metavar="COLUMN")] = None,
    n: Annotated[int, typer.Option("--n", help="Rows to train on.", metavar="N")] = 256,
    test: Annotated[int, typer.Option(help="Rows to test on, from the rest.", metavar="N")] = 200,
    optimizer: Annotated[str, typer.Option(help="adamw or sgd.")] = "adamw",
    rate: Annotated[float, typer.Option(help="Learning rate.", metavar="RATE")] = 2e-5,
    steps: Annotated[int, typer.Option(help="Steps of fine-tuning.", metavar="N")] = 48,
    batch: Annotated[int, typer.Option(help="Rows in a batch.", metavar="N")] = 16,
    schedule: Annotated[str, typer.Option(help="constant, linear or cosine.")] = "constant",
    warm_up: Annotated[int, typer.Option(help="Steps of warm-up.", metavar="N")] = 0,
    weight_decay: Annotated[float, typer.Option(help="Weight decay.", metavar="X")] = 0.0,
    length: Annotated[int, typer.Option(help="Tokens after which texts are cut.", metavar="N")] = 64,
    orders: Annotated[int, typer.Option(help="Orders of the batches to average over.", metavar="N")] = 3,
    train: Annotated[bool, typer.Option("--train", help="Also run the real training, and compare.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder with the corpora that have names.", metavar="DIR")] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML page.", metavar="FILE.html")] = None,
    json_out: Annotated[Path | None, typer.Option("--json", help="Write the numbers as JSON.", metavar="FILE")] = None,
) -> None:
    """What will fine-tuning do to this model on these texts: how accurate will it get, and when does it stop helping?

    One pass over the rows, then about a second for each setting. The forecast assumes that the head starts at a linear
    probe, that all weights are trained, and that dropout is off; --train does exactly that.

    \b
    Examples:
      foretrain forecast finetune MODEL reviews.csv --text review --label stars
      foretrain forecast finetune MODEL sst2 --data corpora --rate 5e-5 --train
      foretrain forecast finetune ./my-model tickets.csv --report forecast.html
    """
    for option, path in (("--report", report), ("--json", json_out)):
        if path is not None:
            require_writable(option, path)
    from foretrain.forecast.finetuning.dynamics import FinetuneSetting
    from foretrain.forecast.finetuning.forecast import forecast_with
    from foretrain.forecast.finetuning.prepared import prepare

    setting = FinetuneSetting(
        optimizer=optimizer,  # type: ignore[arg-type]
        rate=rate,
        steps=steps,
        batch=batch,
        schedule=schedule,  # type: ignore[arg-type]
        warm_up=warm_up,
        weight_decay=weight_decay,
    )
    texts = read_texts(file, {"text": text, "label": label}, data)
    with progress_shown("forecasting"):
        forecast = forecast_with(prepare(model, texts, rows=n, test=test, length=length), setting, orders=orders)
        if train:
            forecast = forecast.train()
    _print(forecast)
    if report is not None:
        forecast.report(report)
        say(f"Wrote {report}.")
    if json_out is not None:
        from foretrain.core.files import write_text

        write_text(json_out, json.dumps(numbers(forecast), indent=1, ensure_ascii=False) + "\n")
        say(f"Wrote {json_out}.")


def _print(forecast: FinetuneForecast) -> None:
    from rich import box
    from rich.table import Table

    out = console(results=True)
    out.print(forecast.summary, highlight=False)
    verdict = "good" if forecast.trust.holds else "none"
    out.print(f"\nTrust: {verdict}: {forecast.trust.reason} Not covered: dropout.\n")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("", "accuracy", "test loss"):
        table.add_column(column)
    for row in forecast.rows():
        table.add_row(*row)
    out.print(table)


def numbers(forecast: FinetuneForecast) -> dict[str, object]:
    """The forecast as plain numbers."""
    data = forecast.dataset
    return {
        "summary": forecast.summary,
        "trust": {"holds": forecast.trust.holds, "first_step": forecast.trust.first_step},
        "setting": forecast.setting.as_dict(),
        "step": data["step"].values.tolist(),
        "curves": {
            f"{name} {part}": data[name].sel(part=part).mean("order").values.tolist()
            for name in ("accuracy", "loss", "real_accuracy", "real_loss")
            if name in data
            for part in data["part"].values.tolist()
        },
    }
