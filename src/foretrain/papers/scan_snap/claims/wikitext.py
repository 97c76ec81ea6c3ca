"""Fig 7 and 10: attention of encoders trained on WikiText-2 with plain SGD, judged from kept results."""

from __future__ import annotations

import xarray as xr

from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import bounded, surely_positive
from foretrain.ledger.tolerances import Tolerance
from foretrain.papers.kept import kept
from foretrain.papers.scan_snap.tolerances import FROZEN, SPARSER

LAST = 0.25  # of the training
SURE_OF_FIVE = Tolerance(2.776, "ours: standard errors of a mean over five seeds that a t test asks for at 95 %")


def _movement(rate: float) -> xr.Dataset:
    """How fast the first layer's attention moves in the last quarter of training, over its fastest: [depth]."""
    movement = kept("scan_snap/fig7")["movement"].sel(rate=rate, drop=True).mean("seed").dropna("step")
    at_the_end = movement.where(movement["step"] > (1 - LAST) * movement["step"].max(), drop=True).mean("step")
    return xr.Dataset({"late_movement": at_the_end / movement.max("step")})


def _sparsity(rate: float) -> xr.Dataset:
    """How far the entropy of the first layer's attention falls: [depth, seed]."""
    entropy = kept("scan_snap/fig7")["entropy"].sel(rate=rate, drop=True)
    return xr.Dataset({"fall": entropy.isel(step=0, drop=True) - entropy.isel(step=-1, drop=True)})


def _falls(length: str = "") -> xr.Dataset:
    """By how much entropy after training falls from one rate to the next: [rate, seed]."""
    entropy = kept("scan_snap/fig10", length)["entropy"].sel(text="real", drop=True).isel(step=-1, drop=True)
    return xr.Dataset({"fall_by_rate": -entropy.diff("rate")})


sparse = Claim(
    id="scan_snap/fig7",
    source="Fig 7 and section 8, real-world data",
    whose="the paper's statement",
    says="Trained on WikiText-2 with SGD at rate 5, the first layer's attention becomes sparse, in one layer and in "
    "three.",
    observe=_sparsity,
    compare=bounded("fall", low=SPARSER),
    settings={"fast": {"rate": 5.0}},
    control=Control("a rate a hundred times lower, for as many steps", {"rate": 0.05}),
)
freezes = Claim(
    id="scan_snap/fig7_freezes",
    source="Fig 7 and section 8, real-world data",
    whose="the paper's statement",
    says="At some point it freezes, although the rate stays the same: in the last quarter of training it moves at most "
    "half as fast as at its fastest.",
    observe=_movement,
    compare=bounded("late_movement", high=FROZEN),
    settings={"fast": {"rate": 5.0}},
    expect=None,
    finding="At rate 5 attention on WikiText-2 becomes nearly one-hot but does not freeze: in the last quarter of 2500 "
    "steps it still moves at 0.65 of its fastest. At a rate a hundred times lower it slows down to 0.41 without "
    "becoming sparse.",
    control=Control("a rate a hundred times lower, at which it is still on its way", {"rate": 0.05}),
)
by_rate = Claim(
    id="scan_snap/fig10",
    source="Fig 10 and appendix G",
    whose="the paper's statement",
    says="The larger the learning rate, the lower the entropy of attention on validation text after training.",
    observe=_falls,
    compare=surely_positive("fall_by_rate", SURE_OF_FIVE),
    settings={"fast": {"length": ""}},
    control=Control(
        "training stops after 20 steps, when rates of .5 and 1.5 cannot be told apart", {"length": "early"}
    ),
    finding="It is not the text that does it: with shuffled tokens, where nothing is to be attended to, a rate of .5 "
    "leaves 2.43 to 2.45 nats and a rate of 5 leaves .13 to .83 (three seeds).",
)

CLAIMS = [sparse, freezes, by_rate]
