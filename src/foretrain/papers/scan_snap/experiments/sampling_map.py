"""Where training on drawn samples is predicted: z of the dominant token in training, by the flow and by the moments.

Each class has one common token and two distinct ones, in shares .7 and .3. Sequences are infinitely long; the classes
of a step are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import xarray as xr
from pydantic import Field

from foretrain.core.trajectory import trajectory
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, Positive, about
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.experiments.axes import rate_axis
from foretrain.papers.scan_snap.experiments.parameters import Ratios
from foretrain.papers.scan_snap.simulations.full_gradient import (
    common_for_overlap,
    shared_token_classes,
    trained_logits,
)

DOMINANT = 1  # the token of class 0; those of the other classes are every second one from it
PREDICTIONS = ("flow", "steps without noise", "moments")


def one_task(
    overlap: Annotated[float, Field(gt=0, lt=1), about("Overlap f_n·f_n' of two classes at the start.")],
    classes: Annotated[Count, about("Number K of classes.")],
    vocab: Annotated[Count, about("Size M of the vocabulary.", unit="tokens")],
    eta_y: Annotated[Positive, about("Learning rate η_Y of the decoder.")],
    batch: Annotated[Count, about("Samples per step, of classes drawn at random.")],
    ratio: Ratios = (0.2, 1.0, 5.0, 10.0, 50.0),
    at: Annotated[Sequence[Positive], Field(min_length=1), about("Times at which training is compared.", unit="t0")] = (
        0.25,
        1.0,
        2.0,
    ),
    samples: Annotated[
        Count, about("How many runs: as many as make batch · K · runs at least this, but at least 4.")
    ] = 500,
) -> xr.Dataset:
    """Mean of the dominant tokens' z over runs and classes, its standard error, and what is predicted: [ratio, at].

    `meaningful` is 1 where `applies` says that the prediction with this batch is.
    """
    P, ratios = shared_token_classes(classes, vocab, common=common_for_overlap(overlap)), rate_axis("ratio", ratio)
    steps = np.rint(np.array(at) * theory.snap_time(eta_y=eta_y, vocab=vocab, classes=classes)).astype(int)
    runs = max(4, -(-samples // (batch * classes)))
    z = trained_logits(
        P, eta_y=eta_y + 0 * ratios, eta_z=eta_y / ratios, save_at=steps, batch=batch, seeds=runs, drawn_classes=True
    )["z"]
    dominant = (
        z.isel({"class": 0, "token": slice(DOMINANT, 2 * classes + 1, 2)})
        .mean("token")
        .transpose("ratio", "time", "seed")
    )
    predicted, meaningful, excess = [], [], []
    for r in ratios.values:
        setting: dict[str, Any] = {"eta_y": eta_y, "eta_z": eta_y / float(r)}
        judged = theory.applies(P, **setting, batch=batch)
        meaningful.append(float(next(p.meaningful for p in judged.predictions if p.function == "predicted_logits")))
        excess.append(theory.noise_excess(P, **setting, times=steps, batch=batch))
        flow = theory.predicted_logits(P, **setting, times=steps)
        quiet, _ = theory.logit_moments(P, **setting, times=steps, batch=np.inf)
        try:
            moments = theory.predicted_logits(P, **setting, times=steps, batch=batch)
        except theory.RunsAway:
            moments = np.full_like(flow, np.nan)
        predicted.append([z[:, DOMINANT] for z in (flow, quiet, moments)])
    axes = ("ratio", "at")
    return trajectory(
        {
            "trained": (axes, dominant.mean("seed").values),
            "trained_error": (axes, dominant.std("seed", ddof=1).values / np.sqrt(runs)),
            "predicted": ((*axes, "prediction"), np.swapaxes(np.array(predicted), 1, 2)),
            "meaningful": ("ratio", np.array(meaningful)),
            "noise_excess": ("ratio", np.array(excess)),
        },
        {"ratio": ratios.values, "at": list(at), "prediction": list(PREDICTIONS)},
        {"at": "t0"},
        experiment="scan_snap/sampling_map",
    )  # fmt: skip


sampling_map = Experiment(
    "scan_snap/sampling_map",
    "Which prediction of attention holds in training on few samples, by batch, overlap, K, M and both rates.",
    one_task,
    axes={
        "overlap": (0.1, 0.6),
        "classes": (5, 20),
        "vocab": (100, 1000),
        "eta_y": (0.5, 3.0),
        "batch": (1, 8, 64),
    },
    settings={
        "fast": {
            "overlap": (0.3,), "classes": (5,), "vocab": (100,), "eta_y": (1.0,), "batch": (1, 8),
            "ratio": (0.2, 1.0, 5.0),
        },
        "full": {},
    },
)  # fmt: skip

EXPERIMENTS = [sampling_map]
