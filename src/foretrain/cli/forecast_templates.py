"""foretrain forecast templates: predict whether an architecture will learn a template task, and from how much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foretrain.cli.common import console, require_writable, say
from foretrain.core.errors import require, visible

if TYPE_CHECKING:
    import xarray as xr

MOST_TEMPLATES = 12  # most templates to print; the JSON has all
FIGURE_KINDS = (".html", ".png", ".svg")


def templates(
    task: Annotated[
        Path, typer.Argument(metavar="TASK.toml", help="The task file; see examples/*.toml for each kind.")
    ],
    json_out: Annotated[
        Path | None,
        typer.Option("--json", help="Write the forecast as JSON to this file.", metavar="FILE", show_default=False),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw the forecast to a .html, .png or .svg file.", metavar="FILE", show_default=False),
    ] = None,
    error: Annotated[
        float, typer.Option(help="Squared error to reach, as a share of the error of a constant guess.")
    ] = 0.1,
    beta: Annotated[float, typer.Option(help="Inverse temperature of attention.")] = 1.0,
    gamma: Annotated[float, typer.Option(help="Size of positions relative to tokens.")] = 1.0,
    activation: Annotated[str, typer.Option(help="Activation of the MLP layer: cosine, relu or gelu.")] = "cosine",
    simulate: Annotated[int, typer.Option(help="Also run kernel regression with up to N samples.", metavar="N")] = 0,
) -> None:
    """Will a transformer or an MLP learn these templates on unseen symbols, why, and from how many samples?

    \b
    Examples:
      foretrain forecast templates examples/same_different.toml
      foretrain forecast templates task.toml --error .01 --figure forecast.html --json forecast.json
    """
    from foretrain.core.errors import require_known
    from foretrain.core.files import write_bytes, write_text
    from foretrain.core.trajectory import config_of
    from foretrain.data.template_files import read_task
    from foretrain.forecast.templating.figures import forecast_figure
    from foretrain.forecast.templating.forecast import ForecastSetting, forecast_templates
    from foretrain.forecast.templating.words import summary
    from foretrain.kernels.activations import ACTIVATIONS
    from foretrain.show.pages import as_html, as_image

    require_known("activation", activation, ACTIVATIONS)
    for option, path in (("--json", json_out), ("--figure", figure)):
        if path is not None:
            require_writable(option, path)
    if figure is not None:
        require(figure.suffix in FIGURE_KINDS, f"--figure must end in {', '.join(FIGURE_KINDS)}; got {figure.name}.")
    task_file = read_task(task)
    setting = ForecastSetting(beta=beta, gamma=gamma, activation=activation)
    forecast = forecast_templates(task_file.task, setting, alphabet=task_file.alphabet, error=error, simulate=simulate)
    _print(forecast)
    if json_out is not None:
        write_text(json_out, json.dumps(summary(forecast), indent=1, ensure_ascii=False) + "\n")
        say(f"Wrote {json_out}.")
    if figure is not None:
        drawn = forecast_figure(forecast)
        if figure.suffix == ".html":
            write_text(figure, as_html(drawn, str(config_of(forecast)["task"])))
        else:
            write_bytes(figure, as_image(drawn, figure.suffix))
        say(f"Wrote {figure}.")


def _print(forecast: xr.Dataset) -> None:
    from rich.table import Table

    from foretrain.core.trajectory import config_of
    from foretrain.forecast.templating.words import condition_words, samples_words, verdict_words

    config, out = config_of(forecast), console(results=True)
    out.print(visible(f"{config['task']}: {config['kind']}, {_templates(len(config['templates']))}"), markup=False)
    for number, (template, label) in enumerate(zip(config["templates"], config["labels"], strict=True), 1):
        if number <= MOST_TEMPLATES:
            out.print(visible(f"  {number}  {template}  →  {label}"), markup=False)
    if len(config["templates"]) > MOST_TEMPLATES:
        out.print(f"  … and {len(config['templates']) - MOST_TEMPLATES} more")
    table = Table("architecture", "unseen symbols", "cond N", f"samples for error {config['error']:g}")
    for name in forecast.architecture.values.tolist():
        own = forecast.sel(architecture=name)
        table.add_row(name, verdict_words(own), condition_words(own), samples_words(own))
    out.print(table)
    for name in forecast.architecture.values.tolist():
        out.print(visible(f"{name}: {forecast.why.sel(architecture=name).item()}."), markup=False)
    out.print("\nPredicted error on unseen symbols: median (5 % to 95 %) over random training samples.")
    out.print("The number of samples in the table above is for the expected error.")
    curve = Table("samples", *forecast.architecture.values.tolist())
    for n in forecast.n.values.tolist():
        cells = [_cell(forecast.sel(architecture=name, n=n)) for name in forecast.architecture.values.tolist()]
        curve.add_row(f"{n:,}", *cells)
    out.print(curve)
    for note in config["notes"]:
        out.print(visible(note), markup=False)


def _templates(number: int) -> str:
    return f"{number} template{'s' * (number != 1)}"


def _cell(point: xr.Dataset) -> str:
    cell = f"{point.error.item():.2g} ({point.error_low.item():.2g}–{point.error_high.item():.2g})"
    if "simulated" in point and bool(point.simulated.notnull().any()):
        cell += f", simulated {point.simulated.mean().item():.2g}"
    return cell
