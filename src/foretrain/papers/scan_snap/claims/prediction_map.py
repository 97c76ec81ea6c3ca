"""Where the flow of eq. 7 and 94 predicts training, over overlap, K, M and η_Y/η_Z, and where simpler forms do."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import bounded, close_relative
from foretrain.papers import figure_of
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.experiments.training_map import training_map
from foretrain.papers.scan_snap.tolerances import PREDICTS

Values = tuple[float, ...]
Sizes = tuple[int, ...]


@lru_cache(maxsize=4)
def _map(overlap: Values, classes: Sizes, vocab: Sizes, ratio: Values, at: Values, rate: float) -> xr.Dataset:
    return training_map.run(overlap=overlap, classes=classes, vocab=vocab, ratio=ratio, at=at, rate=rate)


def _predicted(
    overlap: Values, classes: Sizes, vocab: Sizes, ratio: Values, at: Values, rate: float, prediction: str = "flow"
) -> xr.Dataset:
    run = _map(overlap, classes, vocab, ratio, at, rate)
    return trajectory({"logit": run["predicted"].sel(prediction=prediction, drop=True)})


def _trained(overlap: Values, classes: Sizes, vocab: Sizes, ratio: Values, at: Values, rate: float) -> xr.Dataset:
    """What training gives; for the figure, also every prediction."""
    run = _map(overlap, classes, vocab, ratio, at, rate)
    return trajectory({"logit": run["trained"], "predicted": run["predicted"]})


RATIOS = (1.0, 10.0, 100.0, 1000.0)
_GRID: dict[str, dict[str, Any]] = {
    "fast": {
        "overlap": (0.1, 0.6), "classes": (5,), "vocab": (30, 300), "ratio": RATIOS, "at": (0.25, 1.0), "rate": 0.1,
    },
    "full": {
        "overlap": (0.02, 0.1, 0.3, 0.6, 0.8), "classes": (2, 5, 20), "vocab": (50, 300, 3000), "ratio": RATIOS,
        "at": (0.25, 1.0, 4.0), "rate": 0.05,
    },
}  # fmt: skip


predicted_logits = Claim(
    id="scan_snap/predicted_logits",
    source="Eq. 7 and 94, for classes that share one query",
    says="On long sequences the flow of decoder and attention, in K + 1 labels, gives z of the dominant token in "
    "training to 10 %, for overlaps from .02 to .8, K from 2 to 20, M from 30 to 3000 and η_Y/η_Z from 1 to 1000, up "
    "to four times t0.",
    predict=_predicted,
    observe=_trained,
    compare=close_relative("logit", PREDICTS, by="by the flow", seen="in training"),
    figure=lambda _, measured: figure_of("scan_snap/training_map")(measured.rename(logit="trained")),
    settings=_GRID,
    control=Control("the decoder's memory is left out of the flow", {"prediction": "flow without memory"}),
    whose="our own expectation",
    finding="Training is predictable all the same: the flow of eq. 7 and 94, exact for long sequences, needs K + 1 "
    "columns of the decoder instead of M and is within 10 % of gradient steps over the whole map. Short sequences add "
    "noise: with 128 tokens and overlap .1, training moves 4 to 5 times as far; with overlap .6 it is within 15 %.",
)


def _error_without_memory(
    overlap: Values, classes: Sizes, vocab: Sizes, ratio: Values, at: Values, rate: float, most: float
) -> xr.Dataset:
    """Relative error of the flow without memory up to t0, where `memory` is at most `most`; 0 elsewhere."""
    run = _map(overlap, classes, vocab, ratio, at, rate).sel(at=[t for t in at if t <= 1])
    error = abs(run["predicted"].sel(prediction="flow without memory", drop=True) / run["trained"] - 1)
    return trajectory({"memory_error": error.where(run["memory"] <= most, 0.0)})


memory = Claim(
    id="scan_snap/memory",
    source="Assumption 1 (c), η_Y ≫ η_Z",
    says="The decoder's memory of past attention may be left out, at a cost of less than 10 % up to t0, where "
    "f²·(η_Z/η_Y)·u²/2 ≤ .2, with f² summed over the classes that pull at a token and u = (1+ω1)·ln M the decoder's "
    "logit at the snap.",
    observe=_error_without_memory,
    compare=bounded("memory_error", high=PREDICTS),
    settings={tier: {**grid, "most": theory.MEMORY_ALLOWED} for tier, grid in _GRID.items()},
    control=Control("ten times as much memory", {"most": 10 * theory.MEMORY_ALLOWED}),
    whose="our own expectation",
    finding="Assumption 1 (c) asks for more than η_Y ≫ η_Z: it needs η_Y/η_Z ≥ 2.5·f²·u², about 150 at M = 300 and "
    "210 at M = 1000 if one token has most of the attention.",
)

CLAIMS = [predicted_logits, memory]
