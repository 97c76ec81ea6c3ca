"""foretrain run: compute an experiment, draw it, convert it for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import xarray as xr

from foretrain import papers
from foretrain.api.find import find_experiment
from foretrain.api.grid_values import read_grid
from foretrain.api.run import Run, require_figure_file
from foretrain.api.run import run as run_experiment
from foretrain.cli.common import QUERY, RUNS, Cluster, Jobs, Tier, option, say, show
from foretrain.cli.progress import progress_shown
from foretrain.cli.terminal import console, table
from foretrain.cli.values import read_settings
from foretrain.core.errors import require
from foretrain.core.files import require_writable
from foretrain.core.trajectory import notes_of
from foretrain.ledger.experiment import Experiment
from foretrain.runs.export import export_run, table_file
from foretrain.runs.run_folder import RECORD, RunFolder, describe
from foretrain.runs.storage import Storage
from foretrain.runs.zarr_store import TooLarge

NAME = f"{QUERY} With --figure or --to, also the folder of a saved run."
SET = (
    "Set an argument of the experiment: one value, or several with commas where it takes several.",
    "NAME=VALUE",
    "--set",
)
GRID = (
    "Run the experiment once for every combination of these values, in pieces that are saved one by one: "
    "NAME=.5,1,2 or NAME=first:last:count (log5 for 5 values with equal ratios).",
    "NAME=VALUES",
)
PIECE = ("Cells to compute and save at once.", "N")


def run(
    name: Annotated[str, typer.Argument(metavar="EXPERIMENT", help=NAME)],
    settings: Annotated[list[str] | None, option(*SET)] = None,
    grid: Annotated[list[str] | None, option(*GRID)] = None,
    seeds: Annotated[int | None, option("Use the seeds 1 to N.", "N")] = None,
    tier: Tier = "fast",
    figure: Annotated[Path | None, option("Draw it to a file: .html, .png, .svg or .pdf.", "FILE")] = None,
    to: Annotated[
        str | None, option("Convert it: netcdf, csv or parquet, or a file with such an ending.", "KIND")
    ] = None,
    jobs: Jobs = 1,
    out: Annotated[str, option("Folder for runs, or a store such as s3://bucket/runs.", "PLACE")] = str(RUNS),
    cluster: Cluster = None,
    piece: Annotated[int | None, option(*PIECE, default="the experiment's own")] = None,
    fresh: Annotated[bool, option("Delete this run from disk and compute it again.", None, "--fresh")] = False,
) -> None:
    """Run an experiment and save it in PLACE/<experiment>/<hash of its arguments>.

    Every finished piece is saved: after an interruption, run the same command again to continue. `foretrain show
    EXPERIMENT` lists the arguments.

    \b
    Examples:
      foretrain run scan_snap/fig6
      foretrain run scan_snap/fig6 --tier paper --figure fig6.html
      foretrain run abstract_symbols/fig22 --tier full --jobs 2 --to csv
      foretrain run scan_snap/fig6 --set eta_z=.5,1 --set steps=200 --seeds 5
      foretrain run scan_snap/fig6 --grid eta_z=.5,1,2 --grid ratio=1:10:log5
      foretrain run scan_snap/fig6 --cluster tcp://scheduler:8786
      foretrain run runs/scan_snap/fig6/0123456789ab --to table.csv
    """
    if _is_saved(Path(name)):
        _use_saved(Path(name), figure, to)
        return
    experiment = find_experiment(name)
    arguments, values = _arguments(experiment, settings or [], grid or [], seeds)
    chosen_seeds = arguments.pop("seeds", seeds)
    if figure is not None:
        require_figure_file("--figure", figure)
    if to is not None:
        require_writable("--to", table_file(to, Path(name)))
        require(
            Storage.of(out).path is not None,
            f"--to converts runs in a folder of this machine, and {out} is a store; leave it out, or choose a folder.",
        )
    if "://" not in out:
        require_writable("--out", Path(out), folder=True)
    with progress_shown(experiment.id):
        done = run_experiment(
            experiment.id, grid=values, seeds=chosen_seeds, tier=tier, out=out, jobs=jobs, cluster=cluster, piece=piece,
            fresh=fresh, **arguments,
        )  # fmt: skip
    _report(done, tier)
    if figure is not None:
        say(f"The figure is at {done.write_figure(figure)}.")
    if to is not None:
        say(f"The numbers are at {done.export(to)}.")
    show(str(done.place))


def _is_saved(path: Path) -> bool:
    """Whether this is the folder of a run, or a file with a trajectory."""
    return (path / RECORD).is_file() or (path.is_file() and path.suffix == ".nc")


def _use_saved(path: Path, figure: Path | None, to: str | None) -> None:
    """Draw or convert what was computed before."""
    require(bool(figure or to), f"{path} is a saved run; draw it with --figure FILE, or convert it with --to KIND.")
    if to is not None:
        require_writable("--to", table_file(to, path))
    if figure is not None:
        require_figure_file("--figure", figure)
        require(path.is_dir(), f"--figure draws the folder of a run, and {path} is a file; give the folder.")
        folder = RunFolder.open(path)
        id = folder.identity.experiment
        say(f"The figure is at {Run(folder, papers.experiments(id).get(id)).write_figure(figure)}.")
    if to is not None:
        say(f"The numbers are at {export_run(path, to)}.")
    if path.is_dir() and not describe(path)["complete"]:
        say(f"Note: {path} is not finished; this is only what is done so far.")


def _arguments(
    experiment: Experiment, settings: list[str], grid: list[str], seeds: int | None
) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """What --set and --grid give, each argument once."""
    parameters = experiment.parameters()
    arguments = read_settings(settings, parameters)
    varied = {assignment.partition("=")[0] for assignment in grid}
    twice = sorted(varied & {*arguments, *(["seeds"] if seeds is not None else [])})
    require(not twice, f"{', '.join(twice)} is given both by --grid and by --set or --seeds; give it once.")
    if seeds is not None:
        require("seeds" in parameters, f"{experiment.id} draws no random numbers, so it takes no --seeds.")
        require("seeds" not in arguments, "Give --seeds or --set seeds=, not both.")
        require(seeds >= 1, f"--seeds must be at least 1; got {seeds}.")
    return arguments, read_grid(grid, parameters)


def _report(done: Run, tier: str) -> None:
    """Say what came out: every variable with its axes and range, notes, runs that diverged, and the conclusion."""
    if done.reused:
        say("This run was finished before, so it was read from disk; add --fresh to compute it again.")
    try:
        dataset = done.dataset()
    except TooLarge as error:  # the sweep itself is complete
        say(f"Note: {error}")
        return
    _summarise(dataset)
    if done.conclusion():
        say(done.conclusion())
    if tier == "fast":
        say("This is tier fast, the smallest size; --tier paper has the sizes of the paper.")


def _summarise(dataset: xr.Dataset) -> None:
    """Print every variable with its axes and range, then notes and runs that diverged."""
    rows = []
    for name, variable in dataset.data_vars.items():
        axes = " × ".join(f"{axis} {size}" for axis, size in variable.sizes.items()) or "one value"
        numbers = [""] * 3
        if variable.dtype.kind in "fiub" and variable.size and variable.notnull().any():
            numbers = [f"{float(f()):.4g}" for f in (variable.min, variable.mean, variable.max)]
        rows.append((name, axes, *numbers, variable.attrs.get("units", "")))
    console(results=False).print(table(("variable", "axes", "least", "mean", "greatest", "unit"), rows))
    for note in notes_of(dataset):
        say(f"Note: {note}")
    for sentence in diverged(dataset):
        say(sentence)


def diverged(dataset: xr.Dataset, shown: int = 5) -> list[str]:
    """How many runs diverged, and a sentence with the step for each of the first ones."""
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
