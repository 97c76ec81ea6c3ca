"""`foretrain lab language`: train a small language model on a text, watched, and report on it."""

from __future__ import annotations

import math
import os
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from foretrain.cli.common import option, say, show
from foretrain.cli.progress import progress_shown
from foretrain.core.errors import InputError, require
from foretrain.core.files import require_writable
from foretrain.language.setting import LanguageSetting
from foretrain.language.state import reached
from foretrain.language.text import read_texts, tokenize
from foretrain.language.training import LanguageRun, train_language_model
from foretrain.monitor.page.curves import curves_of
from foretrain.monitor.page.story import story
from foretrain.monitor.page.writing import write_page
from foretrain.runs.training_log import read_lines

SET = ("Any other setting, such as layers=3 or rate=1e-3.", "NAME=VALUE", "--set")


def language(
    texts: Annotated[list[str], typer.Argument(help="Text files, or wikitext-2.", metavar="TEXT...")],
    out: Annotated[Path, option("Folder to train in.", "DIR")] = Path("language"),
    steps: Annotated[int, option("Length of training.", "N")] = 1000,
    settings: Annotated[list[str] | None, option(*SET)] = None,
    seed: Annotated[int, option("Seed of the initial weights and the order of the text.", "N")] = 1,
    every: Annotated[int, option("Steps between measurements of attention and weights.", "N")] = 20,
    data: Annotated[Path | None, option("Folder that has wikitext-2/.", "DIR", default="$FORETRAIN_DATA")] = None,
    device: Annotated[str, option("Device of torch to train on, such as cuda.", "DEVICE")] = "cpu",
    report: Annotated[Path | None, option("Page to write.", "FILE", default="DIR/report.html")] = None,
) -> None:
    """Train a small language model on your own text, watch it, and write a report.

    With the defaults, a GPT with 2 layers of width 128 on byte pairs, this takes less than ten minutes. You can
    stop it at any time: the same command continues, and gives the same numbers as if it had never stopped. Give more
    steps to train longer. Checkpoints are in DIR/checkpoints, for `foretrain analyze`.

    \b
    Examples:
      foretrain lab language moby-dick.txt --out moby
      foretrain lab language wikitext-2 --data corpora --set layers=3
      foretrain lab language notes.txt --set identity_scaling=true
      torchrun --nproc-per-node 8 -m foretrain lab language wikitext-2
    """
    setting = read_setting(settings or [], steps=steps, seed=seed)
    require(every >= 1, f"--every must be at least 1; got {every}.")
    require_writable("--out", out, folder=True)
    page = report or out / "report.html"
    if report is not None:
        require_writable("--report", page)
    before = reached(out)
    if before >= steps:
        say(f"{out} is already at step {before}, so there is nothing to train; give more --steps to continue.")
    elif before > 0:
        say(f"Continuing at step {before} of {steps}.")
    with progress_shown("language"):
        text = tokenize(read_texts(texts, data=data), setting)
        run = train_language_model(setting, text, out, every=every, device=device)
    if int(os.environ.get("RANK", "0")) > 0:
        return  # under torchrun, the first process speaks for all
    say(f"The training text has {len(text.train):,} tokens, the vocabulary {text.vocabulary:,}.")
    _tell(run, page)


def read_setting(given: list[str], **more: Any) -> LanguageSetting:
    """A setting from NAME=VALUE pairs; each value is read as the type of the setting's own default."""
    defaults = {field.name: field.default for field in fields(LanguageSetting)}
    values: dict[str, Any] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        require(bool(equals), f"--set {pair!r} must have the form NAME=VALUE.")
        if name not in defaults:
            raise InputError(f"There is no setting {name!r}; there are {', '.join(defaults)}.")
        values[name] = _read(name, value, defaults[name])
    return LanguageSetting(**{**values, **more})


def _read(name: str, value: str, default: Any) -> Any:
    if isinstance(default, bool):
        require(value in ("true", "false"), f"{name} must be true or false; got {value!r}.")
        return value == "true"
    try:
        return type(default)(value)
    except ValueError as error:
        kind = "whole number" if isinstance(default, int) else "number"
        raise InputError(f"{name} must be a {kind}; got {value!r}.") from error


def _tell(run: LanguageRun, page: Path) -> None:
    losses = run.evaluated.loss.values
    best, step = float(losses.min()), int(run.evaluated.step.values[losses.argmin()])
    last = int(run.evaluated.step.values[-1])
    later = f" at step {step}, and rose to {losses[-1]:.2f} by step {last}" if step < last else ""
    perplexity = f"{'; the lowest is' if later else ','} a perplexity of {math.exp(best):.0f}"
    show(f"Validation loss fell from {losses[0]:.2f} to {best:.2f} nats per token{later}{perplexity}.")
    records = read_lines(run.folder / "run.jsonl")
    show(" ".join(story(run.watched, curves_of(run.watched), run.setting.steps)[1:]))
    write_page(records, page, title=f"Language model in {run.folder.name}")
    show(f"Report: {page}\nCheckpoints: {run.folder / 'checkpoints'}")
