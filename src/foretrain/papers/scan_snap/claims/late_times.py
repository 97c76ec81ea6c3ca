"""Remark 2 and eq. 132: when the logarithmic stage begins, and what late times look like."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control, Erratum
from foretrain.ledger.comparators import bounded, close
from foretrain.ledger.tolerances import FLOW
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.claims.transition import FIG3, integrated_growth
from foretrain.papers.scan_snap.tolerances import LAG

RATES_AND_SIZES = ("eta_y", "vocab")


def _start_bounds(
    eta_y: tuple[float, ...], vocabs: tuple[int, ...], formula: Callable[..., ArrayLike] = theory.logarithmic_start
) -> xr.Dataset:
    """The stage begins at s1, or at most a share 2/M earlier, because Lemma 9 rounds (M−1)/M to 1."""
    M = np.array(vocabs, dtype=float)
    high = np.asarray(formula(eta_y=np.array(eta_y)[:, None], vocab=M))
    return trajectory(
        {"low": (RATES_AND_SIZES, high * (1 - 2 / M)), "high": (RATES_AND_SIZES, high)},
        {"eta_y": list(eta_y), "vocab": list(vocabs)},
    )


def _stage_start(eta_y: tuple[float, ...], vocabs: tuple[int, ...], balance: float = 1.0) -> xr.Dataset:
    """When e^u overtakes `balance`·(M−1)u, with u = Mh and the time from eq. 44: dt/du = (M − 1 + e^u)/(Mη_Y)."""
    from scipy.integrate import quad  # 0.2 s to load, and only this function integrates
    from scipy.optimize import brentq

    starts = []
    for M in vocabs:
        end = brentq(lambda u, M=M: u - np.log(balance * (M - 1) * u), 1.0, 100.0)
        starts.append(quad(lambda u, M=M: 1 - 1 / M + np.exp(u) / M, 0.0, end)[0] / np.array(eta_y))
    return trajectory({"start": (RATES_AND_SIZES, np.array(starts).T)}, {"eta_y": list(eta_y), "vocab": list(vocabs)})


remark2 = Claim(
    id="scan_snap/remark2",
    source="Remark 2",
    says="h grows logarithmically, e^{Mh} ≥ (M−1)Mh, from s1 = 2(1+ω1)·ln M/η_Y on.",
    erratum=Erratum(
        changes={"formula": theory.logarithmic_start_printed},
        prints="h grows logarithmically, e^{Mh} ≥ (M−1)Mh, from s1 = 2·ln(1+ω1)/η_Y on.",
        says="Printed: s1 = 2·ln(1+ω1)/η_Y. With M = 1000 and η_Y = .1 that is 5.55; e^{Mh} overtakes (M−1)Mh at "
        "182.1 and 2(1+ω1)·ln M/η_Y = 182.3.",
        formulas=(r"s_1 = \frac{2\ln(1+\omega_1)}{\eta_Y}", r"s_1 = \frac{2(1+\omega_1)\ln M}{\eta_Y}"),
        consequence="The printed s1 is far too early; see remark2_training for the same in training.",
    ),
    predict=_start_bounds,
    observe=_stage_start,
    compare=bounded("start", low="low", high="high"),
    whose="the paper's statement",
    settings={"fast": {"eta_y": (0.1, 0.5, 1.0), "vocabs": (100, 1000, 10**6)}},
    control=Control("e^{Mh} must be twice (M−1)Mh", {"balance": 2.0}),
)


def _lag_rate_measured(
    eta_y: tuple[float, ...], vocabs: tuple[int, ...], steps: int, discrete: bool = True
) -> xr.Dataset:
    """How much the lag c(s), for which h*(s) = h(s + c), rises per unit of ln s over two decades; c is from eq. 45."""
    rates, M = np.array(eta_y)[:, None, None], np.array(vocabs, dtype=float)[:, None]
    s = np.array([steps // 100, steps])
    if discrete:
        u = M * theory.decoder_growth_discrete(steps, eta_y=rates[..., 0], vocab=M[:, 0])[..., s]
    else:
        u = M * theory.decoder_growth(s, eta_y=rates, vocab=M)
    lag = (np.expm1(u) + (M - 1) * u) / (M * rates) - s
    return trajectory({"lag_rate": (RATES_AND_SIZES, np.diff(lag)[..., 0] / np.log(s[1] / s[0]))})


remark2_lag = Claim(
    id="scan_snap/remark2_lag",
    source="Remark 2",
    says="h(s) ≤ h*(s) ≤ h(s + c(s)), where the lag c(s) grows as ½·ln s without end: every step overshoots the flow "
    "by half of its second derivative, 1/(2s) of a step.",
    erratum=Erratum(
        changes={"rate": 0.0},
        prints="h(s) ≤ h*(s) ≤ h(s + c) with one constant c = O(ln M) for all s > s1.",
        says="Printed: one constant c = O(ln M) serves for all s > s1, with h* − h ≈ 2η_Y·s0/(Ms). The lag rises by "
        "½·ln 10 = 1.151 per decade of s: with M = 1000 and η_Y = .5 it is 3.12, 4.28, 5.43, 6.58 at s = 10³, …, 10⁶. "
        "h* − h still goes to 0, as ln s/(2Ms).",
        formulas=(r"h^*(s) \le h(s+c), \; c = O(\ln M)", r"h^*(s) \le h(s+c(s)), \; c(s) \sim \tfrac12 \ln s"),
        consequence="None for what follows: h* − h still goes to 0.",
    ),
    predict=lambda eta_y, vocabs, rate=0.5: trajectory(
        {"lag_rate": (RATES_AND_SIZES, np.full((len(eta_y), len(vocabs)), rate))}
    ),
    observe=_lag_rate_measured,
    compare=close("lag_rate", LAG, relative=False, by="by the remark", seen="measured"),
    whose="the paper's statement",
    settings={
        "fast": {"eta_y": (0.1, 0.5, 1.0), "vocabs": (100, 1000, 10**4), "steps": 10**5},
        "full": {"eta_y": (0.1, 0.5, 1.0), "vocabs": (100, 1000, 10**4), "steps": 10**6},
    },
    control=Control("the continuous h in place of h*", {"discrete": False}),
)


def _late_bounds(
    eta_y: float, eta_z: float, vocab: int, classes: int, c0: float, logs: tuple[float, ...],
    with_c0: bool = True, with_classes: bool = True,
) -> xr.Dataset:  # fmt: skip
    """B_n exceeds eq. 132 by at most ¼·(ln of the condition's time/ln t)², with both times in units of K/(Mη_Y).

    `with_c0` says whether eq. 132 has C0 in it, `with_classes` whether the condition has K and C0 in it.
    """
    rates, unit = {"eta_y": eta_y, "eta_z": eta_z, "vocab": vocab}, classes / (vocab * eta_y)
    form = theory.attention_growth_late(unit * np.exp(logs), **rates, classes=classes, c0=c0 if with_c0 else 1.0)
    start = theory.late_time(**rates, classes=classes, c0=c0) if with_classes else theory.late_time_printed(**rates)
    excess = (np.log(start / unit) * vocab / (vocab - 1) / np.array(logs)) ** 2 / 4
    return trajectory({"low": ("log", form), "high": ("log", form + excess)}, {"log": list(logs)})


def _late_growth(
    eta_y: float, eta_z: float, vocab: int, classes: int, c0: float, logs: tuple[float, ...], common_factor: float = 1.0
) -> xr.Dataset:
    times = classes / (vocab * eta_y) * np.exp([-np.inf, *logs])
    growth = integrated_growth(times, eta_y, eta_z, vocab, classes, c0, common_factor)["growth"].values[1:]
    return trajectory({"growth": ("log", growth)}, {"log": list(logs)})


SLOW_ATTENTION = {"eta_y": 0.5, "eta_z": 0.5 / 4500, "vocab": 1000, "classes": 10, "c0": 1.0}

eq132 = Claim(
    id="scan_snap/eq132",
    source="Appendix F, the condition before eq. 132",
    says="C0 can be dropped in eq. 131, giving eq. 132, when t ≫ (K/(Mη_Y))·exp(√(C0·ν/2K)) with ν = η_Y/η_Z: "
    "then B_n exceeds eq. 132 by at most ¼·(√(C0·ν/2K)/ln(Mη_Y·t/K))².",
    erratum=Erratum(
        changes={"with_classes": False},
        prints="C0 can be dropped in eq. 131, giving eq. 132, when t ≫ (Mη_Y)⁻¹·exp(1/√(2ν)).",
        says="Printed: t ≫ (Mη_Y)⁻¹·exp(1/√(2ν)), with ν upside down (η_Y/η_Z in eq. 130, η_Z/η_Y in Fig 9) and "
        "without K and C0. With K = 10, M = 1000, C0 = 1 and ν = 4500 the printed time is .001/η_Y, the right one "
        "3.3e4/η_Y; at t = 4.9e6/η_Y, where ln(Mη_Y·t/K) = 20, eq. 132 is still off by .11.",
        formulas=(
            r"t \gg \frac{1}{M\eta_Y} \exp\frac{1}{\sqrt{2\nu}}",
            r"t \gg \frac{K}{M\eta_Y} \exp\sqrt{\frac{C_0 \nu}{2K}}",
        ),
        consequence="Eq. 132 holds only at times far later than printed.",
    ),
    predict=_late_bounds,
    observe=_late_growth,
    compare=bounded("growth", low="low", high="high", slack=FLOW),
    whose="a step of the paper's proof",
    settings={
        "fast": {**SLOW_ATTENTION, "logs": (30.0, 40.0, 50.0, 60.0)},
        "full": {**SLOW_ATTENTION, "logs": (30.0, 60.0, 120.0, 240.0)},
    },
    control=Control("the common token falls K times as fast as eq. 118 says", {"common_factor": 10.0}),
)

eq132_constant = Claim(
    id="scan_snap/eq132_constant",
    source="Appendix F, eq. 132",
    says="At late times B_n = ½·ln ln(Mη_Y·t/K) + ¼·ln(2K(M−1)²/(M²ν·C0)).",
    erratum=Erratum(
        changes={"with_c0": False},
        prints="At late times B_n = ½·ln ln(Mη_Y·t/K) + ¼·ln(2K(M−1)²/(M²ν)), without C0.",
        says="Printed without C0, because eq. 124 lost its constant of integration: with C0 = .1 it is ¼·ln 10 = .576 "
        "too small, at every t.",
        formulas=(
            r"B_n \to \tfrac12 \ln\ln\frac{M\eta_Y t}{K} + \tfrac14 \ln\frac{2K(M-1)^2}{M^2\nu}",
            r"B_n \to \tfrac12 \ln\ln\frac{M\eta_Y t}{K} + \tfrac14 \ln\frac{2K(M-1)^2}{M^2\nu\,C_0}",
        ),
        consequence="The late value of B depends on the data, through C0.",
    ),
    predict=_late_bounds,
    observe=_late_growth,
    compare=bounded("growth", low="low", high="high", slack=FLOW),
    whose="a step of the paper's proof",
    settings={"fast": {**FIG3, "logs": (30.0, 60.0)}, "full": {**FIG3, "logs": (30.0, 60.0, 120.0, 240.0)}},
    control=Control("times before attention snaps", {"logs": (4.0, 6.0, 8.0)}),
)

CLAIMS = [remark2, remark2_lag, eq132, eq132_constant]
