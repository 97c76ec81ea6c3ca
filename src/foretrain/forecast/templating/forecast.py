"""Will a network learn these templates on unseen symbols, and from how many samples? The answer that a user sees.

`templates(task)` returns a `TemplateForecast`. The numbers come from `forecast_templates` (kernel regression before
training, see `prediction`); how far to trust them, and what the size of a task alone would say, from `evidence`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import xarray as xr

from foretrain.core.errors import InputError, require
from foretrain.core.files import write_text
from foretrain.core.progress import Progress, tell
from foretrain.core.trajectory import config_of
from foretrain.data.template_files import read_task
from foretrain.data.template_task import TemplateTask
from foretrain.forecast.templating.evidence import size_need, trust_words
from foretrain.forecast.templating.prediction import SAMPLES, ForecastSetting, copies, forecast_templates, trivial_loss
from foretrain.forecast.templating.training import SEEDS, SIZES, trained_errors
from foretrain.forecast.templating.words import (
    about,
    answer,
    error_words,
    joined,
    samples_words,
    summary,
    trained_words,
    verdict_words,
)
from foretrain.kernels.architectures import ARCHITECTURES
from foretrain.kernels.sample_need import TrainedErrors, within_factor

__all__ = ["ForecastSetting", "TemplateForecast", "forecast_templates", "templates", "trivial_loss"]


def templates(
    task: TemplateTask | str | Path,
    setting: ForecastSetting | None = None,
    *,
    alphabet: int | None = None,
    error: float = 0.1,
    samples: Sequence[int] = SAMPLES,
    simulate: int = 0,
    architectures: Sequence[str] = ARCHITECTURES,
) -> TemplateForecast:
    """Forecast whether each architecture learns a template task on unseen symbols, and from how many samples.

    task      a TemplateTask, or the path of a TOML file
    alphabet  number of tokens that fill the wildcards; by default that of the file, or as many as samples
    error     the squared error to reach, as a share of that of a constant guess
    samples   numbers of samples at which to predict the error
    simulate  also run kernel regression for the numbers of samples up to this one
    """
    if isinstance(task, str | Path):
        file = read_task(task)
        task, alphabet = file.task, file.alphabet if alphabet is None else alphabet
    if not isinstance(task, TemplateTask):
        raise InputError(f"task must be a TemplateTask or the path of a TOML file; got {type(task).__name__}.")
    require(
        copies(task) or len(set(task.labels)) > 1,
        f"Every template has the label {task.labels[0]}, so a constant guess is already right and there is nothing to "
        "learn; give at least two labels.",
    )
    options: dict[str, Any] = {"samples": samples, "simulate": simulate, "architectures": architectures}
    return TemplateForecast(task, forecast_templates(task, setting, alphabet=alphabet, error=error, **options))


@dataclass(frozen=True)
class TemplateForecast:
    """The forecast of a template task for each architecture. `trained` is empty until `train` is called."""

    task: TemplateTask
    dataset: xr.Dataset
    trained: tuple[tuple[str, TrainedErrors], ...] = ()

    @property
    def error(self) -> float:
        """The error to reach, as a share of a constant guess's."""
        return float(config_of(self.dataset)["error"])

    @property
    def summary(self) -> str:
        """One paragraph: who learns the task on unseen symbols, from about how many samples, and who never does."""
        return answer(self.dataset)

    @property
    def trust(self) -> str:
        """How far to trust it: how such forecasts did on tasks that were trained."""
        return trust_words(self.task, self.error)

    @property
    def score(self) -> str:
        """How the forecast compares with training; empty before `train`."""
        if not self.trained:
            return ""
        needs = self.table.samples
        right = [name for name, errors in self.trained if within_factor(needs[name], errors, self.error)]
        wrong = [name for name, _ in self.trained if name not in right]
        words = (
            "Compared with training, as far as the trained sizes can tell, the forecast is within a factor of 3 for "
            f"{len(right)} of {len(self.trained)} architectures"
        )
        return f"{words}{f', but not for {joined(wrong)}' if wrong else ''}."

    @property
    def baseline(self) -> str:
        """What the size of the task alone says."""
        count, length = len(self.task.templates), self.task.length
        return f"{count} template{'s' * (count != 1)} × {length} symbols = {count * length}"

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per architecture: verdict, samples needed by forecast, by size alone and in training, and why.

        Infinite samples mean more than the forecast can tell, or never: `verdict` says which.
        """
        rows = []
        trained = dict(self.trained)
        for name in self.dataset.architecture.values.tolist():
            one = self.dataset.sel(architecture=name)
            row = {
                "architecture": name,
                "verdict": verdict_words(one),
                "samples": one.samples_needed.item(),
                "in words": samples_words(one),
                "by size alone": size_need(self.task, name, self.error),
            }
            if trained:
                row["in training"] = trained[name].needed(self.error) if name in trained else float("nan")
            rows.append({**row, "why": str(one.why.item())})
        return pd.DataFrame(rows).set_index("architecture")

    def rows(self) -> list[tuple[str, ...]]:
        """The table in words, for terminal and page: architecture, unseen symbols, forecast, by size, in training."""
        rows = []
        trained = dict(self.trained)
        for name, row in self.table.iterrows():
            shown = [str(name), str(row["verdict"]), str(row["in words"]), about(row["by size alone"])]
            if trained:
                shown.append(trained_words(trained[str(name)], self.error) if name in trained else "")
            rows.append(tuple(shown))
        return rows

    def curve_rows(self) -> list[tuple[str, ...]]:
        """The predicted error in words: a row for every number of samples, a column for every architecture."""
        points = self.dataset
        return [
            (f"{n:,}", *(error_words(points.sel(architecture=name, n=n)) for name in points.architecture.values))
            for n in points.n.values.tolist()
        ]

    def numbers(self) -> dict[str, object]:
        """The forecast as plain data, for JSON."""
        return summary(self.dataset)

    @property
    def columns(self) -> tuple[str, ...]:
        """The heads of `rows`."""
        heads = ("architecture", "on unseen symbols", "samples (forecast)", "samples (by size alone)")
        return (*heads, "samples (in training)") if self.trained else heads

    def train(self, *, sizes: Sequence[int] = SIZES, seeds: int = SEEDS) -> TemplateForecast:
        """Train small networks of every architecture on up to 1,024 samples, and keep their errors beside the forecast.

        It takes a minute or two for short templates, and longer in proportion to the square of their length.
        """
        names = self.dataset.architecture.values.tolist()
        alphabet = config_of(self.dataset)["alphabet"]
        trained = []
        for place, name in enumerate(names):
            tell(Progress(place, len(names), name))
            errors = trained_errors(self.task, name, error=self.error, sizes=sizes, seeds=seeds, alphabet=alphabet)
            trained.append((name, errors))
        ran = sorted({n for _, errors in trained for n in errors.errors})
        values = np.full((len(names), len(ran), seeds), np.nan)
        for i, (_, errors) in enumerate(trained):
            for n, of_size in errors.errors.items():
                values[i, ran.index(n)] = of_size
        dataset = self.dataset.assign_coords(trained_n=ran).assign(
            trained=(("architecture", "trained_n", "trained_seed"), values)
        )
        return replace(self, dataset=dataset, trained=tuple(trained))

    def figure(self) -> go.Figure:
        """Error on unseen symbols against training samples; marks are networks that were trained."""
        from foretrain.forecast.templating.figures import forecast_figure

        return forecast_figure(self.dataset)

    def report(self, path: str | Path) -> None:
        """Write a page with the answer, how far to trust it, the table, the curves and the reasons."""
        from foretrain.forecast.templating.figures import page

        write_text(Path(path), page(self))

    def _repr_html_(self) -> str:
        from foretrain.forecast.templating.figures import fragment

        return fragment(self)
