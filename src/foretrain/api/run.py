"""Run an experiment of a paper, and draw or convert what came out."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xarray as xr

from foretrain.api.find import find_experiment
from foretrain.api.grid_values import values_of
from foretrain.core.errors import require, require_known
from foretrain.core.files import require_writable
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import require_setting
from foretrain.ledger.tiers import TIERS
from foretrain.papers import figure_of
from foretrain.runs.export import export_run
from foretrain.runs.run_folder import RunFolder, earlier_runs
from foretrain.runs.storage import Storage
from foretrain.runs.sweep import Plan

if TYPE_CHECKING:
    import plotly.graph_objects as go

FIGURE_KINDS = (".html", ".png", ".svg", ".pdf")


def plan_of(experiment: Experiment, arguments: Mapping[str, Any], grid: Mapping[str, Sequence[Any]]) -> Plan:
    """An experiment with these arguments, some of them over a grid.

    The cell is called once for every value of an axis, and of an argument in the grid of which it takes one value; the
    result gets an axis for each. A list that the cell takes whole is given to it whole, and if the list is in the grid,
    the result must have an axis for it. What the experiment computes in batches is cut into pieces.
    """
    parameters = experiment.parameters()
    several = {name: tuple(values) for name, values in grid.items() if parameters[name].several}
    single = {name: list(values) for name, values in grid.items() if name not in several}
    axes, lists, fixed = experiment.split({**arguments, **several})
    fixed = {name: value for name, value in fixed.items() if name not in single}
    return Plan(
        experiment.id,
        experiment.cell,
        {**single, **axes, **lists},
        fixed,
        experiment.batched,
        one_at_a_time=[*single, *axes],
        varied=[name for name, values in several.items() if name in fixed and len(values) > 1],
        together=experiment.together,
        files=experiment.files(),
    )


@dataclass(frozen=True)
class Run:
    """A finished run: its folder, its numbers, its figure."""

    folder: RunFolder
    experiment: Experiment | None = None  # None: a function of one's own
    swept: bool = False  # over an argument of which the experiment itself takes one value

    def __repr__(self) -> str:
        return repr(self.folder)

    def _repr_html_(self) -> str:
        return self.folder._repr_html_()

    @property
    def path(self) -> Path:
        """The folder, for a run on this machine."""
        return self.folder.path

    @property
    def place(self) -> Storage:
        """The folder, or its address in a store."""
        return self.folder.storage

    @property
    def reused(self) -> bool:
        """Whether the run was finished before, so that nothing was computed."""
        return self.folder.reused

    def dataset(self) -> xr.Dataset:
        """All numbers, with an axis for everything that varies."""
        return self.folder.dataset()

    def conclusion(self) -> str:
        """What the run shows, in a sentence, if the experiment draws a conclusion; else nothing."""
        if self.experiment is None or self.experiment.concludes is None or self.swept:
            return ""
        return self.experiment.concludes(self.dataset())

    def figure(self) -> go.Figure:
        """The picture of the run."""
        require(self.experiment is not None, "Only experiments of a paper have a figure; draw .dataset() yourself.")
        assert self.experiment is not None
        return figure_of(self.experiment.id)(self.dataset())

    def write_figure(self, file: str | Path) -> Path:
        """Write the picture as .html, .png, .svg or .pdf."""
        from foretrain.show.pages import write_figure

        write_figure(Path(file), self.figure(), self.experiment.id if self.experiment else "")
        return Path(file)

    def export(self, to: str) -> Path:
        """Write the numbers as one netCDF file, or as a long table with one row per number.

        `to` is netcdf, csv or parquet, for a file in the current folder, or the name of a .nc, .csv or .parquet file.
        """
        return export_run(self.path, to)


def run(
    experiment: str,
    *,
    grid: Mapping[str, Any] | None = None,
    seeds: int | Sequence[int] | None = None,
    tier: str = "fast",
    out: str | Path = "runs",
    jobs: int = 1,
    cluster: str | None = None,
    piece: int | None = None,
    fresh: bool = False,
    **arguments: Any,
) -> Run:
    """Run an experiment, named as in `foretrain list --experiments`, and save it in `out`.

    Its arguments are those of the `tier`, unless given here; `foretrain show EXPERIMENT` lists them. For every
    combination of the values in `grid` it is run once. Every finished piece is saved: the same call goes on where it
    stopped, and a finished run is read from disk unless `fresh`. `jobs`, `cluster` and `piece` are as for `sweep`.
    """
    require_known("tier", tier, TIERS)
    chosen = find_experiment(experiment)
    parameters, given = chosen.parameters(), dict(grid or {})
    for name in given:
        require_setting(name, parameters)
    if seeds is not None:
        require("seeds" in parameters, f"{chosen.id} draws no random numbers, so it takes no seeds.")
        require(not {"seeds"} & {*given, *arguments}, "The seeds are given twice; give them once.")
        arguments["seeds"] = seeds
    twice = sorted(set(given) & set(arguments))
    require(not twice, f"{', '.join(twice)} is given both as a grid and as one value; give it once.")
    every = {**chosen.arguments(tier), **chosen.take(arguments)}
    missing = [name for name, value in every.items() if value is inspect.Parameter.empty and name not in given]
    require(not missing, f"{chosen.id} needs {', '.join(missing)}.")
    values = {name: values_of(parameters[name], value) for name, value in given.items()}
    plan = plan_of(chosen, every, values)
    folder = plan.run(out, jobs=jobs, cluster=cluster, piece=piece, fresh=fresh)
    for earlier in earlier_runs(folder.identity, Storage.of(out)):
        warnings.warn(
            f"{earlier} has the same settings but was computed with other source code or library versions; it is kept, "
            "and this run is stored beside it.",
            stacklevel=2,
        )
    return Run(folder, chosen, swept=not set(plan.one_at_a_time) <= set(chosen.axes))


def require_figure_file(option: str, file: Path) -> None:
    """Refuse, before any work, a picture that could not be written after it."""
    kind = file.suffix.lower()
    require(kind in FIGURE_KINDS, f"{option} must end in {', '.join(FIGURE_KINDS)}; got {str(file)!r}.")
    require_writable(option, file)
    if kind != ".html":
        import plotly.graph_objects as go

        from foretrain.show.pages import as_image

        as_image(go.Figure(), kind)  # fails if there is no browser
