"""Fig 6 and 8: entropy of attention in encoders trained on WikiText-2, judged from kept results."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import bounded, close, every, positive
from foretrain.papers.joma.setting import FIG8_ENTROPIES
from foretrain.papers.joma.tolerances import DIP, NEAR_PUBLISHED, REBOUND
from foretrain.papers.kept import kept

FIG8 = "joma/fig8"
SMOOTH = 5  # evaluations in a running mean, so that the lowest point is not the lowest noise
THEORY_RATES = (1e-4, 1e-3)  # where the published curves have the shape of Fig 4
COLLAPSE = 1e-2  # where they do not: attention collapses to one token
EARLY, BEFORE_THE_REBOUND, TRAINED, ALL_STEPS = 100, 500, 1000, 4000  # steps


def _entropy(depth: int, rates: tuple[float, ...]) -> xr.DataArray:
    """Entropy [rate, step, layer] of the layers that there are, as a mean over seeds."""
    cells = kept(FIG8)["entropy"].sel(depth=depth, text="real", rate=list(rates)).mean("seed")
    return cells.isel(layer=slice(depth))


def _shape(entropy: xr.DataArray) -> xr.Dataset:
    """How far entropy falls below its start, and how far it comes back by the end."""
    smooth = entropy.rolling(step=SMOOTH, center=True).mean().dropna("step")
    low, end = smooth.min("step"), smooth.isel(step=-1, drop=True)
    return xr.Dataset({"fall": entropy.isel(step=0, drop=True) - low, "comeback": end - low})


def _top_and_bottom(rates: tuple[float, ...], steps: int) -> xr.Dataset:
    """By how much entropy after so many steps is higher in the top layer than in the bottom one, and how far the top
    layer's came back."""
    entropy = _entropy(3, rates).sel(step=slice(None, steps))
    end = entropy.rolling(step=SMOOTH, center=True).mean().dropna("step").isel(step=-1, drop=True)
    rebound = _shape(entropy)["comeback"].isel(layer=-1, drop=True)
    return xr.Dataset({"denser": end.isel(layer=-1, drop=True) - end.isel(layer=0, drop=True), "comeback": rebound})


def _losses(rates: tuple[float, ...], steps: int) -> xr.Dataset:
    """How much lower the validation loss is at these rates than at the rate of collapse: [depth, rate]."""
    loss = kept(FIG8)["validation_loss"].sel(text="real", step=slice(None, steps)).mean("seed").min("step")
    return xr.Dataset({"loss_gain": loss.sel(rate=COLLAPSE, drop=True) - loss.sel(rate=list(rates))})


def _at(step: int, depths: tuple[int, ...]) -> xr.Dataset:
    cells = kept(FIG8)["entropy"].sel(text="real", step=step).mean("seed")
    return _by_curve(
        {
            (depth, rate, layer): float(cells.sel(depth=depth, rate=rate, layer=layer))
            for depth, rate, layer in FIG8_ENTROPIES
            if depth in depths
        }
    )


def _published(depths: tuple[int, ...]) -> xr.Dataset:
    return _by_curve({curve: entropy for curve, entropy in FIG8_ENTROPIES.items() if curve[0] in depths})


def _by_curve(entropies: Mapping[tuple[int, float, int], float]) -> xr.Dataset:
    names = [f"{depth} layer{'s' * (depth > 1)}, rate {rate:g}, layer {layer}" for depth, rate, layer in entropies]
    return trajectory({"entropy": ("curve", np.array(list(entropies.values())))}, {"curve": names})


fig8 = Claim(
    id="joma/fig8",
    source="Fig 6 and 8, one layer on WikiText-2",
    whose="the paper's statement",
    says="While a one-layer encoder is trained on WikiText-2, the entropy of its attention falls and then rises again, "
    "as in Fig 4 (rates 1e-4 and 1e-3).",
    observe=lambda rates: _shape(_entropy(1, rates).isel(layer=0, drop=True)),
    compare=every(bounded("fall", low=DIP), bounded("comeback", low=REBOUND)),
    settings={"fast": {"rates": THEORY_RATES}},
    control=Control(
        "a rate of 1e-2, at which attention collapses to one token and stays there", {"rates": (COLLAPSE,)}
    ),
)
top_layers = Claim(
    id="joma/fig6_top_layers",
    source="Fig 6, three layers on WikiText-2",
    whose="the paper's statement",
    says="In three layers the top layer's attention has the same dip and rebound, while the bottom layer's entropy is "
    "held down.",
    observe=_top_and_bottom,
    compare=every(positive("denser"), bounded("comeback", low=REBOUND)),
    settings={"fast": {"rates": THEORY_RATES, "steps": ALL_STEPS}},
    control=Control("the first 500 steps, after which nothing has come back yet", {"steps": BEFORE_THE_REBOUND}),
)
lowest_loss = Claim(
    id="joma/fig8_loss",
    source="Fig 8, caption",
    whose="the paper's statement",
    says="The rates at which attention dips and rebounds give a lower validation loss than the one at which it "
    "collapses.",
    observe=_losses,
    compare=positive("loss_gain"),
    settings={"fast": {"rates": THEORY_RATES, "steps": ALL_STEPS}},
    control=Control("the first 100 steps, after which the largest rate is ahead of the smallest", {"steps": EARLY}),
)
published = Claim(
    id="joma/fig8_published",
    source="Fig 6 and 8, the authors' result files",
    whose="our own expectation",
    says="After 1000 steps the entropy of every layer is the published one to 0.3 nats, at three rates, in one and "
    "three layers, although our vocabulary is an eighth of theirs.",
    predict=_published,
    observe=_at,
    compare=close("entropy", NEAR_PUBLISHED, relative=False, by="in the published runs", seen="here"),
    settings={"fast": {"step": TRAINED, "depths": (1, 3)}},
    control=Control("one layer only, where all three rates agree", {"depths": (1,)}),
    expect=None,
    finding="After 1000 steps ten of twelve entropies are the published ones to 0.17 nats, with an eighth of the "
    "vocabulary. The middle layer of three at rate 1e-4 is 0.38 nats higher here; the top layer at rate 1e-2, where "
    "attention collapses, is 0.80 nats lower.",
)

CLAIMS = [fig8, top_layers, lowest_loss, published]
