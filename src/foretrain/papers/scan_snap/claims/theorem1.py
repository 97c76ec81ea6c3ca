"""Theorem 1: the gradient that the decoder sends back to attention."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy import ndarray as Array
from scipy.special import softmax

from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Assumption, Claim, Control, Erratum
from foretrain.ledger.comparators import close, close_relative, every, positive
from foretrain.ledger.tolerances import ALGEBRA
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.claims.assumptions import weak_correlations
from foretrain.papers.scan_snap.claims.weak_correlation import synthetic_settings
from foretrain.papers.scan_snap.simulations.decoder_training import (
    drawn_order,
    equal_overlaps,
    paired_overlaps,
    shuffled_epochs,
    train_decoder,
)
from foretrain.papers.scan_snap.tolerances import STEPS_AS_FLOW

CLASSES = ("time", "class", "other")


def _coefficients(
    vocab: int, classes: int, overlap: float, eta_y: float, epochs: int, corrected: bool = True
) -> xr.Dataset:
    """γ(ι_n on the diagonal, −β_nn' off it), with θ = σ = 0: the coefficient of f_n' in g_n.

    By eq. 86 and 88, with −q0(1+θ_n') in eq. 88 or as printed.
    """
    formula = theory.gradient_coefficients if corrected else theory.gradient_coefficients_printed
    iota, beta = formula(equal_overlaps(classes, overlap), vocab=vocab)
    times = _epochs(epochs) * classes
    shape = np.diag(iota) - beta
    speed = theory.speed(times, eta_y=eta_y, vocab=vocab, classes=classes)
    return trajectory(
        {
            "coefficient": (CLASSES, speed[:, None, None] * shape),
            "coefficient_ratio": (CLASSES[1:], shape / iota[:, None]),
        },
        {"time": times},
        units={"time": "steps"},
    )


def _coefficients_trained(
    vocab: int, classes: int, overlap: float, eta_y: float, epochs: int, first: float | None = None
) -> xr.Dataset:
    """g_n = Y(e_n − α_n) of a decoder trained by eq. 26, decomposed into the f_n'; `first` is for the control."""
    features = equal_overlaps(classes, overlap)
    draw = stream("scan_snap/theorem1", classes, epochs)
    if first is None:
        order = shuffled_epochs(draw, runs=1, epochs=epochs, classes=classes)
    else:
        order = drawn_order(draw, runs=1, steps=epochs * classes, classes=classes, first=first)
    times = _epochs(epochs) * classes
    Y = train_decoder(features, order, eta_y=eta_y, vocab=vocab, save_at=times.tolist())[:, 0]
    parts = decomposed(features, Y)
    iota = np.diagonal(parts, axis1=1, axis2=2)
    return trajectory(
        {
            "coefficient": (CLASSES, parts),
            "coefficient_ratio": (CLASSES, parts / iota[..., None]),
            "xi": (CLASSES[:2], -(parts * theory.overlaps(features)).sum(axis=-1)),
        },
        {"time": times},
        units={"time": "steps"},
    )


def decomposed(features: Array, Y: Array) -> Array:
    """Coefficients of the f_n' in g_n = Y(e_n − α_n): [time, class, other]."""
    error = np.eye(len(features), Y.shape[-1]) - softmax(features @ Y, axis=-1)
    return error @ np.swapaxes(Y, -1, -2) @ np.linalg.pinv(features)


def _epochs(epochs: int) -> Array:
    return np.unique(np.geomspace(10, epochs, 12).astype(int))


ASSUMPTION2 = Assumption("Assumption 2: 6/√M ≤ |λ_i(E)| < 1/K", weak_correlations)

theorem1 = Claim(
    id="scan_snap/theorem1",
    source="Theorem 1, eq. 9, 85 to 89",
    says="After t steps over uniform classes the gradient sent back is g = γ(t)(ι_n f_n − Σ_{n'≠n} β_nn' f_n') with γ, "
    "ι and β of eq. 85, 86 and 88, and ξ_n = γΣβ_nn' f_n·f_n' > 0. Measured: coefficients to 2 %, what remains being "
    "h for h*; their ratios β/ι, in which h cancels, to 1e-12.",
    predict=_coefficients,
    observe=_coefficients_trained,
    compare=every(
        close_relative("coefficient", STEPS_AS_FLOW, by="by the formula", seen="trained by eq. 26"),
        close("coefficient_ratio", ALGEBRA, by="by the formula", seen="trained by eq. 26"),
        positive("xi"),
    ),
    whose="a step of the paper's proof",
    settings={
        "fast": {"vocab": 200, "classes": 2, "overlap": 0.45, "eta_y": 0.05, "epochs": 3000},
        "full": {"vocab": 2000, "classes": 3, "overlap": 0.15, "eta_y": 0.05, "epochs": 10_000},
        "paper": {"vocab": 6000, "classes": 4, "overlap": 0.08, "eta_y": 0.05, "epochs": 10_000},
    },
    control=Control("classes are not drawn uniformly: the first has 80 %", {"first": 0.8}),
    assumes=(ASSUMPTION2,),
    erratum=Erratum(
        changes={"corrected": False},
        prints="After t steps over uniform classes the gradient sent back is g = γ(t)(ι_n f_n − Σ_{n'≠n} β_nn' f_n') "
        "with β of eq. 88 as printed, +q0(1+θ_n') in it.",
        says="In eq. 88 the term q0(1+θ_n') has the wrong sign: β_nn' = (1+σ)[q1(1+θ_n)E'_nn' + "
        "q0(Σ_{k≠n}(1+θ_k)E'_kn' − (1+θ_n'))]. With K = 2, M = 200 and features that do not overlap, β is +.00505, "
        "printed −.00505; with overlap .45 it is .5734, printed .5633. With the right sign ξ_n > 0 needs no lower "
        "bound on |λ_i(E)|: see theorem1a.",
        formulas=(
            r"\beta_{nn'} = (1+\sigma)\left[q_1(1+\theta_n)E'_{nn'} + q_0\left((1+\theta_{n'}) + \Sigma\right)\right]",
            r"\beta_{nn'} = (1+\sigma)\left[q_1(1+\theta_n)E'_{nn'} + q_0\left(\Sigma - (1+\theta_{n'})\right)\right]",
        ),
        consequence="With the right sign ξ_n > 0 needs no lower bound on the overlaps. All of this is for the "
        "modified gradient of eq. 26: see theorem1_training.",
    ),
)


def _star() -> Array:
    """Class 0 overlaps by .4 with each of four classes that do not overlap, and by .003 with a sixth."""
    features = np.zeros((6, 6))
    features[0, :5] = 0.4, 0.4, 0.4, 0.4, 0.6
    features[range(1, 5), range(4)] = 1
    features[5, 4] = 0.003 / 0.6
    features[5, 5] = np.sqrt(1 - features[5, 4] ** 2)
    return features


def _case(name: str) -> tuple[Array, int]:
    """The features and the vocabulary size of a named case."""
    cases = {
        "Fig 3, overlap .1": (equal_overlaps(10, 0.1), 1000),
        "Fig 3, overlap .001": (equal_overlaps(10, 0.001), 1000),
        "pairs": (paired_overlaps(4, 0.9), 100),
        "star": (_star(), 100),
        **synthetic_settings(),
    }
    return cases[name]


def _growth_speed_trained(cases: tuple[str, ...], eta_y: float, epochs: int) -> xr.Dataset:
    """ξ_n/γ of a decoder trained by eq. 26 on every class at each step, with γ at the stepped h*."""
    speeds = []
    for features, vocab in map(_case, cases):
        order = np.broadcast_to(np.arange(len(features)), (1, epochs, len(features)))
        Y = train_decoder(features, order, eta_y=eta_y, vocab=vocab, save_at=[epochs])[:, 0]
        h = theory.decoder_growth_discrete(epochs, eta_y=eta_y, vocab=vocab)[-1]
        gamma = (vocab - 1) ** 2 * h / (vocab - 1 + np.exp(vocab * h))
        speeds.append(-(decomposed(features, Y)[0] * theory.overlaps(features)).sum(axis=-1) / gamma)
    return _by_case("relative_xi", speeds, cases)


def _by_case(name: str, speeds: list[Array], cases: tuple[str, ...]) -> xr.Dataset:
    names = [f"{case}, class {n}" for case, speed in zip(cases, speeds, strict=True) for n in range(len(speed))]
    return trajectory({name: ("case", np.concatenate(speeds))}, {"case": names})


theorem1a = Claim(
    id="scan_snap/theorem1a",
    source="Theorem 1(a), eq. 91 and 92, with eq. 88 put right",
    says="ξ_n/γ = −(q1−q0)E'_nn − q0(1 − Σ_k(I+E)⁻¹_nk). It is positive wherever class n overlaps with another and the "
    "overlaps of each class sum to at most 1, or are all equal: so in the paper's settings too, though Assumption 2 "
    "cannot be met there. No lower bound on |λ_i(E)| is needed.",
    predict=lambda cases: _by_case(
        "relative_xi", [theory.growth_speed_closed_form(f, vocab=vocab) for f, vocab in map(_case, cases)], cases
    ),
    observe=_growth_speed_trained,
    compare=every(
        close_relative("relative_xi", ALGEBRA, by="in closed form", seen="trained by eq. 26"), positive("relative_xi")
    ),
    whose="our own expectation",
    finding="With eq. 88 put right, ξ_n > 0 needs only that each class overlaps with another and that its overlaps "
    "sum to at most 1, or are all equal.",
    settings={
        "fast": {
            "cases": ("Fig 3, overlap .1", "Fig 3, overlap .001", "pairs", "Syn-Small", "Syn-Medium"),
            "eta_y": 0.5,
            "epochs": 200,
        }
    },
    control=Control(
        "a star of overlaps that sum to 1.6: the class that hardly overlaps has ξ_n < 0", {"cases": ("star",)}
    ),
)


def _growth_speed_in_training(cases: tuple[str, ...], eta_y: float, epochs: int, modified: bool = False) -> xr.Dataset:
    """The smallest ξ_n over time of a decoder trained by eq. 7; for the control by the modified gradient of eq. 26."""
    smallest = []
    for features, vocab in map(_case, cases):
        order = np.broadcast_to(np.arange(len(features)), (1, epochs, len(features)))
        times = sorted({1, *np.geomspace(2, epochs, 8).astype(int).tolist()})
        Y = train_decoder(features, order, eta_y=eta_y, vocab=vocab, save_at=times, unmixed=modified)[:, 0]
        xi = -(decomposed(features, Y) * theory.overlaps(features)).sum(axis=-1)
        smallest.append(xi.min(axis=0))
    return _by_case("xi", smallest, cases)


assumption2_needed = Claim(
    id="scan_snap/assumption2_needed",
    source="Assumption 2, for what Theorem 1(a) needs, under eq. 7",
    says="What Assumption 2 is for, ξ_n > 0, needs no condition on the overlaps in training: for a decoder trained by "
    "the loss's own gradient it holds at all times, in the paper's own settings and even in a star of overlaps for "
    "which eq. 26 gives ξ_n < 0.",
    observe=_growth_speed_in_training,
    compare=positive("xi"),
    settings={
        "fast": {"cases": ("Fig 3, overlap .1", "Syn-Small", "Syn-Medium", "star"), "eta_y": 0.5, "epochs": 400},
        "full": {"cases": ("Fig 3, overlap .1", "Syn-Small", "Syn-Medium", "star"), "eta_y": 0.5, "epochs": 10_000},
    },
    control=Control("the modified gradient of eq. 26", {"modified": True}),
    whose="our own expectation",
    finding="In training the drive on attention is made of confusions, which are positive, so distinct tokens gain "
    "attention whether or not Assumption 2 is met.",
)

CLAIMS = [theorem1, theorem1a, assumption2_needed]
