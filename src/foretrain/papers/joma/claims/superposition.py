"""Fig 10: pattern superposition in a trained model."""

from __future__ import annotations

from typing import Any

import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import bounded
from foretrain.ledger.tolerances import Tolerance
from foretrain.papers.joma.experiments.superposition import EXPERIMENTS, Model, fig10

SEVERAL = Tolerance(
    0.05,
    "our reading of 'the same neuron can be activated by': one neuron in twenty; before training it "
    "is one in a thousand",
)


def _shares(model: Model, **sizes: Any) -> xr.Dataset:
    """The share of superposed neurons in each seed, over all layers."""
    run = fig10(models=(model,), texts=("real",), **sizes)
    return run[["superposed"]].isel(model=0, text=0, drop=True).mean("layer")


superposition = Claim(
    id="joma/fig10",
    source="Fig 10 and appendix A.4, 'Pattern superposition'",
    says="In a trained language model at least one MLP neuron in twenty fires for two or more unrelated patterns. A "
    "pattern is a token together with what it attends to.",
    predict=lambda: trajectory({"least": SEVERAL.value}),
    observe=_shares,
    compare=bounded("superposed", low="least"),
    settings={tier: {"model": "trained", **sizes} for tier, sizes in EXPERIMENTS[0].settings.items()},
    control=Control("the model before training", {"model": "untrained"}),
    expect_from="full",
)

CLAIMS = [superposition]
