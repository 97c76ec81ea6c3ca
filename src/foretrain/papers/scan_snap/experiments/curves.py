"""Figures 3, 8 and 9: curves of the closed forms, and of the flow that predicts training."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import xarray as xr
from numpy import ndarray as Array
from pydantic import Field

from foretrain.core.errors import require, require_at_least, require_positive
from foretrain.core.trajectory import trajectory
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, about
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.experiments.axes import rate_axis, sweep_axis
from foretrain.papers.scan_snap.experiments.parameters import (
    AttentionRate,
    AttentionRates,
    Classes,
    Common,
    DecoderRates,
    Ratio,
    Until,
    Vocab,
)
from foretrain.papers.scan_snap.setting import TRANSITION
from foretrain.papers.scan_snap.simulations.full_gradient import shared_token_classes

FORMULAS = ("as printed", "with all corrections", "flow of training")
NONE: dict[str, Any] = {"constant": False, "per_class": False, "clock": False}


def fig3(
    eta_y: DecoderRates = (0.1, 0.2, 0.5, 1.0, 2.0),
    eta_z: AttentionRate = TRANSITION.eta_z,
    vocab: Vocab = TRANSITION.vocab,
    classes: Classes = TRANSITION.classes,
    common: Common = TRANSITION.common,
    until: Until = 4000.0,
) -> xr.Dataset:
    """Fig 3: the growth factor χ of the dominant distinct token at fixed η_Z, by η_Y, with the time t0 of the snap.

    Three curves each: Theorems 3 and 4 as printed with C0 from the data, the same with all corrections, and the flow
    that predicts training. χ = exp(2z) is what a token's squared weight is multiplied by.
    """
    require_positive("until", until)
    rates, time = rate_axis("eta_y", eta_y), sweep_axis("time", np.linspace(0, until, 201))
    curves = [_logits(time.values, float(rate), eta_z, vocab, classes, common) for rate in rates.values]
    return trajectory(
        {
            "growth_factor": (("eta_y", "formula", "time"), np.exp(2 * np.stack(curves))),
            "snap_time": ("eta_y", theory.snap_time(eta_y=rates.values, vocab=vocab, classes=classes)),
        },
        {"eta_y": rates, "formula": list(FORMULAS), "time": time},
        {"time": "steps", "snap_time": "steps"},
        experiment="scan_snap/fig3", eta_z=eta_z, vocab=vocab, classes=classes, common=common,
    )  # fmt: skip


def _logits(times: Array, eta_y: float, eta_z: float, vocab: int, classes: int, common: float) -> Array:
    """z of the dominant distinct token by each of FORMULAS: [formula, time]."""
    require(vocab >= 2 * classes + 1, f"vocab must be at least 2·classes + 1 = {2 * classes + 1}; got {vocab}.")
    P = shared_token_classes(classes, vocab, common=common)
    data: dict[str, Any] = {"probabilities": P, "eta_y": eta_y, "eta_z": eta_z}
    printed, corrected = (theory.theorem4_growth_factor(times, **data, **which) for which in (NONE, {}))
    z = theory.predicted_logits(P, eta_y=eta_y, eta_z=eta_z, times=times)[:, 1]
    return np.stack([np.log(printed) / 2, np.log(corrected) / 2, z])


def fig8(
    eta_y: DecoderRates = (0.1, 0.5, 1.0, 5.0),
    vocab: Annotated[int, Field(ge=2, le=10**9), about("Size M of the vocabulary.", unit="tokens")] = TRANSITION.vocab,
    steps: Annotated[Count, about("Steps over which the decoder grows.", unit="steps")] = 400,
) -> xr.Dataset:
    """Fig 8: growth of the decoder per step, h*, and in continuous time, h, with the gap between them (Lemma 7)."""
    require_at_least("steps", steps, 1)
    rates, time = rate_axis("eta_y", eta_y), np.arange(steps + 1)
    discrete = np.stack([theory.decoder_growth_discrete(steps, eta_y=rate, vocab=vocab) for rate in rates.values])
    continuous = theory.decoder_growth(time, eta_y=rates.values[:, None], vocab=vocab)
    axes = ("eta_y", "time")
    return trajectory(
        {"h_discrete": (axes, discrete), "h": (axes, continuous), "gap": (axes, discrete - continuous)},
        {"eta_y": rates, "time": time},
        {"time": "steps"},
        experiment="scan_snap/fig8", vocab=vocab,
    )  # fmt: skip


def fig9(
    eta_z: AttentionRates = (0.1, 0.2, 0.5, 1.0, 2.0),
    ratio: Ratio = 1.0,
    vocab: Vocab = TRANSITION.vocab,
    classes: Classes = TRANSITION.classes,
    common: Common = TRANSITION.common,
    until: Until = 4000.0,
) -> xr.Dataset:
    """Fig 9: growth of attention by η_Z at a fixed ratio η_Y/η_Z, and at the snap, where it is the same for all η_Z.

    `logit` is z of the dominant distinct token, f²·B_n by Theorem 4, for the same three formulas as Fig 3.
    """
    require_positive("until", until)
    require_positive("ratio", ratio)
    rates, time = rate_axis("eta_z", eta_z), sweep_axis("time", np.linspace(0, until, 201))
    snap = np.asarray(theory.snap_time(eta_y=ratio * rates.values, vocab=vocab, classes=classes))
    curves, at_snap = [], []
    for rate, t0 in zip(rates.values, snap, strict=True):
        both = _logits(np.append(time.values, t0), float(ratio * rate), float(rate), vocab, classes, common)
        curves.append(both[:, :-1])
        at_snap.append(both[:, -1])
    return trajectory(
        {
            "logit": (("eta_z", "formula", "time"), np.stack(curves)),
            "snap_time": ("eta_z", snap),
            "logit_at_snap": (("eta_z", "formula"), np.stack(at_snap)),
        },
        {"eta_z": rates, "formula": list(FORMULAS), "time": time},
        {"time": "steps", "snap_time": "steps"},
        experiment="scan_snap/fig9", ratio=ratio, vocab=vocab, classes=classes, common=common,
    )  # fmt: skip


EXPERIMENTS = [
    Experiment(
        "scan_snap/fig3",
        "Growth factor of a distinct token over time, by η_Y at fixed η_Z: printed, corrected, in training.",
        fig3,
        batched={"eta_y": "eta_y"},
    ),
    Experiment(
        "scan_snap/fig8", "Decoder growth per step and in continuous time, by η_Y.", fig8, batched={"eta_y": "eta_y"}
    ),
    Experiment(
        "scan_snap/fig9",
        "Growth of attention over time, by η_Z at fixed η_Y/η_Z: printed, corrected, in training.",
        fig9,
        batched={"eta_z": "eta_z"},
    ),
]
