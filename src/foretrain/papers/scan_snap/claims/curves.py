"""Fig 3, Fig 9 and section 6, points (a) to (c), in training: how the rates order the snap and the growth of attention.

The snap of a training is read off its own curve: the first time at which d ln z/d ln t falls below 1.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import xarray as xr
from numpy import ndarray as Array

from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control, Erratum
from foretrain.ledger.comparators import bounded, close_relative, conserved, every, ranked
from foretrain.papers import figure_of
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.experiments import curves as experiments
from foretrain.papers.scan_snap.experiments.axes import rate_axis
from foretrain.papers.scan_snap.simulations.full_gradient import (
    common_for_overlap,
    shared_token_classes,
    trained_logits,
)
from foretrain.papers.scan_snap.tolerances import ONE_OVER_ORDER_ONE, ORDER_ONE, PREDICTS, SNAP_READ

Values = tuple[float, ...]
DOMINANT = 1


@lru_cache(maxsize=8)
def _curves(classes: int, vocab: int, overlap: float, eta_y: Values, eta_z: Values, steps: int) -> tuple[Array, Array]:
    """Times, and z of the dominant token of the first class in training, for pairs of rates: [pair, time]."""
    P = shared_token_classes(classes, vocab, common=common_for_overlap(overlap))
    pairs = rate_axis("pair", np.arange(1.0, len(eta_y) + 1))
    times = np.unique(np.rint(np.geomspace(2, steps, 120)).astype(int))
    decoder, attention = (pairs.copy(data=np.array(rates)) for rates in (eta_y, eta_z))
    z = trained_logits(P, eta_y=decoder, eta_z=attention, save_at=times)["z"]
    return times, z.isel({"seed": 0, "class": 0, "token": DOMINANT}).transpose("pair", "time").values


# (a): a larger decoder rate snaps earlier


def _snaps_by_decoder_rate(
    classes: int, vocab: int, overlap: float, eta_z: float, ratio: Values, steps: int, attention: bool = False
) -> xr.Dataset:
    """When training snaps, by η_Y; for the control the rates differ in η_Z instead."""
    decoder = tuple(eta_z * r for r in ratio)
    rates = (decoder, (eta_z,) * len(ratio))
    if attention:
        rates = ((decoder[-1],) * len(ratio), tuple(decoder[-1] / r for r in ratio))
    times, z = _curves(classes, vocab, overlap, *rates, steps)
    return trajectory({"snap": ("ratio", theory.snap_of_curve(times, z))}, {"ratio": list(ratio)})


_SMALL: dict[str, Any] = {"classes": 3, "vocab": 60, "overlap": 0.3}
_LARGE: dict[str, Any] = {"classes": 10, "vocab": 1000, "overlap": 0.5}

fig3 = Claim(
    id="scan_snap/fig3",
    source="Fig 3 and section 6, point (a)",
    says="In training, with η_Z fixed, a larger η_Y snaps attention earlier: the time at which d ln z/d ln t falls "
    "below 1 falls as η_Y rises.",
    observe=_snaps_by_decoder_rate,
    compare=ranked("snap", "ratio", rising=False),
    figure=lambda *_: figure_of("scan_snap/fig3")(experiments.fig3()),
    settings={
        "fast": {**_SMALL, "eta_z": 0.1, "ratio": (1.0, 3.0, 10.0), "steps": 500},
        "full": {**_LARGE, "eta_z": 0.02, "ratio": (10.0, 25.0, 50.0, 100.0), "steps": 2000},
    },
    control=Control("the ratio is raised by a smaller η_Z, and η_Y stays the same", {"attention": True}),
    whose="the paper's statement",
)


# (c): does a smaller decoder rate leave attention sparser?


def _late_logits(
    classes: int, vocab: int, overlap: float, eta_z: float, ratio: Values, steps: int, without: tuple[int, ...] = ()
) -> xr.Dataset:
    """z of the dominant token at the end of training, by η_Y; the control leaves out some of the rates."""
    kept = tuple(r for i, r in enumerate(ratio) if i not in without)
    _, z = _curves(classes, vocab, overlap, tuple(eta_z * r for r in kept), (eta_z,) * len(kept), steps)
    return trajectory({"logit": ("ratio", z[:, -1])}, {"ratio": list(kept)})


def _late_predicted(
    classes: int, vocab: int, overlap: float, eta_z: float, ratio: Values, steps: int, memory: bool = True
) -> xr.Dataset:
    """The same by the flow of training; for the control by the flow without memory."""
    P = shared_token_classes(classes, vocab, common=common_for_overlap(overlap))
    flow = theory.predicted_logits if memory else theory.predicted_logits_adiabatic
    z = [flow(P, eta_y=eta_z * r, eta_z=eta_z, times=[float(steps)])[0, DOMINANT] for r in ratio]
    return trajectory({"logit": ("ratio", np.array(z))}, {"ratio": list(ratio)})


_GROWTH: dict[str, Any] = {
    "source": "Fig 3 and section 6, point (c); eq. 133, point (b)",
    "observe": _late_logits,
    "whose": "the paper's statement",
    "settings": {
        "fast": {**_SMALL, "eta_z": 0.1, "ratio": (1.0, 3.0, 10.0, 30.0), "steps": 1000},
        "full": {**_LARGE, "eta_z": 0.02, "ratio": (10.0, 25.0, 50.0, 100.0, 250.0), "steps": 4000},
    },
}

fig3_growth = Claim(
    id="scan_snap/fig3_growth",
    says="In training, with η_Z fixed, a smaller η_Y leaves the dominant token with a larger z once attention has "
    "snapped, hence a larger B_n and χ and a sparser pattern.",
    compare=ranked("logit", "ratio", rising=False),
    control=Control("only the two largest rates, where the decoder's memory has faded", {"without": (0, 1)}),
    expect="fails",
    erratum=Erratum(
        says="Not in training. At the rates of Fig 3 the order is the other way round: with a common token of "
        "probability .2, χ at t = 4000 is 1.0070 for η_Y = .1 and rises to 1.0077 for η_Y = 2. Where η_Y/η_Z is "
        "larger z first rises and then falls: at K = 10, M = 1000, overlap .5 and η_Z = .02 it is .0354, .0396, "
        ".0409, .0397 and .0335 for η_Y/η_Z = 10, 25, 50, 100 and 250, while B_n by Theorem 4 falls all the way. A "
        "slow decoder remembers the attention it was trained with, and holds it back.",
        formulas=(
            r"\eta_Y \downarrow \;\Rightarrow\; B_n \uparrow",
            r"\eta_Y \downarrow \;\Rightarrow\; z \downarrow \quad \text{while the decoder remembers}",
        ),
        consequence="A smaller decoder rate does not always make attention sparser: where the decoder still remembers "
        "the attention it was trained with, it makes it denser.",
    ),
    **_GROWTH,
)

fig3_growth_corrected = Claim(
    id="scan_snap/fig3_growth_corrected",
    corrects="scan_snap/fig3_growth",
    says="In training z of the dominant token first rises with η_Y and then falls, as the flow of eq. 7 and 94 "
    "predicts to 10 %; it is largest where the decoder's memory begins to fade.",
    predict=_late_predicted,
    compare=close_relative("logit", PREDICTS, by="by the flow", seen="in training"),
    control=Control("a decoder without memory of past attention", {"memory": False}),
    **_GROWTH,
)


# (b) and Fig 9: both rates together


def _both_rates(
    classes: int, vocab: int, overlap: float, eta_z: Values, ratio: float, late: int, eta_y: float | None = None
) -> xr.Dataset:
    """z at t0 and at one late time, by η_Z at a fixed ratio; for the control at a fixed η_Y."""
    decoder = tuple(ratio * z if eta_y is None else eta_y for z in eta_z)
    P = shared_token_classes(classes, vocab, common=common_for_overlap(overlap))
    at_snap, after = [], []
    for y, z in zip(decoder, eta_z, strict=True):
        t0 = int(np.rint(theory.snap_time(eta_y=y, vocab=vocab, classes=classes)))
        steps = [min(t0, late), max(t0, late)]
        logits = trained_logits(P, eta_y=y, eta_z=z, save_at=steps)["z"].values[0, :, 0, DOMINANT]
        at_snap.append(logits[steps.index(t0)])
        after.append(logits[steps.index(late)])
    scaled = np.array(at_snap) / at_snap[0]
    return trajectory(
        {"relative_logit_at_snap": ("eta_z", scaled), "late_logit": ("eta_z", np.array(after))}, {"eta_z": list(eta_z)}
    )


fig9 = Claim(
    id="scan_snap/fig9",
    source="Fig 9, eq. 131, and section 6, point (b)",
    says="In training, with η_Y/η_Z fixed, z of the dominant token at t0 does not depend on η_Z, and after it a larger "
    "η_Z gives a larger z. This is exact for small steps: both rates times a factor is time times that factor.",
    observe=_both_rates,
    compare=every(
        conserved("relative_logit_at_snap", SNAP_READ, axis="eta_z"), ranked("late_logit", "eta_z", rising=True)
    ),
    figure=lambda *_: figure_of("scan_snap/fig9")(experiments.fig9()),
    settings={
        "fast": {**_SMALL, "eta_z": (0.02, 0.04, 0.08), "ratio": 5.0, "late": 600},
        "full": {**_LARGE, "eta_z": (0.01, 0.02, 0.05), "ratio": 50.0, "late": 1000},
    },
    control=Control("η_Y is held fixed instead of η_Y/η_Z", {"eta_y": 0.2}),
    whose="the paper's statement",
)


# The snap itself


def _snap_in_training(overlaps: Values, classes: int, vocab: int, ratio: float, rate: float) -> xr.Dataset:
    """The time of the snap in units of t0, by overlap."""
    eta_y = rate * classes
    t0 = float(theory.snap_time(eta_y=eta_y, vocab=vocab, classes=classes))
    curves = [_curves(classes, vocab, overlap, (eta_y,), (eta_y / ratio,), int(3 * t0)) for overlap in overlaps]
    snaps = [theory.snap_of_curve(times, z[0]) / t0 for times, z in curves]
    return trajectory({"relative_snap": ("overlap", np.array(snaps))}, {"overlap": list(overlaps)})


snap_training = Claim(
    id="scan_snap/snap_training",
    source="Theorem 4, attention scanning and snapping",
    says="In training attention scans, with z of the dominant token growing at least as fast as t, and then snaps: "
    "d ln z/d ln t falls below 1 within a factor of 2 of t0 = 2(1+ω1)K·ln M/η_Y, for overlaps from .05 to .7.",
    observe=_snap_in_training,
    compare=bounded("relative_snap", low=ONE_OVER_ORDER_ONE, high=ORDER_ONE),
    settings={
        "fast": {"overlaps": (0.1, 0.5), "classes": 3, "vocab": 100, "ratio": 300.0, "rate": 0.1},
        "full": {"overlaps": (0.05, 0.2, 0.5, 0.7), "classes": 10, "vocab": 1000, "ratio": 1000.0, "rate": 0.05},
    },
    control=Control("attention learns as fast as the decoder", {"ratio": 1.0}),
    whose="the paper's statement",
    finding="With η_Y/η_Z = 1000, ten classes and M = 1000 training snaps at .49, .52, 1.15 and 1.38 times t0 for "
    "overlaps .02, .05, .7 and .8. With η_Y = η_Z it snaps much earlier, because the decoder's memory stops attention.",
)

CLAIMS = [fig3, fig3_growth, fig3_growth_corrected, fig9, snap_training]
