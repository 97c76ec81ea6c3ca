"""Section 4 with attention: Lemmas 6 and 7, Theorem 4 and its remark."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control, Erratum
from foretrain.ledger.comparators import bounded, close, close_relative, every
from foretrain.ledger.tolerances import ALGEBRA, FLOW, NONE, PRINTED_DIGITS
from foretrain.papers.joma import theory
from foretrain.papers.joma.claims.drawing import drawn
from foretrain.papers.joma.tolerances import EXCESS_MOST

SIZES = {
    # the slowest component ends at δ = e^{−706} = 1e-307, the fastest at 1e-24000
    "fast": {"targets": (0.5, 1.0, 1.5, 2.0, 2.5, 3.0), "last": 625.0},
    "full": {"targets": tuple(np.linspace(0.2, 3.4, 33).tolist()), "last": 2500.0},
}

# Lemmas 6 and 7


def _bounds() -> xr.Dataset:
    """The bounds, and the maxima: g′ = 0 at 1 + 2y² = e^{y²}, and G′ = 1 − yG = 0 at G = 1/y."""
    from scipy.optimize import brentq  # a tenth of a second to load, which listing claims can save

    y = brentq(lambda y: 1 + 2 * y**2 - np.exp(y**2), 1.0, 1.5)
    z = brentq(lambda z: z * theory.lemma7_function(z) - 1, 1.0, 1.5)
    return trajectory(
        {"upper_bound": ("lemma", [1 / np.sqrt(2), 1.0]), "largest": ("lemma", [2 * y / (1 + 2 * y**2), 1 / z])},
        {"lemma": ["6: g", "7: G"]},
    )


def _functions(points: int, sign: float = 1.0) -> xr.Dataset:
    """g and G at 0 and on a grid from 1e-6 to 1e6, and the largest value of each."""
    y = sign * np.concatenate([[0.0], np.geomspace(1e-6, 1e6, points)])
    values = np.stack([theory.lemma6_function(y), theory.lemma7_function(y)])
    return trajectory(
        {"value": (("lemma", "argument"), values), "largest": ("lemma", values.max(axis=1))},
        {"lemma": ["6: g", "7: G"], "argument": y},
    )


lemma6_7 = Claim(
    id="joma/lemma6_7",
    source="Lemmas 6 and 7",
    whose="the paper's statement",
    says="For y ≥ 0, (1 − e^{−y²})/y is at most 1/√2 (its maximum is .6382, at 1.121) and e^{−y²/2}∫₀^y e^{x²/2} lies "
    "in [0, 1] (its maximum is .7651, at 1.307).",
    predict=_bounds,
    observe=_functions,
    compare=every(
        bounded("value", low=NONE, high="upper_bound"),
        close("largest", PRINTED_DIGITS, by="where the slope is 0", seen="on a grid"),
    ),
    settings={"fast": {"points": 2000}, "full": {"points": 200_000}},
    control=Control("y below 0", {"sign": -1.0}),
)


# Theorem 4


def _times(last: float) -> np.ndarray:
    return np.geomspace(1e-3, last, 60)


def _speeds_on_paper(
    targets: Sequence[float], last: float, bound: Callable[..., np.ndarray] = theory.speed_ratio_error_bound
) -> xr.Dataset:
    mu, t = np.asarray(targets), _times(last)
    log_inverse = theory.log_distance(mu, t[:, None])
    return trajectory(
        {
            "log_inverse": (("time", "fast"), log_inverse),
            "bound_on_|λ|": float(theory.LAMBDA_BOUND),
            "bound_on_|Λ|": (("time", "slow"), bound(mu, log_inverse)),
        },
        {"time": t, "fast": mu, "slow": mu},
    )


def _speeds(targets: Sequence[float], last: float, attention: float = 1.0) -> xr.Dataset:
    """Eq. 6 in ln(1/δ), where it reads d ln(1/δ)/dt = e^{v²/2}; `attention` 0 leaves the attention out."""
    from foretrain.dynamics.flow import integrate  # loads scipy's solvers, which listing claims can do without

    mu, t = np.asarray(targets), _times(last)

    def field(_: float, state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        v = -mu * np.expm1(-state["log_inverse"])
        return {"log_inverse": np.exp(attention * v**2 / 2)}

    flow = integrate(field, {"log_inverse": np.zeros(mu.size)}, until=last, save_at=t)
    left = flow["log_inverse"].values
    Lambda = left[:, :, None] / left[:, None, :] / theory.speed_ratio(mu[:, None], mu) - 1  # [time, fast, slow]
    axes = ("time", "fast", "slow")
    return trajectory(
        {
            "log_inverse": (("time", "fast"), left),
            "Lambda": (axes, np.abs(Lambda)),
            "lambda": (axes, np.abs(Lambda) * left[:, None, :] * np.exp(-(mu**2) / 2)),
        },
        {"time": t, "fast": mu, "slow": mu},
    )


theorem4 = Claim(
    id="joma/theorem4",
    source="Theorem 4, eq. 7",
    whose="the paper's statement",
    says="Under eq. 6 from zero ln(1/δ_j)/ln(1/δ_k) = e^{μ_j²/2 − μ_k²/2}(1 + Λ) with Λ = λe^{μ_k²/2}/ln(1/δ_k) and "
    "|λ| ≤ √(2π) + 2: salient components come first. (The closed form solves the printed equation; for training see "
    "joma/theorem4_trained.)",
    predict=_speeds_on_paper,
    observe=_speeds,
    compare=every(
        close_relative("log_inverse", FLOW, by="by eq. 79", seen="by integration"),
        bounded("lambda", high="bound_on_|λ|"),
    ),
    settings=SIZES,
    control=Control("no attention: all components converge alike", {"attention": 0.0}),
    figure=drawn("speeds"),
    finding="The bound on λ holds with room: eq. 88 gives |λ| ≤ √(π/2) + 1 = 2.25, half of what is printed, and no "
    "more than .865 is reached.",
)

smallness = Claim(
    id="joma/theorem4_smallness",
    source="Theorem 4, its last sentence",
    whose="the paper's statement",
    says="|Λ| ≪ 1 once δ_k ≪ exp[−(√(2π) + 2)e^{+μ_k²/2}]. We read it so: where ln(1/δ_k) is R times what is asked "
    "for, |Λ| is at most 1/R.",
    predict=_speeds_on_paper,
    observe=_speeds,
    compare=bounded("Lambda", high="bound_on_|Λ|"),
    settings=SIZES,
    control=Control("no attention: all components converge alike", {"attention": 0.0}),
    figure=drawn("smallness"),
    erratum=Erratum(
        changes={"bound": theory.speed_ratio_error_bound_printed},
        prints="|Λ| ≪ 1 once δ_k ≪ exp[−(√(2π) + 2)e^{−μ_k²}]. We read it so: where ln(1/δ_k) is R times what is "
        "asked for, |Λ| is at most 1/R.",
        says="The condition is printed with e^{−μ_k²}. Since Λ = λe^{μ_k²/2}/ln(1/δ_k), it needs e^{+μ_k²/2}: for μ_k "
        "= 2 that is ln(1/δ_k) ≫ 33.3, not .083. (The paper prints no bound on Λ; the reading of ≪ is ours.)",
        formulas=(
            r"\delta_k\ll\exp\!\big[-(\sqrt{2\pi}+2)\,e^{-\mu_k^2}\big]",
            r"\delta_k\ll\exp\!\big[-(\sqrt{2\pi}+2)\,e^{+\mu_k^2/2}\big]",
        ),
        consequence="The ratio of speeds reaches its limit much later than printed, for salient components only when "
        "they have long converged.",
    ),
)


def _excess(targets: Sequence[float], farthest: float, power: float = 0.5) -> xr.Dataset:
    """F(1 − δ, μ) − e^{−power·μ²}·ln(1/δ), with F by integrating eq. 79 in ln(1/δ)."""
    from foretrain.dynamics.flow import integrate

    mu, left = np.asarray(targets), np.linspace(0, farthest, 41)
    flow = integrate(
        lambda x, _: {"F": np.exp(-((mu * np.expm1(-x)) ** 2) / 2)},
        {"F": np.zeros(mu.size)},
        until=farthest,
        save_at=left,
    )
    excess = flow["F"].values - np.exp(-power * mu**2) * left[:, None]
    return trajectory({"excess": (("log_inverse", "target"), excess)}, {"log_inverse": left, "target": mu})


excess = Claim(
    id="joma/theorem4_excess",
    source="Proof of Theorem 4, the lines below eq. 88",
    whose="a step of the paper's proof",
    says="ρ(δ, μ) = F(1 − δ, μ) − e^{−μ²/2}·ln(1/δ) stays between 0 and √(π/2) + 1.",
    observe=_excess,
    compare=bounded("excess", low=NONE, high=EXCESS_MOST, slack=ALGEBRA),
    settings={"fast": {"targets": (0.5, 1.0, 2.0, 3.0), "farthest": 200.0}},
    control=Control("e^{−μ²}, as printed", {"power": 1.0}),
    erratum=Erratum(
        changes={"power": 1.0},
        prints="ρ(δ, μ) = F(1 − δ, μ) − e^{−μ²}·ln(1/δ) stays between 0 and √(π/2) + 1, as printed below eq. 88.",
        says="Three times the lines below eq. 88 print e^{−μ²} where eq. 88 has e^{−μ²/2}. As printed ρ grows without "
        "bound: at μ = 1 and ln(1/δ) = 200 it is 48.3, not below 2.25.",
        formulas=(
            r"\rho(\delta,\mu)=F(1-\delta,\mu)-e^{-\mu^2}\ln\tfrac1\delta",
            r"\rho(\delta,\mu)=F(1-\delta,\mu)-e^{-\mu^2/2}\ln\tfrac1\delta",
        ),
        consequence="A misprint in the proof, and perhaps the origin of the exponent in the theorem's last sentence.",
    ),
)


START = 0.05  # of v and z under linear attention, which never leaves 0


def _linear_attention_on_paper(targets: Sequence[float], last: float) -> xr.Dataset:
    mu, t = np.asarray(targets), np.linspace(0, last, 41)
    log_inverse = theory.linear_attention_log_distance(mu, t[:, None], start=START)
    return trajectory(
        {
            "log_inverse": (("time", "fast"), log_inverse),
            "late_ratio": ("fast", theory.linear_attention_speed_ratio(mu, mu[0])),
        },
        {"time": t, "fast": mu},
    )


def _linear_attention(targets: Sequence[float], last: float, attention: str = "linear") -> xr.Dataset:
    """v̇ = (μ − v)∘σ(z) with σ(z)/σ′(z)·ż = v̇∘v (eq. 14), in ln(1/δ); v and z move together from `START`.

    `late_ratio` compares how fast ln(1/δ) rises in the last tenth, with the component of the smallest target.
    """
    from foretrain.dynamics.flow import integrate

    mu, t = np.asarray(targets), np.linspace(0, last, 41)

    def field(_: float, s: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        v = -mu * np.expm1(-s["left"])
        score = s["z"] if attention == "linear" else np.exp(s["z"])
        speed = mu * np.exp(-s["left"]) * score
        return {"left": score, "z": speed * v / (s["z"] if attention == "linear" else 1.0)}

    start = {"left": -np.log1p(-START / mu), "z": np.full(mu.size, START if attention == "linear" else START**2 / 2)}
    flow = integrate(field, start, until=last, save_at=t)
    left = flow["left"].values
    rise = left[-1] - left[-5]
    return trajectory(
        {"log_inverse": (("time", "fast"), left), "late_ratio": ("fast", rise / rise[0])}, {"time": t, "fast": mu}
    )


linear_attention = Claim(
    id="joma/theorem4_linear_attention",
    source="Remark on Theorem 4, linear attention",
    whose="the paper's statement",
    says='With linear attention "the ratio is different": ln(1/δ_j)/ln(1/δ_k) tends to μ_j/μ_k. The paper does not '
    "give it; v grows logistically, v̇ = (μ − v)v.",
    predict=_linear_attention_on_paper,
    observe=_linear_attention,
    compare=every(
        close("log_inverse", FLOW, by="by the logistic formula", seen="by integration"),
        close("late_ratio", FLOW, by="as a ratio of targets", seen="at the end"),
    ),
    settings={"fast": {"targets": (1.0, 1.5, 2.5), "last": 40.0}, "full": {"targets": (0.4, 1.0, 2.5), "last": 200.0}},
    control=Control("exp attention in place of linear attention", {"attention": "exp"}),
    finding="The ratio of speeds under linear attention is μ_j/μ_k, milder than e^{(μ_j² − μ_k²)/2}. From zero nothing "
    "moves at all: v̇ = (μ − v)v is 0 at v = 0, so it needs a start.",
)

CLAIMS = [lemma6_7, theorem4, smallness, excess, linear_attention]
