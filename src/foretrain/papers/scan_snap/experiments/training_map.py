"""Where which prediction of attention is right: flow, flow without memory and Theorem 4, against training in the model.

Each class has one common token and two distinct ones, in shares .7 and .3. Rates are per class: η_Y = K·`rate`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
import xarray as xr
from numpy import ndarray as Array
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

PREDICTIONS: dict[str, Callable[..., Array]] = {
    "flow": theory.predicted_logits,
    "flow without memory": theory.predicted_logits_adiabatic,
    "Theorem 4": lambda P, *, eta_y, eta_z, times: _by_theorem4(P, eta_y, eta_z, times),
}
COMMON, DOMINANT = 0, 1  # tokens


def one_task(
    overlap: Annotated[float, Field(gt=0, lt=1), about("Overlap f_n·f_n' of two classes at the start.")],
    classes: Annotated[Count, about("Number K of classes.")],
    vocab: Annotated[Count, about("Size M of the vocabulary.", unit="tokens")],
    ratio: Ratios = (1.0, 10.0, 100.0, 1000.0),
    at: Annotated[Sequence[Positive], Field(min_length=1), about("Times at which training is compared.", unit="t0")] = (
        0.25,
        1.0,
        4.0,
    ),
    rate: Annotated[Positive, about("Learning rate η_Y/K of the decoder for each class.")] = 0.05,
    length: Annotated[
        int, Field(ge=0), about("Length of drawn sequences; 0 for infinitely long ones.", unit="tokens")
    ] = 0,
) -> xr.Dataset:
    """z of the dominant distinct token in training and by each prediction: [ratio, at].

    `memory` is f²·(η_Z/η_Y)·u²/2 at the snap: how much the decoder's past holds attention back. Here f² is that of the
    dominant token, or the sum of f² of the common token over all classes, whichever is larger.
    """
    P, ratios = shared_token_classes(classes, vocab, common=common_for_overlap(overlap)), rate_axis("ratio", ratio)
    eta_y = rate * classes
    steps = np.rint(np.array(at) * theory.snap_time(eta_y=eta_y, vocab=vocab, classes=classes)).astype(int)
    drawn: dict[str, Any] = {"length": length, "batch": 4 * classes, "seeds": 4} if length else {}
    z = trained_logits(P, eta_y=eta_y + 0 * ratios, eta_z=eta_y / ratios, save_at=steps, **drawn)["z"]
    z = z.mean("seed").isel({"class": 0}).transpose("ratio", "time", "token")
    distinct = z.isel(token=slice(DOMINANT, 2 * classes + 1, 2)).mean("token")  # the classes are alike
    squares = (P / np.linalg.norm(P, axis=1, keepdims=True)) ** 2
    strongest = float(np.sqrt(squares.sum(axis=0).max()))  # all classes pull at the common token
    logit = (1 + theory.omega1(vocab=vocab)) * np.log(vocab)
    predicted = [
        [f(P, eta_y=eta_y, eta_z=eta_y / r, times=steps)[:, DOMINANT] for f in PREDICTIONS.values()]
        for r in ratios.values
    ]
    memory = theory.memory(logit, eta_y=1.0, eta_z=1 / ratios.values, feature=strongest)
    axes = ("ratio", "at")
    return trajectory(
        {
            "trained": (axes, distinct.values),
            "common": (axes, z.isel(token=COMMON).values),
            "predicted": ((*axes, "prediction"), np.swapaxes(np.array(predicted), 1, 2)),
            "memory": ("ratio", np.asarray(memory)),
        },
        {"ratio": ratios.values, "at": list(at), "prediction": list(PREDICTIONS)},
        {"at": "t0"},
        experiment="scan_snap/training_map", rate=rate, length=length,
    )  # fmt: skip


def _by_theorem4(P: Array, eta_y: float, eta_z: float, times: Array) -> Array:
    """z = ½·ln χ of the dominant token by Theorem 4 with all corrections; nan elsewhere."""
    factor = theory.theorem4_growth_factor(times, probabilities=P, eta_y=eta_y, eta_z=eta_z)
    z = np.full((len(times), P.shape[1]), np.nan)
    z[:, DOMINANT] = np.log(factor) / 2
    return z


training_map = Experiment(
    "scan_snap/training_map",
    "Which prediction of attention is within 10 % of training, by overlap, K, M and η_Y/η_Z.",
    one_task,
    axes={"overlap": (0.02, 0.1, 0.3, 0.6, 0.8), "classes": (2, 5, 20), "vocab": (50, 300, 3000)},
    settings={
        "fast": {"overlap": (0.1, 0.6), "classes": (3,), "vocab": (30, 100), "at": (0.25, 1.0), "rate": 0.1},
        "full": {},
    },
)

EXPERIMENTS = [training_map]
