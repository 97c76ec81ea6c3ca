"""Several trainings side by side: one table, and one curve for each of them in every panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import xarray as xr

from foretrain.core.files import write_text
from foretrain.monitor.alarm_words import number, steps
from foretrain.monitor.alarms import Alarm, alarms_of
from foretrain.monitor.page.ending import Ending, ending
from foretrain.monitor.page.figures import HEIGHT, MOST_POINTS, thinned
from foretrain.monitor.page.trouble import trouble
from foretrain.runs.training_log import Record, as_dataset, every_step, read_lines
from foretrain.show.pages import FIT, figure_html, render
from foretrain.show.plotting import PALETTE, log_ticks, new_panels, plain_text

HEAD = ("run", "steps", "loss", "least", "sparsest layer", "largest logit", "alarms", "ended")
Curves = Mapping[str, tuple[np.ndarray, np.ndarray]]  # run -> steps, values


@dataclass(frozen=True)
class Watched:
    """One training as it is compared with others."""

    name: str
    records: Sequence[Record]
    dataset: xr.Dataset
    steps: xr.Dataset  # the loss and the gradient's norm at every step
    alarms: Sequence[Alarm]
    ending: Ending

    @property
    def row(self) -> tuple[str, ...]:
        """The cells below `HEAD`."""
        losses = self.steps.loss.values
        finite = losses[np.isfinite(losses)]
        last, least = (number(losses[-1], 4), number(finite.min(), 4)) if len(finite) else ("–", "–")
        entropy, logit = "–", "–"
        if "attention_relative_entropy" in self.dataset:
            entropy = f"{float(self.dataset.attention_relative_entropy.isel(step=-1).mean('head').min()):.2f}"
        if "attention_largest_logit" in self.dataset:
            logit = number(float(self.dataset.attention_largest_logit.isel(step=-1).max()))
        serious = sum(alarm.serious for alarm in self.alarms)
        count = self.ending.steps or (int(self.steps.step.values[-1]) + 1 if self.steps.sizes["step"] else 0)
        return self.name, steps(count), last, least, entropy, logit, str(serious), self.ending.word


def watched(files: Sequence[Path]) -> list[Watched]:
    """The trainings of these files, each by the part of its path that tells it from the others."""
    read = []
    for file, name in zip(files, _names(files), strict=True):
        records, end = read_lines(file), ending(file)
        steps_of_all = every_step(records, end.pending)
        read.append(Watched(name, records, as_dataset(records), steps_of_all, alarms_of(records), end))
    return read


def sentences(runs: Sequence[Watched]) -> list[str]:
    """Which run has the lowest loss, and what is wrong with the others."""
    last = {run.name: float(run.steps.loss.values[-1]) for run in runs if run.steps.sizes["step"]}
    finite = {name: loss for name, loss in last.items() if np.isfinite(loss)}
    said = []
    if len(finite) > 1:
        best = min(finite, key=lambda name: finite[name])
        said.append(f"{best} has the lowest loss now: {number(finite[best], 4)}.")
    said += [f"{run.name}: {trouble(run.records, run.alarms)[0]}" for run in runs if trouble(run.records, run.alarms)]
    return said or ["Nothing to compare has been measured yet." if not finite else "No run is in trouble."]


def write_several(runs: Sequence[Watched], out: Path) -> None:
    """Write the page."""
    write_text(out, page(runs))


def page(runs: Sequence[Watched]) -> str:
    """The page as HTML."""
    return render(
        "several.html",
        title="Trainings, side by side",
        sentences=sentences(runs),
        head=HEAD,
        rows=[run.row for run in runs],
        endings=[f"{run.name}: {run.ending.sentence}" for run in runs],
        figures=[figure_html(_panels(runs), with_plotly=True, post_script=FIT)],
    )


def _panels(runs: Sequence[Watched]) -> go.Figure:
    panels: dict[str, tuple[Curves, bool]] = {
        "loss": ({run.name: _curve(run.steps, run.steps.loss) for run in runs}, False),
        "norm of the whole gradient": (
            {run.name: _curve(run.steps, run.steps.total_gradient_norm) for run in runs},
            True,
        ),
        "entropy of attention / its maximum": (_over(runs, "attention_relative_entropy", "mean"), False),
        "largest logit of any head": (_over(runs, "attention_largest_logit", "max"), True),
    }
    shown = {title: panel for title, panel in panels.items() if any(np.isfinite(y).any() for _, y in panel[0].values())}
    titles = list(shown) or ["loss"]
    figure = new_panels("", titles, columns=2, horizontal_spacing=0.1, vertical_spacing=0.2)
    figure.update_layout(height=HEIGHT * (-(-len(titles) // 2)), margin={"t": 48})
    for index, (curves, log) in enumerate(shown.values()):
        place = {"row": index // 2 + 1, "col": index % 2 + 1}
        for position, (name, (x, y)) in enumerate(curves.items()):
            line = {"color": PALETTE[position % len(PALETTE)], "width": 2}
            values = [float(f"{value:.5g}") for value in y]
            figure.add_trace(
                go.Scatter(x=x.tolist(), y=values, name=plain_text(name), mode="lines", line=line,
                           showlegend=index == 0, legendgroup=name), **place,
            )  # fmt: skip
        if log:
            everything = np.concatenate([y for _, y in curves.values()])
            figure.update_yaxes(type="log", **log_ticks(everything), **place)
    figure.update_xaxes(title="step")
    return figure


def _curve(dataset: xr.Dataset, values: xr.DataArray) -> tuple[np.ndarray, np.ndarray]:
    kept = thinned(xr.Dataset({"values": values}).dropna("step"), MOST_POINTS)
    return kept.step.values, kept["values"].values


def _over(runs: Sequence[Watched], name: str, how: str) -> Curves:
    curves = {}
    for run in runs:
        if name in run.dataset:
            values = getattr(run.dataset[name], how)(("layer", "head"))
            curves[run.name] = _curve(run.dataset, values)
    return curves


def _names(files: Sequence[Path]) -> list[str]:
    """File names where they differ, else whole paths."""
    short = [file.name for file in files]
    return short if len(set(short)) == len(short) else [str(file) for file in files]
