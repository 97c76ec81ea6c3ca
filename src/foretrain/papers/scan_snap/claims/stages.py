"""Appendix D.3: the two stages of the decoder's growth and of the speed it gives to attention."""

from __future__ import annotations

import numpy as np
import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control, Erratum
from foretrain.ledger.comparators import bounded, close_relative, every, slope
from foretrain.ledger.tolerances import ALGEBRA
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.tolerances import EQUAL, LATE_FORM, ONE_OVER_ORDER_ONE, ORDER_ONE


def _two_stages(vocabs: tuple[int, ...], eta_y: float, classes: int, late: tuple[float, ...]) -> xr.Dataset:
    """Lemma 8's zeros; both terms of eq. 45 in both stages; and γ at late times as Lemma 9 has it."""
    M = np.array(vocabs, dtype=float)
    zeros = np.stack([M ** (theory.omega0(vocab=M) - 1), (1 + theory.omega1(vocab=M)) * np.log(M)], axis=1)
    clock = eta_y / classes * _late_times(M, eta_y, classes, late)
    return trajectory(
        {"zero": (("vocab", "which"), zeros), "late_speed": (("vocab", "late"), np.log(M[:, None] * clock) / clock)},
        {"vocab": list(vocabs), "late": list(late)},
    )


def _stages_measured(vocabs: tuple[int, ...], eta_y: float, classes: int, late: tuple[float, ...]) -> xr.Dataset:
    """The zeros by bracketing, Δ1 = e^u/(M−1) and Δ2 = e^u/((M−1)u) in both stages, and γ itself."""
    from scipy.optimize import brentq  # a tenth of a second to load, which listing claims can save

    M = np.array(vocabs, dtype=float)
    zeros = [
        [brentq(lambda u, m=m: np.exp(u) - (m - 1) * u, a, b, xtol=1e-300) for a, b in ((0, 1), (1, 99))] for m in M
    ]
    early = np.geomspace(0.02, 1, 40)
    t_early = early * (classes * np.log(M) / eta_y)[:, None]
    t_late = _late_times(M, eta_y, classes, late)
    through = _late_times(M, eta_y, classes, (1.0, *late))

    def speed(t: np.ndarray) -> np.ndarray:
        return theory.speed(t, eta_y=eta_y, vocab=M[:, None], classes=classes)

    def ratios(t: np.ndarray) -> np.ndarray:
        u = M[:, None] * theory.decoder_growth(t / classes, eta_y=eta_y, vocab=M[:, None])
        return np.exp(u) / (M[:, None] - 1) / np.stack([np.ones_like(u), u])

    omega = theory.omega1(vocab=M) * np.log(M) / np.log(np.log(M))
    linear = early <= 0.5

    return trajectory(
        {
            "zero": (("vocab", "which"), np.array(zeros)),
            "omega": ("vocab", omega),
            "early_ratio": (("which", "vocab", "early"), ratios(t_early)),
            "late_ratio": (("which", "vocab", "through"), ratios(through)),
            "early_speed": (("vocab", "linear"), speed(t_early[:, linear])),
            "late_speed": (("vocab", "late"), speed(t_late)),
        },
        {"vocab": list(vocabs), "late": list(late), "early": early, "linear": early[linear], "through": [1.0, *late]},
    )


def _late_times(M: np.ndarray, eta_y: float, classes: int, late: tuple[float, ...]) -> np.ndarray:
    return np.multiply.outer(theory.snap_time(eta_y=eta_y, vocab=M, classes=classes), np.array(late))


lemma8_9 = Claim(
    id="scan_snap/lemma8_9",
    source="Lemma 8, eq. 50 and 51; Lemma 9, eq. 53 to 57",
    says="e^{Mh} = (M−1)Mh at h = M^{−(2−ω0)} and h = (1+ω1)ln M/M with ω1 = Θ(ln ln M/ln M). Up to t = K·ln M/η_Y the "
    "linear term of eq. 45 is the larger one and γ grows like t; from t0 = 2(1+ω1)K·ln M/η_Y on the exponential is, "
    "and far beyond it γ tends to K·ln(Mη_Y·t/K)/(η_Y·t).",
    predict=_two_stages,
    observe=_stages_measured,
    compare=every(
        close_relative("zero", ALGEBRA, by="by Lemma 8", seen="by bracketing"),
        bounded("omega", low=ONE_OVER_ORDER_ONE, high=ORDER_ONE),
        bounded("early_ratio", high=EQUAL),
        bounded("late_ratio", low=EQUAL),
        slope("early_speed", "linear", 1.0),
        close_relative("late_speed", LATE_FORM, by="by Lemma 9", seen="by eq. 85"),
    ),
    settings={
        "fast": {"vocabs": (1000, 10_000, 1_000_000), "eta_y": 0.5, "classes": 10, "late": (1e3, 1e4, 1e5, 1e6, 1e8)}
    },
    control=Control("times of the late form just before the transition", {"late": (0.9,)}),
    whose="the paper's statement",
)


def _spread_of_constants(vocabs: tuple[int, ...], eta_y: float, classes: int, with_vocab: bool = True) -> xr.Dataset:
    """γ over its O(·) at t0, relative to the smallest M. One constant for all M: it may vary by a factor of 2 at most.

    `with_vocab` says whether M stands inside the logarithm.
    """
    M = np.array(vocabs, dtype=float)
    t0 = np.asarray(theory.snap_time(eta_y=eta_y, vocab=M, classes=classes))
    clock = eta_y / classes * t0
    logarithm = np.log(M * clock if with_vocab else clock)
    constant = theory.speed(t0, eta_y=eta_y, vocab=M, classes=classes) / (logarithm / clock)
    return trajectory(
        {"spread": ("vocab", constant / constant[0]), "constant": ("vocab", constant)}, {"vocab": list(vocabs)}
    )


theorem1b = Claim(
    id="scan_snap/theorem1b",
    source="Theorem 1(b) and Theorem 4 against Lemma 9",
    says="From t0 on γ = O(K·ln(Mη_Y·t/K)/(η_Y·t)), as in Lemma 9, with one constant for all M.",
    observe=_spread_of_constants,
    compare=bounded("spread", high=ORDER_ONE),
    settings={"fast": {"vocabs": (10**2, 10**4, 10**8, 10**16), "eta_y": 0.5, "classes": 10}},
    control=Control("without M inside the logarithm", {"with_vocab": False}),
    whose="the paper's statement",
    erratum=Erratum(
        changes={"with_vocab": False},
        prints="From t0 on γ = O(K·ln(η_Y·t/K)/(η_Y·t)), with one constant for all M.",
        says="Theorem 1(b) and Theorem 4 print Lemma 9's late speed without M inside the logarithm. No constant makes "
        "that hold from t0 on for all M: at t0, γ is 4.3, 6.8, 11 and 18 times the printed form for M = 10², 10⁴, 10⁸ "
        "and 10¹⁶. With M it is 1.5 to 1.9 times Lemma 9's form.",
        formulas=(
            r"\gamma(t) = O\left(\frac{K \ln(\eta_Y t/K)}{\eta_Y t}\right)",
            r"\gamma(t) = O\left(\frac{K \ln(M \eta_Y t/K)}{\eta_Y t}\right)",
        ),
        consequence="The late speed of attention is larger than printed by a factor of about ln M/ln ln M.",
    ),
)

CLAIMS = [lemma8_9, theorem1b]
