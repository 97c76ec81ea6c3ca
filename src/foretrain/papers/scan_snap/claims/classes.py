"""Appendix D.4: classes are drawn at random, one sample per step."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy import ndarray as Array
from scipy.special import softmax

from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Assumption, Claim, Control
from foretrain.ledger.comparators import bounded, close, close_relative, covered, every, slope
from foretrain.ledger.tolerances import ALGEBRA
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.claims.assumptions import weak_correlations
from foretrain.papers.scan_snap.simulations.decoder_training import (
    class_weights,
    drawn_order,
    equal_overlaps,
    train_decoder,
)
from foretrain.papers.scan_snap.tolerances import STEPS_AS_FLOW

BOUNDS = ("count", "count, simpler", "growth", "error", "theta", "error, late")


def _coverage_of_bounds(
    samples: int, classes: int, eta_y: float, vocab: int, failure: float, draws: int, first: float | None = None
) -> xr.Dataset:
    """Share of draws inside each bound, for every class (`theta`: for all classes at once); `first` is for the control.

    Growth, error and θ are measured at the learning rate whose transition is at N̄, where they depend most on the count;
    the late bound at `eta_y`, where N̄ is past the transition.
    """
    N, δ, sizes = samples, failure, {"samples": samples, "failure": failure}
    counts = stream("scan_snap/lemma10_12", draws).multinomial(N, class_weights(classes, first), size=draws)
    mean = theory.mean_count(samples=N, classes=classes)
    middle = float(np.log(vocab) / mean)
    growth, growth_mean = (theory.decoder_growth(n, eta_y=middle, vocab=vocab) for n in (counts, mean))
    theta = abs(growth / growth_mean - 1)

    def sigma(rate: float) -> Array:
        error, error_mean = (theory.prediction_error(n, eta_y=rate, vocab=vocab) for n in (counts, mean))
        return np.asarray(abs(error / error_mean - 1))

    every_class = np.all(theta <= theory.theta_bound(samples=N, classes=classes, failure=δ), axis=1, keepdims=True)
    inside = [
        abs(counts - mean) <= theory.count_radius(**sizes),
        abs(counts - mean) <= theory.count_radius_simple(**sizes),
        theta <= theory.growth_spread(**sizes, classes=classes),
        sigma(middle) <= theory.error_spread(**sizes, eta_y=middle),
        np.broadcast_to(every_class, counts.shape),
        sigma(eta_y) <= theory.error_spread_late(**sizes, classes=classes),
    ]
    return trajectory({"coverage": (("bound", "class"), np.mean(inside, axis=1))}, {"bound": list(BOUNDS)})


def _late_enough(samples: int, classes: int, eta_y: float, vocab: int, failure: float) -> tuple[bool, str]:
    least = theory.mean_count(samples=samples, classes=classes) - theory.count_spread(samples=samples, failure=failure)
    start = theory.snap_time(eta_y=eta_y, vocab=vocab, classes=1)
    return bool(least > start), f"N̄ − Δ = {least:.0f}, 2(1+ω1)ln M/η_Y = {start:.0f}"


lemma10_12 = Claim(
    id="scan_snap/lemma10_12",
    source="Lemma 10, eq. 58; Lemma 11, eq. 61 and 62; Lemma 12",
    says="If classes are drawn uniformly, then with probability 1 − δ the count of a class is within "
    "√(N/2·ln(2/δ)) + 1 of ⌈N/K⌉, its growth h(N_n) within a share Δ/N̄ of h(N̄), its error within a factor "
    "exp(η_Y·Δ/3), or 1 + 2Δ/(N̄−Δ) once late, of that at N̄, and all |θ_n| ≤ K/√N·√ln(K/δ).",
    predict=lambda failure: trajectory({"coverage_low": 1 - failure}),
    observe=_coverage_of_bounds,
    compare=bounded("coverage", low="coverage_low"),
    settings={
        "fast": {"samples": 1000, "classes": 2, "eta_y": 0.5, "vocab": 1000, "failure": 0.1, "draws": 1000},
        "full": {"samples": 10_000, "classes": 10, "eta_y": 0.5, "vocab": 1000, "failure": 0.1, "draws": 100_000},
    },
    control=Control("classes are not drawn uniformly", {"first": 0.7}),
    assumes=(Assumption("for the late bound: N̄ − Δ is past 2(1+ω1)·ln M/η_Y", _late_enough),),
    whose="the paper's statement",
)


def _drawn(
    runs: int, samples: int, classes: int, eta_y: float, vocab: int, first: float | None
) -> tuple[Array, list[int], Array]:
    """The classes drawn [run, step, 1], the times at which the decoder is read, and h(N̄) at them [time, 1, 1]."""
    draw, times = stream("scan_snap/theorem5", runs, samples), [samples // 16, samples // 4, samples]
    h = theory.decoder_growth(theory.mean_count(samples=times, classes=classes), eta_y=eta_y, vocab=vocab)
    order = drawn_order(draw, runs=runs, steps=samples, classes=classes, first=first)
    return order, times, h[:, None, None]


def _decoder_in_closed_form(
    runs: int, samples: int, classes: int, overlap: float, eta_y: float, vocab: int, failure: float,
    first: float | None = None,
) -> xr.Dataset:  # fmt: skip
    """Eq. 70 with θ_n = h*(N_n)/h(N̄) − 1, where N_n counts how often class n was drawn."""
    features = equal_overlaps(classes, overlap)
    order, times, h = _drawn(runs, samples, classes, eta_y, vocab, first)
    counts = np.array([[(order[:, :t, 0] == n).sum(axis=1) for n in range(classes)] for t in times])
    stepped = theory.decoder_growth_discrete(samples, eta_y=eta_y, vocab=vocab)[np.swapaxes(counts, 1, 2)]
    theta = stepped / h - 1
    W = (vocab - 1) * h * theory.class_directions(classes, vocab)
    unmixed = (np.eye(classes) - theory.unmixing(theory.overlaps(features))) @ features
    Y = unmixed.T @ ((1 + theta[..., None]) * W[:, None])
    return trajectory({"Y": (("time", "run", "token", "label"), Y), "promised": 1 - failure}, {"time": times})


def _decoder_trained(
    runs: int, samples: int, classes: int, overlap: float, eta_y: float, vocab: int, failure: float,
    first: float | None = None,
) -> xr.Dataset:  # fmt: skip
    """Y trained by eq. 26 step by step, with θ taken from the rows of FᵀY."""
    features = equal_overlaps(classes, overlap)
    order, times, h = _drawn(runs, samples, classes, eta_y, vocab, first)
    Y = train_decoder(features, order, eta_y=eta_y, vocab=vocab, save_at=times)
    at_label = np.diagonal(features @ Y, axis1=-2, axis2=-1)  # (1+θ_n)(M−1)h
    theta = at_label / ((vocab - 1) * h) - 1
    allowed = theory.theta_bound(samples=times, classes=classes, failure=failure)
    within = (abs(theta) <= allowed[:, None, None]).all(axis=-1)
    axes = ("time", "run")
    return trajectory(
        {"Y": ((*axes, "token", "label"), Y), "theta": ((*axes, "class"), theta), "within": (axes, within)},
        {"time": times},
        units={"time": "steps"},
    )


_SLOW_DECODER = {"eta_y": 0.1, "failure": 0.1}

theorem5 = Claim(
    id="scan_snap/theorem5",
    source="Theorem 5, eq. 70",
    says="After N steps of eq. 26 on uniformly drawn classes, Y = (F†)ᵀ(I+Θ)W̄(N) with |θ_n| ≤ K/√N·√ln(K/δ) for all "
    "n, with probability 1 − δ.",
    predict=_decoder_in_closed_form,
    observe=_decoder_trained,
    compare=every(close("Y", ALGEBRA, by="by eq. 70", seen="by gradient steps"), covered("within", "promised")),
    settings={
        "fast": {**_SLOW_DECODER, "runs": 100, "samples": 1600, "classes": 2, "overlap": 0.45, "vocab": 200},
        "full": {**_SLOW_DECODER, "runs": 60, "samples": 3200, "classes": 3, "overlap": 0.15, "vocab": 2000},
    },
    control=Control("classes are not drawn uniformly", {"first": 0.8}),
    assumes=(Assumption("Assumption 2: 6/√M ≤ |λ_i(E)| < 1/K", weak_correlations),),
    whose="the paper's statement",
)


def _error_predicted(
    eta_y: float, vocab: int, classes: int, window: tuple[float, float], errors: tuple[float, ...]
) -> xr.Dataset:
    """Eq. 71 at N̄, and eq. 73."""
    times = _window(eta_y, vocab, classes, window)
    norm = theory.prediction_error(times / classes, eta_y=eta_y, vocab=vocab)
    allowed = theory.steps_to_error(np.array(errors), eta_y=eta_y, vocab=vocab, classes=classes)
    return trajectory(
        {"norm": ("time", norm), "steps_high": ("error", allowed)},
        {"time": times, "error": list(errors)},
        units={"time": "steps"},
    )


def _window(eta_y: float, vocab: int, classes: int, window: tuple[float, float]) -> Array:
    """Times from window[0]·t0 to window[1]·t0."""
    t0 = float(theory.snap_time(eta_y=eta_y, vocab=vocab, classes=classes))
    return np.unique(np.geomspace(window[0] * t0, window[1] * t0, 30).astype(int))


def _error_trained(
    eta_y: float, vocab: int, classes: int, window: tuple[float, float], errors: tuple[float, ...], runs: int
) -> xr.Dataset:
    """‖x − α_n‖ of rows trained by eq. 8, each as often as its class was drawn; `window` is in units of t0.

    A row moves only when its class is drawn, and all rows move alike, so training one row is enough.
    """
    times = _window(eta_y, vocab, classes, window)
    draw = stream("scan_snap/corollary1", runs)
    new = np.diff(times, prepend=0)
    counts = np.cumsum(draw.multinomial(new, np.full(classes, 1 / classes), size=(runs, len(new))), axis=1)
    needed = theory.steps_to_error(min(errors), eta_y=eta_y, vocab=vocab, classes=classes)
    w, right, norms = np.zeros(vocab), np.eye(vocab)[0], []
    for _ in range(max(int(counts.max()), int(needed / classes)) + 1):
        wrong = right - softmax(w)
        norms.append(np.linalg.norm(wrong))
        w += eta_y * wrong
    norm = np.array(norms)
    first = [int(np.argmax(norm <= error)) * classes if norm.min() <= error else np.inf for error in errors]
    return trajectory(
        {"norm": (("draw", "time"), norm[counts].mean(axis=-1)), "steps": ("error", np.array(first, dtype=float))},
        {"time": times, "error": list(errors)},
        units={"time": "steps"},
    )


corollary1 = Claim(
    id="scan_snap/corollary1",
    source="Corollary 1, eq. 71 to 73",
    says="‖x_{T+1} − α_n‖ falls as O(1/N) once N is far past t0, and is below ε after K/(εη_Y)·ln(M/ε) steps at most. "
    "Its slope is within .1 of −1 from about 6·t0 on; at t0 itself it is −1.6 for M = 1000, because there "
    "e^{Mh} + M − 1 = M(η_Y·t/K − Mh + 1) + Mh, in which Mh is not yet small.",
    predict=_error_predicted,
    observe=_error_trained,
    compare=every(
        slope("norm", "time", -1.0),
        bounded("steps", high="steps_high"),
        close_relative("norm", STEPS_AS_FLOW, by="by eq. 71", seen="in training"),
    ),
    settings={
        "fast": {
            "eta_y": 0.9,
            "vocab": 200,
            "classes": 4,
            "window": (20.0, 1000.0),
            "errors": (0.3, 0.1, 0.03, 0.01, 0.003),
            "runs": 20,
        },
        "full": {
            "eta_y": 0.5,
            "vocab": 1000,
            "classes": 10,
            "window": (20.0, 5000.0),
            "errors": (0.3, 0.1, 0.03, 0.01, 0.003, 0.001),
            "runs": 100,
        },
    },
    control=Control("the slope is read before the transition", {"window": (0.05, 0.5)}),
    whose="the paper's statement",
)

CLAIMS = [lemma10_12, theorem5, corollary1]
