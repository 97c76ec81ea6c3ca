"""Section 6 and appendix F: the phase transition, and the errata of its formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy import ndarray as Array
from numpy.typing import ArrayLike

from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control, Erratum
from foretrain.ledger.comparators import bounded, close, conserved, every, ranked, slope
from foretrain.ledger.tolerances import FLOW
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.simulations import flows

if TYPE_CHECKING:
    from foretrain.dynamics.flow import Field, State


def _in_log_time(field: Field, start: State, times: Array) -> xr.Dataset:
    """Follow a flow over many decades of time, by solving it in ln(1 + t)."""
    from foretrain.dynamics.flow import integrate  # loads scipy's solvers, which listing claims can do without

    solved = integrate(
        lambda clock, state: {name: np.exp(clock) * v for name, v in field(np.expm1(clock), state).items()},
        start,
        until=float(np.log1p(times[-1])),
        save_at=np.log1p(times),
    )
    return solved.assign_coords(time=times)


def _times(until: float) -> Array:
    """0 and 61 times over five decades."""
    return np.concatenate([[0.0], np.geomspace(until / 1e5, until, 61)])


# Theorem 4: the closed form of B_n


def _growth(
    eta_y: float, eta_z: float, vocab: int, classes: int, c0: float, until: float,
    formula: Callable[..., ArrayLike] = theory.attention_growth,
) -> xr.Dataset:  # fmt: skip
    t = _times(until)
    growth = formula(t, eta_y=eta_y, eta_z=eta_z, vocab=vocab, classes=classes, c0=c0)
    return trajectory({"growth": ("time", growth)}, {"time": t})


def _growth_integrated(
    eta_y: float, eta_z: float, vocab: int, classes: int, c0: float, until: float, common_factor: float = 1.0
) -> xr.Dataset:
    return integrated_growth(_times(until), eta_y, eta_z, vocab, classes, c0, common_factor)


def integrated_growth(
    times: Array, eta_y: float, eta_z: float, vocab: int, classes: int, c0: float, common_factor: float = 1.0
) -> xr.Dataset:
    """Eq. 44, 118 and 119 as an ODE for u = Mh, z and B; a control multiplies eq. 118 by `common_factor`."""
    M, K = vocab, classes

    def field(_: float, s: State) -> dict[str, Any]:
        gamma = (M - 1) ** 2 / M * s["u"] / (M - 1 + np.exp(s["u"]))
        pull = eta_z * gamma * np.exp(4 * s["z"]) / c0
        return {"u": M * eta_y / K / (M - 1 + np.exp(s["u"])), "z": -common_factor * pull, "growth": pull}

    zero = np.zeros(())
    return _in_log_time(field, {"u": zero, "z": zero, "growth": zero}, times)


FIG3 = {"eta_y": 0.1, "eta_z": 0.5, "vocab": 1000, "classes": 10, "c0": 0.1}

theorem4 = Claim(
    id="scan_snap/theorem4",
    source="Theorem 4, eq. 124 and 129",
    says="If ż = −η_Z·γ·e^{4z}/C0 and ξ_n = γ·e^{4z}/C0, then B_n = ¼·ln(1 + 4Γ/C0) "
    "with Γ = (η_Z/η_Y)·(K(M−1)²/2)·h²(t/K).",
    erratum=Erratum(
        changes={"formula": theory.attention_growth_printed},
        prints="If ż = −η_Z·γ·e^{4z}/C0 and ξ_n = γ·e^{4z}/C0, then B_n = ¼·ln(C0 + 4Γ) with Γ = "
        "(η_Z/η_Y)·(K(M−1)²/2)·h²(t/K).",
        says="Eq. 124 drops the constant of integration and prints ¼·ln(C0 + 4Γ), which is not 0 at t = 0. With C0 = "
        ".1, M = 1000, K = 10, η_Y = .1, η_Z = .5, t = 690 it gives 2.074; the integral is 2.650.",
        formulas=(
            r"B_n = \tfrac14 \ln\left(C_0 + 4\Gamma\right)",
            r"B_n = \tfrac14 \ln\left(1 + \frac{4\Gamma}{C_0}\right)",
        ),
        consequence="B is not 0 at the start. This compares two solutions of the printed ODE; for training see "
        "theorem4_training.",
    ),
    predict=_growth,
    observe=_growth_integrated,
    compare=close("growth", FLOW, by="by the formula", seen="by integration of eq. 118 and 119"),
    whose="the paper's statement",
    settings={"fast": {**FIG3, "until": 6.9e3}, "full": {**FIG3, "until": 1e8}},
    control=Control("the common token falls K times as fast as eq. 118 says", {"common_factor": 10.0}),
)


# Theorem 4: ż and ξ_n cannot share one C0


def _ratio_bounds(classes: tuple[int, ...], common: float, per_class: bool = True) -> xr.Dataset:
    """−z/B_n lies between 1 − f_l(0)² and 1 times the ratio of the two constants, which is K, or 1 as printed."""
    K = np.array(classes, dtype=float) if per_class else np.ones(len(classes))
    share = common**2 / (common**2 + (1 - common) ** 2)  # f_l(0)²
    return trajectory({"low": ("classes", K * (1 - share)), "high": ("classes", K)}, {"classes": list(classes)})


def _ratio_under_eq10(classes: tuple[int, ...], common: float, until: float, spread: float = 0.0) -> xr.Dataset:
    """−z/B_n of a common token and the class with the least of it, at the end of eq. 10 with γ = η_Z = 1."""
    ends = [_under_drive(_one_common(K, common, spread), until) for K in classes]
    ratios = [-float(end["z"][0, 0] / end["growth"][0]) for end in ends]
    return trajectory({"fall_per_growth": ("classes", ratios)}, {"classes": list(classes)})


def _one_common(classes: int, common: float, spread: float = 0.0, distinct: int = 1) -> Array:
    """P [class, token] with one common token, whose share is equal in all classes or varies by ± `spread`."""
    share = common * (1 + spread * np.linspace(-1, 1, classes)[:, None])
    return np.hstack([share, np.kron(np.eye(classes), np.full(distinct, 1 / distinct)) * (1 - share)])


def _under_drive(P: Array, drive: float) -> xr.Dataset:
    """The state of eq. 10 at the drive Γ, for classes of one query and a practically infinite vocabulary."""
    query, drives = np.zeros(len(P), dtype=int), np.array([0.0, drive])
    return flows.driven_flow(P[None], query, vocab=10**12, drives=drives, rtol=1e-9).isel(time=-1, instance=0)


theorem4_shared_c0 = Claim(
    id="scan_snap/theorem4_shared_c0",
    source="Section 6, eq. 13; Theorem 4, eq. 118 and 119",
    says="The common token's logit falls K times as fast as B_n grows, because all K classes push it down and one "
    "class pushes its distinct tokens up: K(1 − f_l(0)²) ≤ −z/B_n ≤ K.",
    erratum=Erratum(
        changes={"per_class": False},
        prints="ż of the common token and ξ_n have one constant C0 = ρ0⁴/K, so that −z = B_n.",
        says="Eq. 13 gives ż and ξ_n the same constant C0 = ρ0⁴/K, hence −z = B_n. They differ by a factor K: eq. 10 "
        "with γ = 1 and P(common) = .2 gives −z/B_n = 1.96, 4.93, 9.87 for K = 2, 5, 10.",
        formulas=(
            r"\dot z_l = -\frac{\eta_Z \gamma}{C_0} e^{4z_l}, \quad \xi_n = \frac{\gamma}{C_0} e^{4z_l}",
            r"\dot z_l = -\frac{\eta_Z K(K-1)\gamma}{\rho_0^4} e^{4z_l}, \quad "
            r"\xi_n = \frac{(K-1)\gamma}{\rho_0^4} e^{4z_l}",
        ),
        consequence="Distinct tokens grow K times less than Theorem 4 says while the common token falls.",
    ),
    predict=_ratio_bounds,
    observe=_ratio_under_eq10,
    compare=bounded("fall_per_growth", low="low", high="high"),
    whose="the paper's statement",
    settings={"fast": {"classes": (2, 5, 10), "common": 0.2, "until": 1e4}},
    control=Control("classes with unequal shares of the common token", {"spread": 0.5}),
)


def _error_of_equal_overlaps(
    classes: int, common: tuple[float, ...], distinct: int, stretch: float, spread: float = 0.0
) -> xr.Dataset:
    """Relative error of the formula for equal overlaps ρ at the drive where 4ΓK(K−1)ρ² = `stretch`."""
    overlaps, errors = [], []
    for share in common:
        P = _one_common(classes, share, spread, distinct)
        overlap = float((theory.features(P, np.zeros_like(P))[:, 0] ** 2).mean())
        drive = stretch / (4 * classes * (classes - 1) * overlap**2)
        growth = _under_drive(P, drive)["growth"].values
        form = theory.attention_growth_equal_overlaps(drive, classes=classes, overlap=overlap, distinct=distinct)
        overlaps.append(overlap)
        errors.append(float(abs(growth / form - 1).max()))
    return trajectory({"growth_error": ("overlap", errors)}, {"overlap": overlaps})


theorem4_equal_overlaps = Claim(
    id="scan_snap/theorem4_equal_overlaps",
    source="Section 6, eq. 13, with the two constants kept apart",
    says="With equal overlaps ρ = 1/ρ0² and D equally frequent distinct tokens per class, "
    "B_n = ln(1 + 4ΓK'(K−1)/ρ0⁴)/4K' with K' = K + 1/D, up to a relative error in proportion to ρ. With many distinct "
    "tokens this is (1/4K)·ln(1 + 4ΓK(K−1)/ρ0⁴); with few of them ρ0 is not constant, as section 6 assumes.",
    observe=_error_of_equal_overlaps,
    compare=slope("growth_error", "overlap", 1.0),
    settings={"fast": {"classes": 5, "common": (0.01, 0.03, 0.09), "distinct": 3, "stretch": 10.0}},
    control=Control("classes with unequal shares of the common token", {"spread": 0.5}),
    whose="our own expectation",
    finding="With the two constants of eq. 13 kept apart, B_n solves eq. 10 for small overlaps.",
)


# Theorem 4: the two stages of eq. 14


STAGES = {
    "scanning": (np.geomspace(1e-3, 1, 21), theory.attention_growth_scanning),
    "snapped": (np.geomspace(1, 1e6, 21), theory.attention_growth_snapped),
}  # times as multiples of the end of scanning, or of the start of the snapped stage


def _stage_times(stage: str, eta_y: float, vocab: int, classes: int, late: float) -> Array:
    end, start = classes * np.log(vocab) / eta_y, theory.snap_time(eta_y=eta_y, vocab=vocab, classes=classes)
    return STAGES[stage][0] * (late * end if stage == "scanning" else start)


def _stage_forms(
    eta_y: float, eta_z: float, classes: int, c0: float, vocabs: tuple[int, ...], late: float = 1.0
) -> xr.Dataset:
    """Eq. 130 and 131 neglect o(1), so B_n is below them by at most 1/(2·ln M)."""
    rest = {"eta_y": eta_y, "eta_z": eta_z, "classes": classes, "c0": c0}
    variables = {}
    for stage, (_, form) in STAGES.items():
        high = np.array([form(_stage_times(stage, eta_y, M, classes, late), vocab=M, **rest) for M in vocabs])
        axes = ("vocab", f"{stage}_time")
        variables[f"{stage}_high"] = (axes, high)
        variables[f"{stage}_low"] = (axes, high - 1 / (2 * np.log(vocabs))[:, None])
    return trajectory(variables, _stage_axes(vocabs))


def _stages_integrated(
    eta_y: float, eta_z: float, classes: int, c0: float, vocabs: tuple[int, ...], late: float = 1.0
) -> xr.Dataset:
    variables = {}
    for stage in STAGES:
        growth = []
        for M in vocabs:
            times = np.concatenate([[0.0], _stage_times(stage, eta_y, M, classes, late)])
            growth.append(integrated_growth(times, eta_y, eta_z, M, classes, c0)["growth"].values[1:])
        variables[stage] = (("vocab", f"{stage}_time"), np.array(growth))
    return trajectory(variables, _stage_axes(vocabs))


def _stage_axes(vocabs: tuple[int, ...]) -> dict[str, object]:
    return {"vocab": list(vocabs), **{f"{stage}_time": times for stage, (times, _) in STAGES.items()}}


theorem4_stages = Claim(
    id="scan_snap/theorem4_stages",
    source="Theorem 4, eq. 14, 130 and 131",
    says="Up to t = K·ln M/η_Y, B_n = ¼·ln(1 + 2(M−1)²η_Yη_Z·t²/(KM²C0)); from t0 = 2(1+ω1)K·ln M/η_Y on it has "
    "ln²(Mη_Y·t/K) in place of (η_Y·t/K)². Both are too large by at most 1/(2·ln M).",
    predict=_stage_forms,
    observe=_stages_integrated,
    compare=every(
        bounded("scanning", low="scanning_low", high="scanning_high", slack=FLOW),
        bounded("snapped", low="snapped_low", high="snapped_high", slack=FLOW),
    ),
    settings={"fast": {"eta_y": 0.1, "eta_z": 0.5, "classes": 10, "c0": 0.1, "vocabs": (10**2, 10**3, 10**6)}},
    control=Control("the form for scanning, used until ten times the end of its stage", {"late": 10.0}),
    whose="the paper's statement",
)


# Section 6, points (b) and (c), under the printed ODE


def _late_growth_by_rate(
    eta_y: tuple[float, ...], eta_z: float, vocab: int, classes: int, c0: float, late: float = 1.0
) -> xr.Dataset:
    """B_n by eq. 44, 118 and 119: at `late` times the latest snap by η_Y, and at t0 by both rates at η_Y = η_Z."""
    t0 = np.asarray(theory.snap_time(eta_y=np.array(eta_y), vocab=vocab, classes=classes))
    times = np.array([0.0, late * t0.max()])
    by_decoder = [integrated_growth(times, y, eta_z, vocab, classes, c0)["growth"].values[-1] for y in eta_y]
    at_snap = [
        integrated_growth(np.array([0.0, t]), y, y, vocab, classes, c0)["growth"].values[-1]
        for y, t in zip(eta_y, t0, strict=True)
    ]
    return trajectory(
        {"late_growth": ("eta_y", by_decoder), "growth_at_snap": ("eta_y", at_snap)}, {"eta_y": list(eta_y)}
    )


section6_ode = Claim(
    id="scan_snap/section6_ode",
    source="Section 6, points (b) and (c), under eq. 118 and 119",
    says="Under the ODE of Theorem 4 itself, with η_Z fixed, a larger η_Y leaves B_n smaller once all have snapped, "
    "and with η_Y/η_Z fixed B_n at t0 does not depend on the rates. In training only the second is true: see "
    "fig3_growth and fig9.",
    observe=_late_growth_by_rate,
    compare=every(ranked("late_growth", "eta_y", rising=False), conserved("growth_at_snap", FLOW, axis="eta_y")),
    settings={"fast": {**FIG3, "eta_y": (0.1, 0.2, 0.5, 1.0, 2.0)}},
    control=Control("read while attention still scans, where a larger η_Y is ahead", {"late": 0.02}),
    whose="the paper's statement",
)

CLAIMS = [theorem4, theorem4_shared_c0, theorem4_equal_overlaps, theorem4_stages, section6_ode]
