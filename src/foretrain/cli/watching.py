"""`foretrain watch`: a monitored training in the terminal, while it runs or afterwards."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from foretrain.cli.common import option, say
from foretrain.cli.files import require_outputs
from foretrain.cli.terminal import console, table
from foretrain.core.errors import require, visible
from foretrain.monitor.alarms import alarms_of, evidence_of, in_words
from foretrain.monitor.page.curves import curves_of
from foretrain.monitor.page.story import short_names, story
from foretrain.runs.training_log import Record, as_dataset, read_training

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 24  # of a curve made of bars
LOOK_EVERY = 1.0  # seconds


def watch(
    file: Annotated[Path, typer.Argument(help="The .jsonl file that a Monitor writes.")],
    once: Annotated[bool, option("Show the current state and stop.", None, "--once")] = False,
    report: Annotated[Path | None, option("Also write a page with curves.", "FILE.html")] = None,
) -> None:
    """Follow a training that a Monitor records: what attention does, layer by layer, and warnings.

    In a terminal this follows the file until the training is finished, or until Ctrl-C. Otherwise it shows the current
    state and stops.

    \b
    Examples:
      foretrain watch run.jsonl
      foretrain watch run.jsonl --once --report run.html
    """
    require(not file.is_dir(), f"{file} is a folder; give the file in it that Monitor(model, file=...) writes.")
    require(file.is_file(), f"There is no file {file}; give the file that Monitor(model, file=...) writes.")
    require_outputs({"--report": report})
    records, finished = read_training(file)
    screen = console(results=True)
    if once or finished or not screen.is_terminal:
        screen.print(_view(records, finished, time.time() - file.stat().st_mtime))
    else:
        records = _follow(file, screen)
    if report is not None:
        from foretrain.monitor.page.writing import write_page  # on use: Plotly takes longer to import than all else

        write_page(records, report, title=file.name)
        say(f"Wrote {report}.")


def _follow(file: Path, screen: Any) -> list[Record]:
    """Show the file again whenever it grows, until it is finished or the user presses Ctrl-C."""
    records, finished = read_training(file)
    size = -1
    with Live(console=screen, auto_refresh=False, vertical_overflow="visible") as live:
        try:
            while not finished:
                if file.stat().st_size != size:
                    size = file.stat().st_size
                    records, finished = read_training(file)
                live.update(_view(records, finished, time.time() - file.stat().st_mtime), refresh=True)
                if not finished:
                    time.sleep(LOOK_EVERY)
        except KeyboardInterrupt:
            pass
    return records


def _view(records: Sequence[Record], finished: bool, age: float = 0.0) -> RenderableType:
    dataset = as_dataset(records)
    drawn = curves_of(dataset)
    sentences = story(dataset, drawn, records[-1].get("total") if records else None)
    serious = [alarm for alarm in alarms_of(records) if alarm.serious]
    shown = sentences[:1] if serious else sentences
    parts: list[RenderableType] = [Text(visible(" ".join(shown)))]
    parts += [Text(visible(f"Warning: {line}"), style="bold red") for line in in_words(serious)]
    parts += [Text(visible(sentence), style="dim") for sentence in evidence_of(serious)]
    parts.append(Text("The training is finished." if finished else f"Last record {_ago(age)}.", style="dim"))
    if dataset.loss.notnull().any():
        parts.append(Text(f"\nloss {bars(dataset.loss.values)}  {float(dataset.loss[-1]):.3g}"))
    if "attention_relative_entropy" in dataset:
        rows = []
        curves = {curve.layer: curve for curve in drawn}  # smoothed, as in the sentences above
        for layer, short in short_names(dataset).items():
            entropy = dataset.attention_relative_entropy.sel(layer=layer)
            last = dataset.sel(layer=layer).isel(step=-1)
            rows.append(
                (
                    short,
                    bars(entropy.mean("head").values, low=0.0, high=1.0),
                    f"{curves[layer].end:.2f}",
                    f"{float(entropy.isel(step=-1).min()):.2f}",
                    f"{float(last.attention_largest_logit.max()):.3g}",
                    f"{float(last.attention_first_token.mean()):.2f}",
                )
            )
        head = ("layer", "entropy / maximum", "now", "sparsest head", "largest logit", "on first token")
        parts += [Text(""), table(head, rows, frame=None, no_wrap=True)]
    return Group(*parts)


def _ago(seconds: float) -> str:
    if seconds < 90:
        return "just now" if seconds < 5 else f"{seconds:.0f} s ago"
    return f"{seconds / 60:.0f} min ago; is the training still running?" if seconds < 7200 else "hours ago"


def bars(values: Any, *, low: float | None = None, high: float | None = None) -> str:
    """A curve as a line of bars, from `low` to `high`; "·" where there is no number."""
    values = np.asarray(values, dtype=float)
    pieces = np.array_split(values, min(WIDTH, len(values)))
    means = np.array([piece[np.isfinite(piece)].mean() if np.isfinite(piece).any() else np.nan for piece in pieces])
    finite = means[np.isfinite(means)]
    if not len(finite):
        return "·" * len(means)
    low, high = finite.min() if low is None else low, finite.max() if high is None else high
    share = (means - low) / (high - low if high > low else 1.0)
    return "".join("·" if np.isnan(s) else BARS[int(np.clip(s * len(BARS), 0, len(BARS) - 1))] for s in share)
