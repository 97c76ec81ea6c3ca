"""Which way the attention of each layer went: sparser, denser, sparser and then denser, or nowhere.

The curve of a layer is its relative entropy: entropy as a share of the largest possible, averaged over heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from jaxtyping import Float
from numpy import ndarray

from foretrain.monitor.alarm_words import steps

FEWEST = 8  # measurements, below which nothing is said about a curve
LEAST_REBOUND = 0.15  # of the fall before it, for a rise to count as one
LEAST_MOVE = 0.02  # of the largest possible entropy: a smaller change does not count as a move
SIGMAS = 3.5  # by how many standard errors a change must stand out from the scatter between measurements
FROZEN_SHARE = 0.3  # of the measured steps, at the end, for which a curve must stand still to count as frozen
SHAPES = ("sparse, then dense", "sparser", "denser", "unmoved", "too short")


@dataclass(frozen=True)
class LayerCurve:
    """How one layer's relative entropy went."""

    layer: str
    shape: str  # one of SHAPES
    start: float
    end: float
    lowest: float
    lowest_step: int
    frozen_since: int | None  # it has not moved since this step, although it had moved before

    def __str__(self) -> str:
        if self.shape == "too short":
            return f"fewer than {FEWEST} measurements"
        went = {
            "sparse, then dense": f"{self.start:.2f} → {self.lowest:.2f} at step {steps(self.lowest_step)} "
            f"→ {self.end:.2f}",
            "unmoved": f"about {self.end:.2f} throughout",
        }.get(self.shape, f"{self.start:.2f} → {self.end:.2f}")
        return went + (f", still since step {steps(self.frozen_since)}" if self.frozen_since is not None else "")


def curves_of(dataset: xr.Dataset) -> list[LayerCurve]:
    """How every layer's attention went; none where no attention was recorded."""
    if "attention_relative_entropy" not in dataset:
        return []
    entropy = dataset.attention_relative_entropy.mean("head")
    return [settled(str(layer), dataset.step.values, entropy.sel(layer=layer).values) for layer in dataset.layer.values]


def settled(layer: str, at: ndarray, values: Float[ndarray, "step"]) -> LayerCurve:
    """How a curve went, with a rebound or a stop only if it was there some records ago already: no headline that may be
    gone with the next record."""
    now = curve_of(layer, at, values)
    earlier = [curve_of(layer, at[:count], values[:count]) for count in _shorter(len(values))]
    known = [curve for curve in earlier if curve.shape != "too short"]
    shape, frozen = now.shape, now.frozen_since
    if shape == "sparse, then dense" and any(curve.shape != shape for curve in known):
        shape = "sparser" if now.end < now.start - LEAST_MOVE else "unmoved"
    if any(curve.frozen_since is None for curve in known):
        frozen = None
    return replace(now, shape=shape, frozen_since=frozen)


def _shorter(count: int) -> list[int]:
    """How many records there were one and two twentieths ago."""
    return sorted({count - max(1, count // 20), count - max(2, count // 10)})


def curve_of(layer: str, at: Sequence[int] | ndarray, values: Float[ndarray, "step"]) -> LayerCurve:
    """How one curve went. It is smoothed over a tenth of its length; `SHAPES` has what it can be called."""
    seen = np.isfinite(values)
    at, values = np.asarray(at)[seen], np.asarray(values)[seen]
    if len(values) < FEWEST:
        last = float(values[-1]) if len(values) else np.nan
        return LayerCurve(layer, "too short", last, last, last, int(at[-1]) if len(at) else 0, None)
    width = max(1, len(values) // 10)
    smooth = _smoothed(values, width)
    scatter = (
        float(np.median(np.abs(np.diff(values)))) / 0.6745 / np.sqrt(2)
    )  # of one measurement, if the curve is smooth
    least = max(LEAST_MOVE, SIGMAS * scatter * np.sqrt(2 / width))
    start, end, low = float(smooth[0]), float(smooth[-1]), int(np.argmin(smooth))
    fall, rise = start - smooth[low], end - smooth[low]
    if fall >= least and rise >= max(least, LEAST_REBOUND * fall):
        shape = "sparse, then dense"
    elif start - end >= least:
        shape = "sparser"
    elif end - start >= least:
        shape = "denser"
    else:
        shape = "unmoved"
    moved = float(np.ptp(smooth)) >= 2 * least
    still = _still_since(smooth, least)
    long_enough = at[-1] - at[still] >= FROZEN_SHARE * (at[-1] - at[0])
    frozen = moved and long_enough and not _drifts(values[still:], scatter)
    return LayerCurve(layer, shape, start, end, float(smooth[low]), int(at[low]), int(at[still]) if frozen else None)


def _smoothed(values: Float[ndarray, "step"], width: int) -> Float[ndarray, "step"]:
    """A running mean, over fewer values at the ends."""
    kernel = np.ones(width)
    return np.convolve(values, kernel, "same") / np.convolve(np.ones(len(values)), kernel, "same")


def _drifts(values: Float[ndarray, "step"], scatter: float) -> bool:
    """Whether the second half lies higher or lower than the first, by more than scatter explains."""
    half = len(values) // 2
    error = scatter * np.sqrt(2 / half)
    return bool(abs(values[-half:].mean() - values[:half].mean()) > max(LEAST_MOVE / 2, 2 * error))


def _still_since(values: Float[ndarray, "step"], least: float) -> int:
    """The first index from which on the curve stays within a band of this width."""
    high = np.maximum.accumulate(values[::-1])[::-1]
    low = np.minimum.accumulate(values[::-1])[::-1]
    return int(np.argmax(high - low <= least))
