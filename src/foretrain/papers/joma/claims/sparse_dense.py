"""Section 4: attention becomes sparse, then dense again: Fig 4, and what training does."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control, Erratum
from foretrain.ledger.comparators import bounded, close, every, positive, surely_positive
from foretrain.ledger.tolerances import EXACT, PRINTED_DIGITS
from foretrain.papers import figure_of
from foretrain.papers.joma.experiments.parameters import Activation, Loss, Variant
from foretrain.papers.joma.experiments.theory import fig4
from foretrain.papers.joma.tolerances import FALLS, RISES

# Fig 4

PUBLISHED = {"start": 2.3026, "lowest": 0.9416, "last": 1.5493}  # entropy at steps 0, 669 and 4999
PUBLISHED_STEP = 669


def _reference() -> xr.Dataset:
    return trajectory(
        {"entropy": ("landmark", list(PUBLISHED.values())), "lowest_at": float(PUBLISHED_STEP)},
        {"landmark": list(PUBLISHED)},
    )


def _dip(variant: Variant) -> xr.Dataset:
    """The entropy at three landmarks, and how far it falls and rises again, there and under eq. 6."""
    curves = fig4(variants=(variant, "eq. 6"), steps=4999)["entropy"]
    lowest = curves.min("time")
    shown = curves.sel(variant=variant)
    return trajectory(
        {
            "entropy": ("landmark", [float(shown[0]), float(shown.min()), float(shown[-1])]),
            "lowest_at": float(shown.argmin("time")),
            "fall": curves.isel(time=0, drop=True) - lowest,
            "comeback": curves.isel(time=-1, drop=True) - lowest,
        },
        {"landmark": list(PUBLISHED)},
    )


def _draw_fig4(*_: xr.Dataset) -> object:
    from foretrain.papers.joma.figures import theory  # Plotly is loaded only to draw

    published = {0: PUBLISHED["start"], PUBLISHED_STEP: PUBLISHED["lowest"], 4999: PUBLISHED["last"]}
    return theory.fig4(fig4(steps=4999), published)


figure4 = Claim(
    id="joma/fig4",
    source="Fig 4 and eq. 6",
    whose="the paper's statement",
    says="While v moves towards its targets by eq. 6, the entropy of attention first falls, as salient components are "
    "learned, and then rises again: 2.3026, .9416 at step 669 and 1.5493 at step 4999 in the published figure. (These "
    "are steps of an equation, not training; for training see joma/sparse_then_dense.)",
    predict=_reference,
    observe=_dip,
    compare=every(
        close("entropy", PRINTED_DIGITS, relative=False, by="as published", seen="here"),
        close("lowest_at", EXACT, by="as published", seen="here"),
        positive("fall"),
        positive("comeback"),
    ),
    settings={"fast": {"variant": "published"}},
    control=Control("a linear activation: v is drawn along Δ for ever", {"variant": "linear"}),
    figure=_draw_fig4,
    finding="The published figure normalises the attention and takes v²/3 for eq. 6's v²/2. Under eq. 6 as written the "
    "entropy falls deeper, to .150.",
)


# In training


def _student(loss: Loss, activation: Activation, seeds: int, steps: int, learns: bool = True) -> xr.Dataset:
    from foretrain.papers.joma.experiments.student import train_student  # loads torch, which takes seconds

    return train_student(loss, activation, tuple(range(1, seeds + 1)), steps, learns)


def _fall_and_comeback(loss: Loss, activation: Activation, seeds: int, steps: int) -> xr.Dataset:
    """How far the entropy falls and comes back in each seed, and for the figure its curves in four settings."""
    curve = _student(loss, activation, seeds, steps)["entropy"]
    lowest = curve.min("time")
    rows = [
        xr.concat([_student(each, a, seeds, steps)["entropy"] for each in DRAWN], xr.IndexVariable("loss", list(DRAWN)))
        for a in ACTIVATIONS
    ]
    return xr.Dataset(
        {
            "fall": curve.isel(time=0, drop=True) - lowest,
            "comeback": curve.isel(time=-1, drop=True) - lowest,
            "entropy": xr.concat(rows, xr.IndexVariable("activation", list(ACTIVATIONS))),
        }
    )


DRAWN: tuple[Loss, ...] = ("squared", "fixed")
ACTIVATIONS: tuple[Activation, ...] = ("relu", "linear")
TRAINED = {"fast": {"seeds": 5, "steps": 3000}, "full": {"seeds": 20, "steps": 6000}}
_training: dict[str, Any] = {
    "observe": _fall_and_comeback,
    "figure": lambda _, measured: figure_of("joma/sparse_dense")(measured),
}

sparse_then_dense = Claim(
    id="joma/sparse_then_dense",
    source='Abstract, section 4 and Fig 4: "attention first becomes sparse, then dense", in training',
    whose="the paper's statement",
    says="When a ReLU node with softmax attention learns a teacher that has the targets of Fig 4, the entropy of its "
    "attention first falls (by more than half a nat) and then rises again (by more than .02 nats), in every seed.",
    compare=every(bounded("fall", low=FALLS), bounded("comeback", low=RISES)),
    settings={tier: {"loss": "squared", "activation": "relu", **sizes} for tier, sizes in TRAINED.items()},
    control=Control("the back-propagated gradient stays fixed (Assumption 1)", {"loss": "fixed"}),
    finding="In training attention comes back only if the loss can be met. With a squared loss the entropy goes from "
    "2.30 to 1.3 and back to 1.7 nats in 6000 steps (means of ten seeds). With a fixed gradient (Assumption 1) it "
    "collapses to .01, and with a logistic loss it falls to the end, as it does in the layer of Fig 2 with ReLU "
    "(2.88 to 1.24 in 6000 steps at temperature 1, rate .4): no target, no return.",
    **_training,
)

linear_too = Claim(
    id="joma/sparse_then_dense_linear",
    source='Abstract and section 5, "A critical difference between the training dynamics of linear and nonlinear MLP"',
    whose="the paper's statement",
    says="With a linear activation the attention stays sparse: its entropy falls and does not rise again.",
    compare=every(bounded("fall", low=FALLS), bounded("comeback", high=RISES)),
    settings={tier: {"loss": "squared", "activation": "linear", **sizes} for tier, sizes in TRAINED.items()},
    control=Control("the back-propagated gradient stays fixed (Assumption 1)", {"loss": "fixed"}),
    expect="fails",
    erratum=Erratum(
        says="What brings attention back is not the nonlinearity. A linear node that learns a linear teacher with a "
        "squared loss goes from 2.30 down to 1.5 and back to 2.27 nats in 6000 steps, further back than a ReLU node "
        "(1.3 and 1.7). Under a fixed gradient (Assumption 1), on which Theorem 2 rests, attention stays sparse, but "
        "so it does with ReLU.",
        formulas=(
            r"\text{nonlinear }\phi\ \Rightarrow\ \text{attention becomes dense again}",
            r"\text{a loss that can be met}\ \Rightarrow\ \text{attention becomes dense again, whatever }\phi",
        ),
        consequence="Drop and rebound of the attention entropy say that the targets are being reached, not that the "
        "activation is nonlinear.",
        headline=True,
    ),
    **_training,
)


def _order(loss: Loss, activation: Activation, seeds: int, steps: int, learns: bool = True) -> xr.Dataset:
    """For each seed, minus the rank correlation of |Δ_l| at the start and the share of it that is left when a quarter
    of the mean squared error is: above 0 if salient tokens are learned first."""
    from foretrain.measures import spearman

    run = _student(loss, activation, seeds, steps, learns)
    error, pull = run["error"].values, np.abs(run["pull"].values)  # [time, seed] and [time, seed, context]
    orders = []
    for seed in range(error.shape[1]):
        low = error[:, seed] < error[0, seed] / 4
        at = int(np.argmax(low)) if low.any() else -1
        orders.append(-spearman(pull[0, seed], pull[at, seed] / pull[0, seed]))
    return trajectory({"order_of_learning": ("seed", np.array(orders))}, {"seed": run["seed"].values})


salient_first = Claim(
    id="joma/theorem4_trained",
    source="Theorem 4 and its remark, in training",
    whose="the paper's statement",
    says="In training salient components are learned first, thanks to attention: when a quarter of the squared error "
    "is left, the more a token pulled at the start, the less of its pull is left (by more than three standard errors "
    "over seeds).",
    observe=_order,
    compare=surely_positive("order_of_learning"),
    settings={
        "fast": {"loss": "squared", "activation": "linear", "seeds": 10, "steps": 1500},
        "full": {"loss": "squared", "activation": "linear", "seeds": 30, "steps": 3000},
    },
    control=Control("attention stays uniform: all components are learned at one rate", {"learns": False}),
)

CLAIMS = [figure4, sparse_then_dense, linear_too, salient_first]
