"""foretrain forecast templates: predict whether an architecture will learn a template task, and from how much."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foretrain.cli.common import option, say
from foretrain.cli.files import require_outputs, write_json
from foretrain.cli.progress import progress_shown
from foretrain.cli.terminal import console, table
from foretrain.core.errors import require_known
from foretrain.core.trajectory import config_of
from foretrain.data.template_files import read_task
from foretrain.forecast.templating.forecast import ForecastSetting, TemplateForecast
from foretrain.forecast.templating.forecast import templates as forecast_templates
from foretrain.forecast.templating.training import require_trainable
from foretrain.kernels.activations import ACTIVATIONS
from foretrain.show.pages import write_figure

MOST_TEMPLATES = 12  # most templates to print; the JSON has all
TASK_HELP = "The task file; see examples/*.toml for each kind."
TRAIN_HELP = "Also train small networks on up to 1024 samples, and compare."


def templates(
    task: Annotated[Path, typer.Argument(metavar="TASK.toml", help=TASK_HELP)],
    report: Annotated[Path | None, option("Write an HTML page.", "FILE.html")] = None,
    train: Annotated[bool, option(TRAIN_HELP, None, "--train")] = False,
    json_out: Annotated[Path | None, option("Write the forecast as JSON to this file.", "FILE", "--json")] = None,
    figure: Annotated[Path | None, option("Draw the forecast to a .html, .png or .svg file.", "FILE")] = None,
    error: Annotated[float, option("Squared error to reach, as a share of the error of a constant guess.")] = 0.1,
    beta: Annotated[float, option("Inverse temperature of the plain transformer's attention.")] = 1.0,
    gamma: Annotated[float, option("Size of positions relative to tokens.")] = 1.0,
    activation: Annotated[str, option("Activation of the MLP layer: cosine, relu or gelu.")] = "cosine",
    simulate: Annotated[int, option("Also run kernel regression with up to N samples.", "N")] = 0,
) -> None:
    """Will a transformer or an MLP learn these templates on unseen symbols, and from how many samples?

    \b
    Examples:
      foretrain forecast templates examples/same_different.toml
      foretrain forecast templates task.toml --error .01 --report forecast.html
      foretrain forecast templates task.toml --train
    """
    require_known("activation", activation, ACTIVATIONS)
    require_outputs({"--json": json_out, "--figure": figure, "--report": report})
    if train:
        require_trainable(read_task(task).task)
    setting = ForecastSetting(beta=beta, gamma=gamma, activation=activation)
    with progress_shown("forecasting"):
        forecast = forecast_templates(task, setting, error=error, simulate=simulate)
    if train:
        with progress_shown("training"):
            forecast = forecast.train()
    _print(forecast)
    if json_out is not None:
        write_json(json_out, forecast.numbers())
    if report is not None:
        forecast.report(report)
        say(f"Wrote {report}.")
    if figure is not None:
        write_figure(figure, forecast.figure(), str(config_of(forecast.dataset)["task"]))
        say(f"Wrote {figure}.")


def _print(forecast: TemplateForecast) -> None:
    data, out = forecast.dataset, console(results=True)
    config, names = config_of(data), data.architecture.values.tolist()
    out.lines(forecast.summary, *["", forecast.score] * bool(forecast.score), "", f"Trust: {forecast.trust}", "")
    out.print(table(forecast.columns, forecast.rows(), justify="left"))
    out.lines(
        f"Samples needed for an error of {config['error']:g} of a constant guess's. The guess by size alone is "
        f"{forecast.baseline}, times the samples per symbol that trained networks needed.",
        "",
    )
    listed = list(zip(config["templates"], config["labels"], strict=True))
    out.lines(f"Why ({config['kind']}, {len(listed)} template{'s' * (len(listed) != 1)}):")
    out.lines(*(f"  {name}: {data.why.sel(architecture=name).item()}." for name in names))
    out.lines(*(f"  {k}  {template}  →  {label}" for k, (template, label) in enumerate(listed[:MOST_TEMPLATES], 1)))
    if len(listed) > MOST_TEMPLATES:
        out.lines(f"  … and {len(listed) - MOST_TEMPLATES} more")
    out.lines("", "Predicted error on unseen symbols: median (5 % to 95 %) over random training samples.")
    out.print(table(("samples", *names), forecast.curve_rows(), justify="left"))
    out.lines(*config["notes"])
