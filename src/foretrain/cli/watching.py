"""`foretrain watch`: a monitored training in the terminal, while it runs or afterwards."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
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
from foretrain.monitor.alarm_words import number
from foretrain.monitor.alarms import alarms_of, evidence_of, in_words
from foretrain.monitor.page.curves import curves_of
from foretrain.monitor.page.ending import ending
from foretrain.monitor.page.story import short_names, story
from foretrain.monitor.page.trouble import trouble
from foretrain.runs.training_log import Record, as_dataset, read_lines

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 24  # of a curve made of bars
LOOK_EVERY = 1.0  # seconds, at the size of the file
LOOK_AT_LEAST_EVERY = 10.0  # seconds, at what is in it


def watch(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="The .jsonl files that Monitors write.")],
    once: Annotated[bool, option("Show the current state and stop.", None, "--once")] = False,
    report: Annotated[Path | None, option("Also write a page with curves.", "FILE.html")] = None,
) -> None:
    """Follow a training that a Monitor records: what attention does, layer by layer, and warnings.

    Several trainings are compared. In a terminal this follows the files until the trainings are over, or until Ctrl-C.
    Otherwise it shows the current state and stops.

    \b
    Examples:
      foretrain watch run.jsonl
      foretrain watch run.jsonl --once --report run.html
      foretrain watch low-rate.jsonl high-rate.jsonl --report both.html
    """
    for file in files:
        require(not file.is_dir(), f"{file} is a folder; give the file in it that Monitor(model, file=...) writes.")
        require(file.is_file(), f"There is no file {file}; give the file that Monitor(model, file=...) writes.")
    require_outputs({"--report": report})
    screen = console(results=True)
    view, over = _look(files)
    if once or over or not screen.is_terminal:
        screen.print(view)
    else:
        _follow(files, screen)
    if report is not None:
        _write(files, report)
        say(f"Wrote {report}.")


def _write(files: Sequence[Path], report: Path) -> None:
    # on use: Plotly takes longer to import than all else
    if len(files) == 1:
        from foretrain.monitor.page.writing import write_page

        write_page(read_lines(files[0]), report, title=files[0].name, end=ending(files[0]))
    else:
        from foretrain.monitor.page.several import watched, write_several

        write_several(watched(files), report)


def _look(files: Sequence[Path]) -> tuple[RenderableType, bool]:
    """What is in the files now, and whether all trainings are over."""
    if len(files) == 1:
        end = ending(files[0])
        return _view(read_lines(files[0]), end.sentence), end.over
    from foretrain.monitor.page.several import HEAD, sentences, watched

    runs = watched(files)
    shown = [Text(visible(sentence)) for sentence in sentences(runs)]
    endings = [Text(visible(f"{run.name}: {run.ending.sentence}"), style="dim") for run in runs]
    compared = table(HEAD, [run.row for run in runs], frame=None, no_wrap=True)
    return Group(*shown, Text(""), compared, Text(""), *endings), all(run.ending.over for run in runs)


def _follow(files: Sequence[Path], screen: Any) -> None:
    """Show the files again whenever one grows, until all trainings are over or the user presses Ctrl-C."""
    with Live(console=screen, auto_refresh=False, vertical_overflow="visible") as live, suppress(KeyboardInterrupt):
        sizes: list[int] = []
        looked = -LOOK_AT_LEAST_EVERY
        while True:
            now = [file.stat().st_size for file in files]
            if now != sizes or time.monotonic() - looked > LOOK_AT_LEAST_EVERY:
                sizes, looked = now, time.monotonic()
                view, over = _look(files)
                live.update(view, refresh=True)
                if over:
                    return
            time.sleep(LOOK_EVERY)


def _view(records: Sequence[Record], end: str) -> RenderableType:
    dataset = as_dataset(records)
    drawn = curves_of(dataset)
    sentences = story(dataset, drawn, records[-1].get("total") if records else None)
    alarms = alarms_of(records)
    serious = [alarm for alarm in alarms if alarm.serious]
    wrong = trouble(records, alarms)
    shown = [*wrong, sentences[0]] if wrong else sentences
    parts: list[RenderableType] = [Text(visible(" ".join(shown)))]
    parts += [Text(visible(f"Warning: {line}"), style="bold red") for line in in_words(serious)]
    parts += [Text(visible(sentence), style="dim") for sentence in evidence_of(serious)]
    parts.append(Text(end, style="dim"))
    if dataset.loss.notnull().any():
        parts.append(Text(f"\nloss {bars(dataset.loss.values)}  {number(float(dataset.loss[-1]))}"))
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
                    number(float(last.attention_largest_logit.max())),
                    f"{float(last.attention_first_token.mean()):.2f}",
                )
            )
        head = ("layer", "entropy / maximum", "now", "sparsest head", "largest logit", "on first token")
        parts += [Text(""), table(head, rows, frame=None, no_wrap=True)]
    return Group(*parts)


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
