"""Training on few samples: the mean of the logits by moments, where `applies` says that they may be used."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import bounded
from foretrain.papers.scan_snap.experiments.sampling_map import sampling_map
from foretrain.papers.scan_snap.tolerances import SAMPLED

Values = tuple[float, ...]
Sizes = tuple[int, ...]


def _error(
    overlap: Values,
    classes: Sizes,
    vocab: Sizes,
    eta_y: Values,
    batch: Sizes,
    ratio: Values,
    at: Values,
    samples: int,
    prediction: str = "moments",
) -> xr.Dataset:
    """By how much the prediction misses the mean of training, where it is meaningful; nothing elsewhere."""
    run = sampling_map.run(
        overlap=overlap, classes=classes, vocab=vocab, eta_y=eta_y, batch=batch, ratio=ratio, at=at, samples=samples
    )
    error = abs(run["predicted"].sel(prediction=prediction, drop=True) / run["trained"] - 1)
    table = error.where(run["meaningful"] == 1).transpose(..., "at")
    kept = table.values.reshape(-1, table.sizes["at"])
    kept = kept[np.isfinite(kept).all(axis=1)]
    return trajectory(
        {"sampling_error": (("setting", "at"), kept)}, {"setting": np.arange(len(kept)), "at": list(at)}, {"at": "t0"}
    )


_GRID: dict[str, dict[str, Any]] = {
    "fast": {
        "overlap": (0.6,), "classes": (5,), "vocab": (300,), "eta_y": (0.5,), "batch": (1, 8),
        "ratio": (0.2, 10.0, 50.0), "at": (0.25, 1.0), "samples": 500,
    },
    "full": {
        "overlap": (0.1, 0.6), "classes": (5, 10), "vocab": (100, 300), "eta_y": (0.5, 3.0), "batch": (1, 8, 64),
        "ratio": (0.2, 1.0, 5.0, 10.0, 50.0), "at": (0.25, 1.0, 2.0), "samples": 500,
    },
}  # fmt: skip

single_samples = Claim(
    id="scan_snap/single_samples",
    source="Eq. 7 and 94, on samples drawn at random",
    says="In training on few samples per step, down to one, mean and covariance of decoder and logits to second order "
    "in the noise give the mean of z of the dominant token to 15 %, where `applies` calls the prediction meaningful.",
    observe=_error,
    compare=bounded("sampling_error", high=SAMPLED),
    settings=_GRID,
    control=Control("the drift that noise adds to z is left out", {"prediction": "steps without noise"}),
    whose="our own expectation",
    finding="Noise in which classes a step sees has a drift of its own: it moves attention farther on average, a "
    "hundred times as far and more with single samples and a fast η_Z. Second order predicts an excess of up to 30 %; "
    "beyond that `applies` says that attention cannot be predicted.",
)

CLAIMS = [single_samples]
