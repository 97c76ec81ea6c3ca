"""Results that take up to an hour: computed once at tier full, and kept with the source in docs/results.

They are made by two commands:

    foretrain run joma/fig8 --tier full --jobs 2
    foretrain run runs/joma/fig8/... --to docs/results/joma_fig8.nc

At tier fast, claims are judged from them, with a note that says how old they are, which code computed them, and whether
it has changed since. `foretrain check --refresh` makes those again whose code has changed.
"""

from __future__ import annotations

import json
import os
import warnings
from datetime import date
from pathlib import Path
from typing import Any

import xarray as xr

from foretrain import papers
from foretrain.core.errors import MissingData, require
from foretrain.core.provenance import source_digest
from foretrain.core.trajectory import ORIGIN, load_file

RESULTS_FOLDER = "FORETRAIN_RESULTS"  # environment variable with the path of the folder


def results_folder() -> Path:
    """Where kept results are: where the environment says, or beside the source, or in the clone one stands in."""
    if given := os.environ.get(RESULTS_FOLDER):
        return Path(given)
    beside = Path(__file__).parents[3] / "docs" / "results"
    return beside if beside.is_dir() else Path("docs", "results").resolve()


def kept(experiment: str, variant: str = "") -> xr.Dataset:
    """The kept result of an experiment; MissingData if it is not there, as in an installed package.

    A `variant` is a second result of the same experiment with other arguments, for a control.
    """
    path = result_file(experiment, variant)
    if not path.is_file():
        raise MissingData(
            f"There is no {path.name}; set {RESULTS_FOLDER} to the folder docs/results of the source, or compute it: "
            f"foretrain run {experiment} --tier full."
        )
    dataset = load_file(path)
    saved = origin_of(dataset)
    require(
        saved.get("experiment") == experiment, f"{path} is a result of {saved.get('experiment')}, not {experiment}."
    )
    days = (date.today() - date.fromisoformat(saved["exported"])).days
    age = "today" if days <= 0 else "yesterday" if days == 1 else f"{days} days ago"
    warnings.warn(
        f"Judged from {path.name}, computed {age} ({saved['exported']}) by code {saved['code']}{_changed(dataset)}.",
        stacklevel=2,
    )
    return dataset


def result_file(experiment: str, variant: str = "") -> Path:
    """Where the result of an experiment is kept."""
    return results_folder() / f"{experiment.replace('/', '_')}{'_' * bool(variant)}{variant}.nc"


def code_now(experiment: str) -> str:
    """The digest of the code that would compute an experiment today; empty if there is no such experiment."""
    if not papers.has_experiment(experiment):
        return ""
    return source_digest(papers.experiments(experiment)[experiment].cell)


def is_old(dataset: xr.Dataset) -> bool:
    """Whether the code that computed a kept result has changed since, be it only in a comment."""
    saved = origin_of(dataset)
    return code_now(saved["experiment"]) not in ("", saved["code"])


def _changed(dataset: xr.Dataset) -> str:
    if not is_old(dataset):
        return ""
    now = code_now(origin_of(dataset)["experiment"])
    return f", which has changed since (it is {now} now); foretrain check --refresh computes it again"


def origin_of(dataset: xr.Dataset) -> dict[str, Any]:
    """Experiment, arguments, code, versions and date of an exported result."""
    return dict(json.loads(dataset.attrs.get(ORIGIN, "{}")))
