"""Section 4 and appendix D.2, D.3: how the decoder grows, step by step and in the limit of small steps."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy.special import softmax

from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control, Erratum
from foretrain.ledger.comparators import bounded, close, close_relative, every
from foretrain.ledger.tolerances import ALGEBRA, NONE
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.simulations.decoder_training import (
    drawn_order,
    equal_overlaps,
    train_decoder,
    with_overlaps,
)
from foretrain.papers.scan_snap.tolerances import CLOSED_FORM, GAP_BOUND, GAP_LEFT, ONE_STEP

ROWS = ("time", "class", "label")


def _order(classes: int, steps: int) -> np.ndarray:
    return drawn_order(stream("scan_snap/lemma3_5", classes), runs=1, steps=steps, classes=classes)


def _rows_by_recursion(eta_y: float, vocab: int, classes: int, steps: int) -> xr.Dataset:
    """Eq. 31: w_n = (M−1)h*(N_n)ζ_n, where N_n counts how often class n was seen."""
    order = _order(classes, steps)[0, :, 0]
    counts = [(order[:t] == n).sum() for t in _times(steps) for n in range(classes)]
    h = theory.decoder_growth_discrete(steps, eta_y=eta_y, vocab=vocab)[counts].reshape(-1, classes, 1)
    rows = (vocab - 1) * h * theory.class_directions(classes, vocab)
    return trajectory({"W": (ROWS, rows)}, {"time": _times(steps)})


def _rows_by_descent(
    eta_y: float, vocab: int, classes: int, steps: int, overlap: float, trained_rate: float | None = None
) -> xr.Dataset:
    """Gradient steps on W itself (eq. 8), and on Y by eq. 26. The control trains at `trained_rate` instead of eta_y."""
    order, rate, times = _order(classes, steps), trained_rate or eta_y, _times(steps)
    features = equal_overlaps(classes, overlap)
    W, direct = np.zeros((classes, vocab)), []
    for step, n in enumerate([*order[0, :, 0], 0]):
        if step in times:
            direct.append(W.copy())
        W[n] += rate * (np.eye(vocab)[n] - softmax(W[n]))
    Y = train_decoder(features, order, eta_y=rate, vocab=vocab, save_at=times)[:, 0]
    both = np.stack([direct, features @ Y])
    return trajectory({"W": (("route", *ROWS), both)}, {"route": ["W", "Y"], "time": times})


def _times(steps: int) -> list[int]:
    return sorted({0, *np.geomspace(1, steps, 12).astype(int).tolist()})


lemma3_5 = Claim(
    id="scan_snap/lemma3_5",
    source="Lemma 3, eq. 8 and 26; Lemma 5, eq. 31 to 33",
    says="Training moves one row of W = FᵀY at a time, and w_n(s) = (M−1)h*(s)ζ_n with the recursion (33) for h*.",
    predict=_rows_by_recursion,
    observe=_rows_by_descent,
    compare=close("W", ALGEBRA, by="by the recursion", seen="by gradient steps"),
    settings={
        "fast": {"eta_y": 0.5, "vocab": 50, "classes": 3, "steps": 2000, "overlap": 0.3},
        "full": {"eta_y": 0.5, "vocab": 1000, "classes": 10, "steps": 20_000, "overlap": 0.05},
    },
    control=Control("training runs at another learning rate than the recursion", {"trained_rate": 0.51}),
    whose="the paper's statement",
)


def _rows_symmetric(
    eta_y: float, vocab: int, classes: int, overlap: float, steps: int, recursion: bool = True
) -> xr.Dataset:
    """w_n from its values at its own label, at other labels and at the rest: by the exact recursion, or by eq. 43.

    Eq. 43 is w_n = (1−ρ)(M−1)h*(s)ζ_n.
    """
    times = _times(steps)
    if recursion:
        w = theory.growth_with_equal_overlaps(steps, eta_y=eta_y, vocab=vocab, classes=classes, overlap=overlap)[times]
    else:
        h = theory.decoder_growth_discrete(steps, eta_y=eta_y, vocab=vocab)[times]
        direction = np.array([vocab - 1, -1, -1]) / (vocab - 1)
        w = (1 - overlap) * (vocab - 1) * np.multiply.outer(h, direction)
    kind = np.full((classes, vocab), 2)
    kind[:, :classes] = 1 - np.eye(classes, dtype=int)
    return trajectory({"W": (ROWS, w[:, kind])}, {"time": times})


def _rows_trained(
    eta_y: float, vocab: int, classes: int, overlap: float, steps: int, uneven: bool = False
) -> xr.Dataset:
    """Y by eq. 7 with every class at every step. For the control (`uneven`), class 0 overlaps only half as much."""
    table = np.full((classes, classes), overlap)
    if uneven:
        table[0] = table[:, 0] = overlap / 2
    features = with_overlaps(table)
    order = np.broadcast_to(np.arange(classes), (1, steps, classes))
    Y = train_decoder(features, order, eta_y=eta_y, vocab=vocab, save_at=_times(steps), unmixed=False)
    return trajectory({"W": (ROWS, features @ Y[:, 0])}, {"time": _times(steps)})


remark1 = Claim(
    id="scan_snap/remark1",
    source="Remark 1, eq. 40 to 43",
    says="Where all f_n·f_n' = ρ, training Y by its own gradient (eq. 7) gives a w_n that has one value at its own "
    "label, one at the labels of other classes and one at all other tokens, and these three follow an exact recursion.",
    predict=_rows_symmetric,
    observe=_rows_trained,
    compare=close("W", ALGEBRA, by="by the formula", seen="by gradient steps"),
    whose="the paper's statement",
    settings={
        "fast": {"eta_y": 0.5, "vocab": 30, "classes": 3, "overlap": 0.3, "steps": 1000},
        "full": {"eta_y": 0.5, "vocab": 1000, "classes": 10, "overlap": 0.1, "steps": 10_000},
    },
    control=Control("overlaps are not all equal", {"uneven": True}),
    erratum=Erratum(
        changes={"recursion": False},
        prints="Where all f_n·f_n' = ρ, training Y by its own gradient (eq. 7) gives w_n = (1−ρ)(M−1)h*(N/K)ζ_n: "
        "overlaps only reduce the learning rate.",
        says="Eq. 43 uses Σ_n ζ_n = 0 over the K classes, which is true only if K = M: for K = 2, M = 30 the norm of "
        "the sum is 1.413. So little cancels: at first w_n = η_Y·s(ζ_n + ρΣζ_n')(M−1)/M, its own logit grows at "
        "nearly the full rate, and the overlaps raise the labels of the other classes with it. Even for K = M it is "
        "h* at the rate (1−ρ)η_Y, not (1−ρ)h* at the rate η_Y.",
        formulas=(
            r"w_n = (1-\rho)(M-1)\,h^*(N/K)\,\zeta_n",
            r"\dot w = \frac{\eta_Y}{K}\,\left(I + E\right)\left(e - \alpha\right), \quad "
            r"w_n \text{ with three values: own, other, rest}",
        ),
        consequence="Overlaps do not just slow the decoder down: they make it confuse classes, which is what drives "
        "attention.",
    ),
)


def _growth_closed_form(eta_y: float, vocab: int, until: float) -> xr.Dataset:
    t = np.geomspace(until * 1e-6, until, 201)
    return trajectory({"h": ("time", theory.decoder_growth(t, eta_y=eta_y, vocab=vocab))}, {"time": t})


def _growth_integrated(eta_y: float, vocab: int, until: float, ode_rate: float | None = None) -> xr.Dataset:
    """ODE 44; the control solves it at `ode_rate` instead of eta_y."""
    from foretrain.dynamics.flow import integrate  # loads scipy's solvers, which listing claims can do without

    rate = ode_rate or eta_y
    return integrate(
        lambda t, s: {"h": rate / (vocab - 1 + np.exp(vocab * s["h"]))},
        {"h": 0.0},
        until=until,
        save_at=np.geomspace(until * 1e-6, until, 201),
        rtol=1e-13,
        atol=1e-20,
    )


lemma6 = Claim(
    id="scan_snap/lemma6",
    source="Lemma 6, eq. 44 and 45",
    says="The continuous decoder growth h solves e^{Mh} + (M−1)Mh = Mη_Y·t + 1.",
    predict=_growth_closed_form,
    observe=_growth_integrated,
    compare=close_relative("h", CLOSED_FORM, by="in closed form", seen="by integration"),
    settings={
        "fast": {"eta_y": 0.5, "vocab": 1000, "until": 1e3},
        "paper": {"eta_y": 0.5, "vocab": 1000, "until": 1e5},
    },
    control=Control("the ODE runs at another learning rate than the formula", {"ode_rate": 0.55}),
    whose="the paper's statement",
)

RATES = (0.1, 0.5, 1.0, 5.0)


def _gap_of_steps(rates: tuple[float, ...], vocabs: tuple[int, ...], steps: int) -> xr.Dataset:
    """M(h* − h)/η_Y: its extremes over stretches of time and its last value; and the longest delay of h behind h*.

    The delay is the c with h(s+c) = h*(s), for s ≤ ln M/η_Y; eq. 45 gives s+c from h*(s).
    """
    eta_y, M = np.array(rates)[:, None], np.array(vocabs, dtype=float)
    stepped = theory.decoder_growth_discrete(steps, eta_y=eta_y, vocab=M)
    s = np.arange(steps + 1.0)
    rate, size = eta_y[..., None], M[:, None]
    gap = (stepped - theory.decoder_growth(s, eta_y=rate, vocab=size)) * size / rate
    cuts = np.unique(np.geomspace(1, steps, 60).astype(int)) - 1
    u = np.where(s <= np.log(size) / rate, stepped, 0) * size
    delay = np.where(u > 0, (np.expm1(u) + (size - 1) * u) / (size * rate) - s, 0).max(axis=-1)
    axes = ("eta_y", "vocab", "time")
    return trajectory(
        {
            "largest_gap": (axes, np.maximum.reduceat(gap, cuts, axis=-1)),
            "smallest_gap": (axes, np.minimum.reduceat(gap, cuts, axis=-1)),
            "last_gap": (axes[:2], gap[..., -1]),
            "delay": (axes[:2], delay),
        },
        {"eta_y": list(rates), "vocab": list(vocabs), "time": cuts + 1},
        units={"time": "steps"},
    )


lemma7 = Claim(
    id="scan_snap/lemma7",
    source="Lemma 7 and Fig 8",
    says="0 ≤ h*(s) − h(s) ≤ 2η_Y/M at every step, h(s+c) ≥ h*(s) with a constant c while s ≤ ln M/η_Y, and the gap "
    "goes to 0. Measured: M(h* − h)/η_Y is never above .33 for η_Y up to 5, and stays below 1 even for η_Y = 100; it "
    "is the end, not the bound, that a large rate spoils: at η_Y = 50 the gap stands still.",
    observe=_gap_of_steps,
    compare=every(
        bounded("smallest_gap", low=NONE),
        bounded("largest_gap", high=GAP_BOUND),
        bounded("last_gap", high=GAP_LEFT),
        bounded("delay", high=ONE_STEP),
    ),
    settings={
        "fast": {"rates": RATES, "vocabs": (1000,), "steps": 100_000},
        "full": {"rates": RATES, "vocabs": (30, 1000, 10_000), "steps": 1_000_000},
    },
    control=Control("a learning rate of 50: the first step overshoots, and the gap does not close", {"rates": (50.0,)}),
    whose="the paper's statement",
)


CLAIMS = [lemma3_5, remark1, lemma6, lemma7]
