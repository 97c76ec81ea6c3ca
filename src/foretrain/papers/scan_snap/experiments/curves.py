"""Figures 3, 8 and 9: curves of the closed forms."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import xarray as xr
from pydantic import Field

from foretrain.core.errors import require_at_least, require_positive
from foretrain.core.trajectory import trajectory
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, about
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.experiments.axes import rate_axis, sweep_axis
from foretrain.papers.scan_snap.experiments.parameters import (
    C0,
    AttentionRate,
    AttentionRates,
    Classes,
    DecoderRates,
    Ratio,
    Until,
    Vocab,
)
from foretrain.papers.scan_snap.setting import TRANSITION


def fig3(
    eta_y: DecoderRates = (0.1, 0.2, 0.5, 1.0, 2.0),
    eta_z: AttentionRate = TRANSITION.eta_z,
    vocab: Vocab = TRANSITION.vocab,
    classes: Classes = TRANSITION.classes,
    c0: C0 = TRANSITION.c0,
    until: Until = 4000.0,
) -> xr.Dataset:
    """Fig 3: the growth factor χ of a distinct token at fixed η_Z, by η_Y, with the time t0 of the snap.

    χ is drawn at its upper bound e^{2B} (eq. 12), which a token reaches if it holds all attention of its class.
    """
    require_positive("until", until)
    rates, time = rate_axis("eta_y", eta_y), sweep_axis("time", np.linspace(0, until, 401))
    growth = theory.attention_growth(
        time.values, eta_y=rates.values[:, None], eta_z=eta_z, vocab=vocab, classes=classes, c0=c0
    )
    return trajectory(
        {
            "growth": (("eta_y", "time"), growth),
            "growth_factor": (("eta_y", "time"), np.exp(2 * growth)),
            "snap_time": ("eta_y", theory.snap_time(eta_y=rates.values, vocab=vocab, classes=classes)),
        },
        {"eta_y": rates, "time": time},
        {"time": "steps", "snap_time": "steps"},
        experiment="scan_snap/fig3", eta_z=eta_z, vocab=vocab, classes=classes, c0=c0,
    )  # fmt: skip


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
    c0: C0 = TRANSITION.c0,
    until: Until = 4000.0,
) -> xr.Dataset:
    """Fig 9: B_n over time by η_Z at a fixed ratio η_Y/η_Z, and at the snap, where it is the same for all η_Z."""
    require_positive("until", until)
    require_positive("ratio", ratio)
    rates, time = rate_axis("eta_z", eta_z), sweep_axis("time", np.linspace(0, until, 401))
    snap = theory.snap_time(eta_y=ratio * rates.values, vocab=vocab, classes=classes)

    def growth(t: np.ndarray) -> np.ndarray:
        z = rates.values[:, None]
        return theory.attention_growth(t, eta_y=ratio * z, eta_z=z, vocab=vocab, classes=classes, c0=c0)

    return trajectory(
        {
            "growth": (("eta_z", "time"), growth(time.values)),
            "snap_time": ("eta_z", snap),
            "growth_at_snap": ("eta_z", growth(snap[:, None])[:, 0]),
        },
        {"eta_z": rates, "time": time},
        {"time": "steps", "snap_time": "steps"},
        experiment="scan_snap/fig9", ratio=ratio, vocab=vocab, classes=classes, c0=c0,
    )  # fmt: skip


EXPERIMENTS = [
    Experiment(
        "scan_snap/fig3",
        "Growth factor of a distinct token over time, by η_Y at fixed η_Z.",
        fig3,
        cut={"eta_y": "eta_y"},
    ),
    Experiment(
        "scan_snap/fig8",
        "Decoder growth per step and in continuous time, by η_Y.",
        fig8,
        cut={"eta_y": "eta_y"},
    ),
    Experiment(
        "scan_snap/fig9",
        "B_n over time, by η_Z at fixed η_Y/η_Z.",
        fig9,
        cut={"eta_z": "eta_z"},
    ),
]
