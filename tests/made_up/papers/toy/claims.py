"""Claims of the made-up paper: one that holds, an erratum, surprises, one that stops, hostile words, many shapes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from foretrain.papers.toy import theory
from foretrain.papers.toy.setting import UNTIL
from foretrain.papers.toy.tolerances import SAME_DECAY

from foretrain.core.trajectory import trajectory
from foretrain.data.corpora import text_corpus
from foretrain.ledger.claim import Assumption, Claim, Control, Erratum
from foretrain.ledger.comparators import bounded, close, covered, every, ranked, same_mean
from foretrain.ledger.tolerances import ALGEBRA, FLOW


def _decay(rate: float, points: int = 50, formula: Callable[..., Any] = theory.decay) -> xr.Dataset:
    t = np.linspace(0, UNTIL, points)
    return trajectory({"x": ("time", formula(t, rate))}, {"time": t}, units={"x": "m"})


def _decay_product(rate: float, points: int = 50, slip: float = 0.0) -> xr.Dataset:
    t = np.linspace(0, UNTIL, points)
    return trajectory({"x": ("time", np.exp(-rate * t / 2) ** 2 + slip)}, {"time": t}, units={"x": "m"})


holds = Claim(
    id="toy/holds",
    source="Lemma 1",
    says="Decay squared is decay at <script>alert('says')</script> twice the rate.",
    assumes=(
        Assumption("the rate is above 0", lambda rate: (rate > 0, f"rate {rate:g} <b>measured</b>")),
        Assumption("the rate is below 1", lambda rate: (rate < 1, f"rate {rate:g}"), needed=False),
    ),
    predict=_decay,
    observe=_decay_product,
    compare=close("x", SAME_DECAY),
    settings={"fast": {"rate": 2.0}, "full": {"rate": 2.0, "points": 5000}},
    control=Control("the measurement slips", {"slip": 0.1}),
)

misprint = Claim(
    id="toy/misprint",
    source="Theorem 2, eq. 7",
    says="Decay goes at the rate.",
    predict=_decay,
    observe=_decay_product,
    compare=close("x", ALGEBRA),
    settings={"fast": {"rate": 1.0}},
    control=Control("the measurement slips", {"slip": 0.1}),
    erratum=Erratum(
        changes={"formula": theory.decay_printed},
        says="Printed 2ρ, right is ρ: at t = 1 printed .135, true .368.",
        formulas=(r"x = e^{-2\rho t}", r"x = e^{-\rho t} \text{<img src=x onerror=alert(2)>}"),
        consequence="Decay takes twice as long as one would think.",
    ),
    whose="the paper's statement",
)


def _slow(rate: float, pause: float) -> xr.Dataset:
    time.sleep(pause)
    return _decay_product(rate)


slow = [
    Claim(
        id=f"toy/slow{number}",
        source=f"Lemma {number}",
        says="A measurement that takes its time.",
        predict=_decay,
        observe=_slow,
        compare=close("x", ALGEBRA),
        settings={"fast": {"rate": 1.0 + number, "pause": 0.3}},
        control=Control("the formula takes another rate", {"rate": float("nan")}),
    )
    for number in range(3)
]


def _stops() -> xr.Dataset:
    raise RuntimeError("the <img src=x onerror=alert(1)> measurement broke")


def _warns(rate: float) -> xr.Dataset:
    warnings.warn("2 of 9 runs diverged, the first at step 40.", stacklevel=2)
    return _decay_product(rate)


stops = Claim(
    id="toy/stops",
    source="Remark 3",
    says="A measurement without expectation that stops.",
    predict=lambda: _decay(1.0),
    observe=_stops,
    compare=close("x", ALGEBRA),
    settings={"fast": {}},
    control=Control("nothing helps", {}),
    expect=None,
)
skips = Claim(
    id="toy/skips",
    source="Remark 5",
    says="A text of two words, in the data folder.",
    predict=lambda: trajectory({"x": 2.0}),
    observe=lambda more=0: trajectory({"x": float(len(text_corpus("wikitext-2", "dev").split()) + more)}),
    compare=close("x", ALGEBRA),
    settings={"fast": {}},
    control=Control("one word more", {"more": 1}),
)
surprise = Claim(
    id="toy/surprise",
    source="Remark 4",
    whose="our own expectation",
    finding="It does not <u>hold</u>.",
    says="Said to hold, and does not.",
    predict=partial(_decay, formula=theory.decay_printed),
    observe=_warns,
    compare=close("x", ALGEBRA),
    settings={"fast": {"rate": 1.0}},
    control=Control("no rate at all", {"rate": 0.0}),
)


def _grid(values: np.ndarray, **more: Any) -> xr.Dataset:
    coords = {"eta": [0.1, 1.0, 10.0, 1000.0], "seed": [1, 2, 3, 4]}
    return trajectory({"entropy": (("eta", "seed")[: values.ndim], values), **more}, coords)


def _published(level: float) -> xr.Dataset:
    more = {"entropy_std": ("eta", np.full(4, 0.2)), "entropy_seeds": ("eta", np.full(4, 10))}
    return _grid(level / np.arange(1.0, 5), **more)


def _simulated(shift: float = 0.0) -> xr.Dataset:
    noise = np.array([-0.1, 0.05, 0.1, -0.05])
    return _grid((1 / np.arange(1.0, 5))[:, None] + noise + shift)


means = Claim(
    id="toy/means",
    source="Figure 5",
    says="Entropy falls with the rate.",
    predict=_published,
    observe=_simulated,
    compare=every(same_mean("entropy"), ranked("entropy", "eta", rising=False)),
    settings={"fast": {"level": 1.0}},
    control=Control("shifted", {"shift": 1.0}),
)


def _bounds() -> xr.Dataset:
    return trajectory(
        {"ratio_low": ("size", np.arange(1, 6) ** 0.5), "ratio_high": ("size", np.arange(1, 6) * 2.0)},
        {"size": np.arange(1, 6)},
    )


def _ratio(excess: float = 0.0) -> xr.Dataset:
    ratio = np.arange(1, 6)[:, None] * 1.1 + np.arange(3) / 10 + excess
    return trajectory({"ratio": (("size", "kind"), ratio)}, {"size": np.arange(1, 6), "kind": ["a", "b<", "c"]})


bounds = Claim(
    id="toy/bounds",
    source="Lemma 6",
    says="The ratio keeps its bounds.",
    predict=_bounds,
    observe=_ratio,
    compare=bounded("ratio", low="ratio_low", high="ratio_high"),
    settings={"fast": {}},
    control=Control("excess", {"excess": 9.0}),
)


def _matrix(off: float = 0.0) -> xr.Dataset:
    rows = np.add.outer(np.arange(40.0), np.arange(60.0) / 7)
    return trajectory({"gradient": (("row", "column"), rows + off), "norm": ((), 3.0 + off)})


matrix = Claim(
    id="toy/matrix",
    source="eq. 3",
    says="Two gradients are one.",
    finding="The <b>norm</b> agrees, too.",
    predict=lambda: _matrix(),
    observe=_matrix,
    compare=every(close("gradient", FLOW), close("norm", FLOW)),
    settings={"fast": {}},
    control=Control("off", {"off": 1.0}),
)


def _inside(share: float) -> xr.Dataset:
    return trajectory({"inside": ("draw", np.arange(200) < 200 * share)}, {"draw": np.arange(200)})


coverage = Claim(
    id="toy/coverage",
    source="Lemma 8",
    says="The band covers nine in ten.",
    predict=lambda: trajectory({"promised": ((), 0.9)}),
    observe=_inside,
    compare=covered("inside", "promised"),
    settings={"fast": {"share": 0.95}},
    control=Control("half", {"share": 0.5}),
    expect_from="full",
)

CLAIMS = (holds, misprint, means, bounds, matrix, coverage, *slow, stops, skips, surprise)
