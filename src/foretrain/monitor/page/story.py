"""What a watched training shows, in a few sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import xarray as xr

from foretrain.monitor.alarm_words import number, steps
from foretrain.monitor.page.curves import FEWEST, SHAPES, LayerCurve
from foretrain.monitor.short_names import without_shared


def story(dataset: xr.Dataset, curves: Sequence[LayerCurve], total: int | None = None) -> list[str]:
    """A few sentences about the training so far: first where it stands, then what `curves_of` it shows."""
    if dataset.sizes.get("step", 0) == 0:
        return ["Nothing has been measured yet."]
    last = int(dataset.step.values[-1])
    sentences = [f"Step {steps(last)}{f' of {steps(total)}' if total else ''}{_loss(dataset)}."]
    short = short_names(dataset)
    if not curves:
        return [*sentences, "No attention was recorded."]
    if all(curve.shape == "too short" for curve in curves):
        return [*sentences, f"There are too few measurements to say how attention moves: {FEWEST} are needed."]
    groups = {shape: [curve for curve in curves if curve.shape == shape] for shape in SHAPES}
    if rebound := groups["sparse, then dense"]:
        at = _range(curve.lowest_step for curve in rebound)
        where = _layers(rebound, short)
        sentences.append(f"Attention got sparser until {at} and then spread again in {where}.")
    if falling := groups["sparser"]:
        sentences.append(
            f"Attention became sparser in {_layers(falling, short)} ({_from_to(falling)} of its largest entropy)."
        )
    if rising := groups["denser"]:
        sentences.append(
            f"Attention became denser in {_layers(rising, short)} ({_from_to(rising)} of its largest entropy)."
        )
    if unmoved := groups["unmoved"]:
        sentences.append(f"Attention has hardly changed in {_layers(unmoved, short, negated=True)}.")
    if frozen := [curve for curve in curves if curve.frozen_since is not None]:
        at = _range(curve.frozen_since for curve in frozen if curve.frozen_since is not None)
        sentences.append(f"It has hardly changed since {at} in {_layers(frozen, short)}.")
    return sentences


def _loss(dataset: xr.Dataset) -> str:
    losses = dataset.loss.values
    if not np.isfinite(losses).any() and not np.isnan(losses[-1]):
        return ", the loss is infinite"
    if np.isnan(losses).all():
        return ""
    if not np.isfinite(losses[-1]):
        return ", the loss is no longer a number"
    finite = losses[np.isfinite(losses)]
    best = int(np.nanargmin(losses))
    no_better = best < 0.8 * (len(losses) - 1) and losses[-1] > 1.05 * losses[best]
    since = f", lowest {number(losses[best])} at step {steps(int(dataset.step.values[best]))}" if no_better else ""
    return f", loss {number(losses[-1])} (at the start {number(finite[0])}{since})"


def short_names(dataset: xr.Dataset) -> dict[str, str]:
    """Names of layers without what all of them share: "transformer.h.0.attn" becomes "0" beside its sisters."""
    return without_shared([str(name) for name in dataset.layer.values] if "layer" in dataset.coords else [])


def _from_to(curves: Sequence[LayerCurve]) -> str:
    ends = [curve.end for curve in curves]
    start = sum(curve.start for curve in curves) / len(curves)
    low, high = f"{min(ends):.2f}", f"{max(ends):.2f}"
    return f"{start:.2f} → {low}" if low == high else f"{start:.2f} → {low} to {high}"


def _layers(curves: Sequence[LayerCurve], short: dict[str, str], *, negated: bool = False) -> str:
    names = [short[curve.layer] for curve in curves]
    if len(names) == len(short) and len(names) > 1:
        return "any layer" if negated else "every layer"
    if len(names) == 1:
        return f"layer {names[0]}"
    if all(name.isdigit() for name in names):
        return f"layers {_runs([int(name) for name in names])}"
    return f"layers {', '.join(names[:-1])} and {names[-1]}"


def _runs(numbers: list[int]) -> str:
    """0, 1, 2, 5 → "0 to 2 and 5"."""
    runs: list[list[int]] = []
    for layer in sorted(numbers):
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    texts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else " and ".join(map(str, run)) for run in runs]
    return ", ".join(texts[:-1]) + (" and " if len(texts) > 1 else "") + texts[-1]


def _range(values: Iterable[int]) -> str:
    numbers = sorted(values)
    if numbers[0] == numbers[-1]:
        return f"step {steps(numbers[0])}"
    return f"steps {steps(numbers[0])} to {steps(numbers[-1])}"
