"""foretrain forecast templates: predict whether an architecture will learn a template task, and from how much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foretrain.cli.common import console, say
from foretrain.cli.progress import progress_shown
from foretrain.core.errors import require, visible
from foretrain.core.files import require_writable

if TYPE_CHECKING:
    import xarray as xr

    from foretrain.forecast.templating.forecast import TemplateForecast

MOST_TEMPLATES = 12  # most templates to print; the JSON has all
FIGURE_KINDS = (".html", ".png", ".svg")


def templates(
    task: Annotated[
        Path, typer.Argument(metavar="TASK.toml", help="The task file; see examples/*.toml for each kind.")
    ],
    report: Annotated[Path | None, typer.Option(help="Write an HTML page.", metavar="FILE.html")] = None,
    train: Annotated[
        bool, typer.Option("--train", help="Also train small networks on up to 1024 samples, and compare.")
    ] = False,
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
    beta: Annotated[float, typer.Option(help="Inverse temperature of the plain transformer's attention.")] = 1.0,
    gamma: Annotated[float, typer.Option(help="Size of positions relative to tokens.")] = 1.0,
    activation: Annotated[str, typer.Option(help="Activation of the MLP layer: cosine, relu or gelu.")] = "cosine",
    simulate: Annotated[int, typer.Option(help="Also run kernel regression with up to N samples.", metavar="N")] = 0,
) -> None:
    """Will a transformer or an MLP learn these templates on unseen symbols, and from how many samples?

    \b
    Examples:
      foretrain forecast templates examples/same_different.toml
      foretrain forecast templates task.toml --error .01 --report forecast.html
      foretrain forecast templates task.toml --train
    """
    from foretrain.core.errors import require_known
    from foretrain.core.files import write_bytes, write_text
    from foretrain.core.trajectory import config_of
    from foretrain.data.template_files import read_task
    from foretrain.forecast.templating.forecast import ForecastSetting
    from foretrain.forecast.templating.forecast import templates as forecast_of
    from foretrain.forecast.templating.training import require_trainable
    from foretrain.forecast.templating.words import summary
    from foretrain.kernels.activations import ACTIVATIONS
    from foretrain.show.pages import as_html, as_image

    require_known("activation", activation, ACTIVATIONS)
    for option, path in (("--json", json_out), ("--figure", figure), ("--report", report)):
        if path is not None:
            require_writable(option, path)
    if figure is not None:
        require(figure.suffix in FIGURE_KINDS, f"--figure must end in {', '.join(FIGURE_KINDS)}; got {figure.name}.")
    if report is not None:
        require(report.suffix == ".html", f"--report must end in .html; got {report.name}.")
    setting = ForecastSetting(beta=beta, gamma=gamma, activation=activation)
    if train:
        require_trainable(read_task(task).task)
    with progress_shown("forecasting"):
        forecast = forecast_of(task, setting, error=error, simulate=simulate)
    if train:
        with progress_shown("training"):
            forecast = forecast.train()
    _print(forecast)
    if json_out is not None:
        write_text(json_out, json.dumps(summary(forecast.dataset), indent=1, ensure_ascii=False) + "\n")
        say(f"Wrote {json_out}.")
    if report is not None:
        forecast.report(report)
        say(f"Wrote {report}.")
    if figure is not None:
        drawn = forecast.figure()
        if figure.suffix == ".html":
            write_text(figure, as_html(drawn, str(config_of(forecast.dataset)["task"])))
        else:
            write_bytes(figure, as_image(drawn, figure.suffix))
        say(f"Wrote {figure}.")


def _print(forecast: TemplateForecast) -> None:
    from rich import box
    from rich.table import Table

    from foretrain.core.trajectory import config_of

    data = forecast.dataset
    config, out = config_of(data), console(results=True)
    out.print(visible(forecast.summary), markup=False, highlight=False)
    if forecast.score:
        out.print(f"\n{forecast.score}", markup=False, highlight=False)
    out.print(f"\nTrust: {forecast.trust}\n", markup=False, highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in forecast.columns:
        table.add_column(head)
    for row in forecast.rows():
        table.add_row(*row)
    out.print(table)
    out.print(
        f"Samples needed for an error of {config['error']:g} of a constant guess's. The guess by size alone is "
        f"{forecast.baseline}, times the samples per symbol that trained networks needed.",
        highlight=False,
    )
    out.print(f"\nWhy ({config['kind']}, {_templates(len(config['templates']))}):", highlight=False)
    for name in data.architecture.values.tolist():
        out.print(visible(f"  {name}: {data.why.sel(architecture=name).item()}."), markup=False, highlight=False)
    for number, (template, label) in enumerate(zip(config["templates"], config["labels"], strict=True), 1):
        if number <= MOST_TEMPLATES:
            out.print(visible(f"  {number}  {template}  →  {label}"), markup=False, highlight=False)
    if len(config["templates"]) > MOST_TEMPLATES:
        out.print(f"  … and {len(config['templates']) - MOST_TEMPLATES} more", highlight=False)
    out.print(
        "\nPredicted error on unseen symbols: median (5 % to 95 %) over random training samples.", highlight=False
    )
    curve = Table("samples", *data.architecture.values.tolist(), box=box.SIMPLE_HEAD, pad_edge=False)
    for n in data.n.values.tolist():
        cells = [_cell(data.sel(architecture=name, n=n)) for name in data.architecture.values.tolist()]
        curve.add_row(f"{n:,}", *cells)
    out.print(curve)
    for note in config["notes"]:
        out.print(visible(note), markup=False, highlight=False)


def _templates(number: int) -> str:
    return f"{number} template{'s' * (number != 1)}"


def _cell(point: xr.Dataset) -> str:
    cell = f"{point.error.item():.2g} ({point.error_low.item():.2g}–{point.error_high.item():.2g})"
    if "simulated" in point and bool(point.simulated.notnull().any()):
        cell += f", simulated {point.simulated.mean().item():.2g}"
    return cell
