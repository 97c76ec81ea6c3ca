"""foretrain run, figure, export: compute an experiment, draw it, convert it for other tools."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foretrain.cli.common import (
    RUNS,
    TIER_HELP,
    Cluster,
    Jobs,
    Runs,
    console,
    require_jobs,
    require_writable,
    say,
    show,
)
from foretrain.cli.progress import progress_shown
from foretrain.cli.values import read_settings
from foretrain.core.errors import require, require_known
from foretrain.show.finding import HELP, find_experiment

if TYPE_CHECKING:
    import xarray as xr

    from foretrain.grids.sweeping import Plan
    from foretrain.ledger.experiment import Experiment
    from foretrain.runs.stored import RunFolder

Name = Annotated[str, typer.Argument(metavar="EXPERIMENT", help=HELP)]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Give the experiment an argument; a list, with commas, goes to it whole.", metavar="NAME=VALUE"
    ),
]
GridOption = Annotated[
    list[str] | None,
    typer.Option(
        "--grid",
        help="Run the experiment once for every combination of these values, in pieces that are saved one by one: "
        "NAME=.5,1,2 or NAME=first:last:count (log5 for 5 values with equal ratios).",
        metavar="NAME=VALUES",
    ),
]
Seeds = Annotated[int | None, typer.Option(help="Use the seeds 1 to N.", metavar="N")]
Size = Annotated[str | None, typer.Option("--tier", help=TIER_HELP, show_default="paper")]
Quick = Annotated[bool, typer.Option("--quick", help="Short for --tier fast.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Delete this run from disk and compute it again.")]
FIGURE_KINDS = (".html", ".png", ".svg", ".pdf")
TABLE_KINDS = ("netcdf", "csv", "parquet")


def run(
    name: Name,
    settings: Set = None,
    grid: GridOption = None,
    seeds: Seeds = None,
    tier: Size = None,
    quick: Quick = False,
    jobs: Jobs = 1,
    out: Annotated[
        str, typer.Option(help="Folder for runs, or a store such as s3://bucket/runs.", metavar="PLACE")
    ] = str(RUNS),
    cluster: Cluster = None,
    piece: Annotated[
        int | None,
        typer.Option(help="Cells to compute and save at once.", metavar="N", show_default="the experiment's own"),
    ] = None,
    fresh: Fresh = False,
) -> None:
    """Run an experiment and save it in PLACE/<experiment>/<hash of its arguments>.

    Every finished piece is saved: after an interruption, run the same command again to continue. `foretrain show
    EXPERIMENT` lists the arguments.

    \b
    Examples:
      foretrain run scan_snap/fig6 --quick
      foretrain run abstract_symbols/fig22 --tier full --jobs 2
      foretrain run scan_snap/fig6 --set eta_z=.5,1 --set steps=200 --seeds 5
      foretrain run scan_snap/fig6 --grid eta_z=.5,1,2 --grid ratio=1:10:log5
      foretrain run scan_snap/fig6 --cluster tcp://scheduler:8786
    """
    require_jobs(jobs)
    require(piece is None or piece >= 1, f"--piece must be at least 1; got {piece}.")
    experiment, arguments = _arguments(name, settings, seeds, _tier(tier, quick), grid)
    if "://" not in out:
        require_writable("--out", Path(out), folder=True)
    plan = _plan(experiment, arguments, grid)
    folder = _compute(plan, out, jobs=jobs, cluster=cluster, piece=piece, fresh=fresh)
    from foretrain.runs.gridded import TooLarge

    try:
        dataset = folder.dataset()
    except TooLarge as error:  # the sweep itself is complete
        say(f"Note: {error}")
    else:
        _summarise(dataset)
        if experiment.concludes is not None and set(plan.one_at_a_time) <= set(experiment.axes):
            say(experiment.concludes(dataset))
    show(str(folder.place))


def figure(
    name: Name,
    settings: Set = None,
    seeds: Seeds = None,
    tier: Size = None,
    quick: Quick = False,
    jobs: Jobs = 1,
    out: Annotated[
        Path | None, typer.Option(help="File to write: .html, .png, .svg or .pdf.", metavar="FILE", show_default=False)
    ] = None,
    runs: Runs = RUNS,
    fresh: Fresh = False,
) -> None:
    """Draw an experiment from its run on disk; if there is none, compute it first.

    \b
    Examples:
      foretrain figure scan_snap/fig6 --quick
      foretrain figure abstract_symbols/fig22 --tier full --jobs 2
      foretrain figure scan_snap/fig6 --seeds 5 --out fig6.pdf
    """
    from foretrain.papers import figure_of
    from foretrain.show.pages import as_html, as_image

    require_jobs(jobs)
    experiment, arguments = _arguments(name, settings, seeds, _tier(tier, quick))
    draw = figure_of(experiment.id)
    place = out or Path(f"{experiment.id.replace('/', '_')}.html")
    kind = place.suffix.lower()
    require(kind in FIGURE_KINDS, f"--out must end in {', '.join(FIGURE_KINDS)}; got {str(place)!r}.")
    require_writable("--out", place)
    require_writable("--runs", runs, folder=True)
    if kind != ".html":
        import plotly.graph_objects as go

        as_image(go.Figure(), kind)  # fails now if there is no browser, not after the work
    folder = _compute(_plan(experiment, arguments), str(runs), jobs=jobs, fresh=fresh)
    drawn = draw(folder.dataset())
    from foretrain.core.files import write_bytes

    content = as_html(drawn, experiment.id).encode() if kind == ".html" else as_image(drawn, kind)
    write_bytes(place, content)
    say(f"The figure is at {place}.")


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder, or a .nc file.")],
    to: Annotated[str, typer.Option("--to", help="Format: netcdf, csv or parquet.", metavar="KIND")],
    out: Annotated[
        Path | None,
        typer.Option(help="File to write; by default, in the current folder.", metavar="FILE", show_default=False),
    ] = None,
) -> None:
    """Convert a run to one netCDF file, or to a long table with one row per cell.

    \b
    Examples:
      foretrain export runs/scan_snap/fig6/0123456789ab --to csv
      foretrain export runs/scan_snap/fig6/0123456789ab --to netcdf --out fig6.nc
    """
    require_known("kind of file", to, TABLE_KINDS)
    from foretrain.runs.export import default_name, export_run, require_parquet
    from foretrain.runs.stored import describe

    if to == "parquet":
        require_parquet()
    place = out or Path(default_name(run, to))
    require_writable("--out", place)
    written = export_run(run, to, place)
    if run.is_dir() and not describe(run)["complete"]:
        say(f"Note: {run} is not finished; {place} has only what is done so far.")
    say(f"{place} has {written}.")


def _tier(tier: str | None, quick: bool) -> str:
    require(not quick or tier in (None, "fast"), f"--quick means --tier fast; give --quick or --tier {tier}, not both.")
    return tier or ("fast" if quick else "paper")


def _arguments(
    name: str, given: list[str] | None, seeds: int | None, tier: str, grid: list[str] | None = None
) -> tuple[Experiment, dict[str, Any]]:
    """The experiment and all its arguments: those of the tier, overridden by --set and --seeds."""
    experiment = find_experiment(name)
    parameters = experiment.parameters()
    settings = read_settings(given or [], parameters)
    varied = {assignment.partition("=")[0] for assignment in grid or []}
    twice = sorted(varied & {*settings, *(["seeds"] if seeds is not None else [])})
    require(not twice, f"{', '.join(twice)} is given both by --grid and by --set or --seeds; give it once.")
    if seeds is not None:
        require("seeds" in parameters, f"{experiment.id} draws no random numbers, so it takes no --seeds.")
        require("seeds" not in settings, "Give --seeds or --set seeds=, not both.")
        require(seeds >= 1, f"--seeds must be at least 1; got {seeds}.")
        settings["seeds"] = seeds
    arguments = {**experiment.arguments(tier), **settings}
    missing = [key for key, value in arguments.items() if value is inspect.Parameter.empty]
    require(not missing, f"{experiment.id} needs {', '.join(missing)}; give --set {missing[0] if missing else ''}=…")
    return experiment, arguments


def _plan(experiment: Experiment, arguments: dict[str, Any], grid: list[str] | None = None) -> Plan:
    from foretrain.grids.sweeping import plan_of
    from foretrain.grids.values import read_grid

    return plan_of(experiment, arguments, read_grid(grid or [], experiment.parameters()))


def _compute(
    plan: Plan,
    out: str,
    *,
    jobs: int = 1,
    cluster: str | None = None,
    piece: int | None = None,
    fresh: bool = False,
) -> RunFolder:
    """The run with these arguments; whatever is missing is computed."""
    from foretrain.runs.places import Place
    from foretrain.runs.stored import earlier_runs

    with progress_shown(plan.name), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        folder = plan.run(out, jobs=jobs, cluster=cluster, piece=piece, fresh=fresh)
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            say(f"Note: {warning.message}")
    for earlier in earlier_runs(folder.identity, Place.of(out)):
        say(
            f"Note: {earlier} has the same settings but was computed with other source code or library versions; it is "
            "kept, and this run is stored beside it."
        )
    if folder.reused:
        say("This run was finished before, so it was read from disk; add --fresh to compute it again.")
    return folder


def _summarise(dataset: xr.Dataset) -> None:
    """Print every variable with its axes and range, then notes and runs that diverged."""
    from rich import box
    from rich.table import Table

    from foretrain.core.trajectory import notes_of

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
    for column in ("variable", "axes", "least", "mean", "greatest", "unit"):
        table.add_column(column, justify="right" if column in ("least", "mean", "greatest") else "left")
    for name, variable in dataset.data_vars.items():
        axes = " × ".join(f"{axis} {size}" for axis, size in variable.sizes.items()) or "one value"
        numbers = [""] * 3
        if variable.dtype.kind in "fiub" and variable.size and variable.notnull().any():
            numbers = [f"{float(f()):.4g}" for f in (variable.min, variable.mean, variable.max)]
        table.add_row(str(name), axes, *numbers, variable.attrs.get("units", ""))
    console(results=False).print(table)
    for note in notes_of(dataset):
        say(f"Note: {note}")
    for sentence in diverged(dataset):
        say(sentence)


def diverged(dataset: xr.Dataset, shown: int = 5) -> list[str]:
    """How many runs diverged, and a sentence with the step for each of the first ones."""
    import numpy as np

    if "diverged_at" not in dataset:
        return []
    steps = dataset["diverged_at"]
    lost = np.argwhere(np.isfinite(steps.values))
    sentences = [f"{len(lost)} of {steps.size} runs diverged; their numbers are nan from then on."] if len(lost) else []
    for index in lost[:shown]:
        cell = steps[tuple(index)]
        where = ", ".join(f"{axis}={cell.coords[axis].item()}" for axis in steps.dims if axis in cell.coords)
        sentences.append(f"{where or 'the run'} diverged at step {int(cell)}")
    return sentences
