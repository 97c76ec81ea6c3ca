"""Theorem 1, Remark 1 and Remark 2 under the gradient of the loss (eq. 7): what drives attention in training."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control, Erratum
from foretrain.ledger.comparators import close_relative
from foretrain.ledger.tolerances import ALGEBRA
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.claims.theorem1 import decomposed
from foretrain.papers.scan_snap.simulations import flows
from foretrain.papers.scan_snap.simulations.decoder_training import equal_overlaps, train_decoder, with_overlaps
from foretrain.papers.scan_snap.simulations.full_gradient import (
    common_for_overlap,
    shared_token_classes,
    trained_logits,
)
from foretrain.papers.scan_snap.tolerances import PREDICTS

DOMINANT = 1

# Remark 1: Theorem 1 under the original dynamics, on features that stand still


def _steps(steps: int) -> list[int]:
    return sorted({1, *np.geomspace(2, steps, 10).astype(int).tolist()})


def _drive(eta_y: float, vocab: int, classes: int, overlap: float, steps: int, of_confusion: bool = True) -> xr.Dataset:
    """γβ_nn' as confusions make it, or that of Theorem 1 with the effective rate (1 − ρ)η_Y."""
    times = _steps(steps)
    if of_confusion:
        drive = theory.confusion_drive(steps, eta_y=eta_y, vocab=vocab, classes=classes, overlap=overlap)[times]
    else:
        beta = theory.gradient_coefficients(equal_overlaps(classes, overlap), vocab=vocab)[1][0, 1]
        rate = (1 - overlap) * eta_y
        drive = theory.speed(np.array(times, float), eta_y=rate, vocab=vocab, classes=classes) * beta
    return trajectory({"drive": ("time", drive)}, {"time": times}, {"time": "steps"})


def _drive_trained(
    eta_y: float, vocab: int, classes: int, overlap: float, steps: int, uneven: bool = False
) -> xr.Dataset:
    """−1 times the coefficient of f_1 in g_0 = Y(e_0 − α_0), Y trained by eq. 7 on every class at each step."""
    table = np.full((classes, classes), overlap)
    if uneven:
        table[0, 2] = table[2, 0] = overlap / 2
    features, times = with_overlaps(table), _steps(steps)
    order = np.broadcast_to(np.arange(classes), (1, steps, classes))
    Y = train_decoder(features, order, eta_y=eta_y / classes, vocab=vocab, save_at=times, unmixed=False)[:, 0]
    return trajectory({"drive": ("time", -decomposed(features, Y)[:, 0, 1])}, {"time": times}, {"time": "steps"})


remark1_theorem1 = Claim(
    id="scan_snap/remark1_theorem1",
    source="Section 4, after Theorem 1; Remark 1",
    says="Under the original dynamics (eq. 7) with all f_n·f_n' = ρ, the drive on attention is made of confusions: "
    "γβ_nn' = (η_Y/K)·Σ_s [α_nn'(t) + α_n'n(s) − α_n'(s)·α_n(t)], at first η_Y·t/(KM).",
    predict=_drive,
    observe=_drive_trained,
    compare=close_relative("drive", ALGEBRA, by="by the formula", seen="in the trained decoder"),
    settings={
        "fast": {"eta_y": 1.0, "vocab": 200, "classes": 5, "overlap": 0.1, "steps": 400},
        "full": {"eta_y": 1.0, "vocab": 1000, "classes": 10, "overlap": 0.1, "steps": 4000},
    },
    control=Control("one pair of classes overlaps half as much", {"uneven": True}),
    whose="the paper's statement",
    erratum=Erratum(
        changes={"of_confusion": False},
        prints="Under the original dynamics (eq. 7) with all f_n·f_n' = ρ, Theorem 1 still holds with the effective "
        "rate (1−ρ)η_Y: γβ_nn' is that of eq. 85 and 88.",
        says="Trained by its own gradient on features that stand still, the decoder is Y = Σ_n f_n·a_nᵀ with a_n = "
        "(η_Y/K)∫(e_n − α_n), so every coefficient of g_n is made of confusions α_nn', which are 1/M at first. Eq. 88 "
        "has E'_nn' there, about ρ. With K = 10, M = 1000 and ρ = .1 that is 53 times too much after one step, 23 at "
        "t0 and 18 at 4·t0.",
        formulas=(
            r"\gamma\beta_{nn'} = \gamma(t)\,E'_{nn'} \text{ at the rate } (1-\rho)\,\eta_Y",
            r"\gamma\beta_{nn'} = \frac{\eta_Y}{K}\int_0^t \left[\alpha_{nn'}(t) + \alpha_{n'n}(s) "
            r"- \alpha_{n'}(s)\cdot\alpha_n(t)\right] ds",
        ),
        consequence="Theorem 1 and all that builds on it describes training by the gradient of eq. 26, which nobody "
        "uses.",
    ),
)


# Theorem 1 and eq. 10 against training of decoder and attention together


def _setting(classes: int, vocab: int, overlap: float) -> tuple[np.ndarray, float]:
    P = shared_token_classes(classes, vocab, common=common_for_overlap(overlap))
    return P, float(theory.snap_time(eta_y=1.0, vocab=vocab, classes=classes))


def _at(t0: float, at: tuple[float, ...]) -> np.ndarray:
    return np.rint(t0 * np.array(at))


def _logits_predicted(
    classes: int, vocab: int, overlap: float, ratio: float, at: tuple[float, ...], in_training: bool = True
) -> xr.Dataset:
    """z of the dominant token by the flow of training.

    Or by eq. 10 with the coefficients of Theorem 1, at the rate η_Z/K that steps have.
    """
    P, t0 = _setting(classes, vocab, overlap)
    if in_training:
        z = theory.predicted_logits(P, eta_y=1.0, eta_z=1 / ratio, times=_at(t0, at))
        return _over_time(z[:, DOMINANT], at)
    flow = flows.attention_flow(
        P[None, :, P.any(axis=0)], np.zeros(classes, int), vocab=vocab, eta_y=1.0, eta_z=1 / ratio / classes,
        save_at=np.concatenate([[0.0], _at(t0, at)]), rtol=1e-9,
    )  # fmt: skip
    return _over_time(flow["z"].values[1:, 0, 0, DOMINANT], at)


def _logits_trained(
    classes: int, vocab: int, overlap: float, ratio: float, at: tuple[float, ...], first: float | None = None
) -> xr.Dataset:
    """The same in training; for the control class 0 has another share of the common token."""
    _, t0 = _setting(classes, vocab, overlap)
    P = shared_token_classes(classes, vocab, common=common_for_overlap(overlap), first=first)
    z = trained_logits(P, eta_y=1.0, eta_z=1 / ratio, save_at=_at(t0, at))["z"]
    return _over_time(z.values[0, :, 0, DOMINANT], at)


def _over_time(z: np.ndarray, at: tuple[float, ...]) -> xr.Dataset:
    return trajectory({"logit": ("at", z)}, {"at": list(at)})


theorem1_training = Claim(
    id="scan_snap/theorem1_training",
    source="Theorem 1, eq. 9, and Lemma 4, eq. 10, against training",
    says="Attention logits move as the flow of eq. 7 and 94 predicts: the drive on them is made of confusions.",
    predict=_logits_predicted,
    observe=_logits_trained,
    compare=close_relative("logit", PREDICTS, by="by the formula", seen="in training"),
    settings={
        "fast": {"classes": 5, "vocab": 200, "overlap": 0.2, "ratio": 100.0, "at": (0.25, 1.0, 4.0)},
        "full": {"classes": 10, "vocab": 1000, "overlap": 0.2, "ratio": 100.0, "at": (0.25, 1.0, 4.0)},
    },
    control=Control("the first class has a common token twice as likely", {"first": 0.6}),
    whose="the paper's statement",
    erratum=Erratum(
        changes={"in_training": False},
        prints="Attention logits move by eq. 10 with γ and β of Theorem 1 (here at the rate η_Z/K that a step has).",
        says="Eq. 10 is off by M·E' at first, and stays off. With K = 10, M = 1000, overlap .2 and η_Y/η_Z = 100, z "
        "of the dominant token by eq. 10 is 37, 16 and 11 times that in training at .25, 1 and 4 t0.",
        formulas=(
            r"\dot z_m = \eta_Z\,\gamma \sum_n \mathrm{diag}(f_n) \sum_{n'} E'_{nn'}\,(f_n f_n^\top - I)\, f_{n'}",
            r"\dot z_m = \frac{\eta_Z}{K} \sum_n \mathrm{diag}(f_n)\,(I - f_n f_n^\top)\; Y (e_n - \alpha_n)",
        ),
        consequence="Eq. 10 gets the signs of Theorem 2 right, but not how fast or how far attention moves.",
    ),
)


# Remark 2: when the logarithmic stage begins


def _start_of_stage(
    classes: int,
    vocab: int,
    overlaps: tuple[float, ...],
    rate: float,
    formula: Callable[..., ArrayLike] = theory.logarithmic_start,
) -> xr.Dataset:
    start = classes * float(np.asarray(formula(eta_y=rate * classes, vocab=vocab)))
    return trajectory({"start": ("overlap", np.full(len(overlaps), start))}, {"overlap": list(overlaps)})


@lru_cache(maxsize=4)
def _margins(classes: int, vocab: int, overlap: float, ratio: float, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Times, and by how much the output at the right next token exceeds the mean of all others in training."""
    P, eta_y = shared_token_classes(classes, vocab, common=common_for_overlap(overlap)), rate * classes
    t0 = float(theory.snap_time(eta_y=eta_y, vocab=vocab, classes=classes))
    times = np.unique(np.rint(np.linspace(0.1, 3, 200) * t0).astype(int))
    run = trained_logits(P, eta_y=eta_y, eta_z=eta_y / ratio, save_at=times, decoder=True)
    outputs = run["outputs"].values[0, :, 0]
    return times, outputs[:, 0] - outputs[:, 1:].mean(axis=1)


def _start_in_training(
    classes: int, vocab: int, overlaps: tuple[float, ...], ratio: float, rate: float, balance: float = 1.0
) -> xr.Dataset:
    """When e^u overtakes `balance`·(M−1)u in training, with u in the place of Mh."""
    starts = []
    for overlap in overlaps:
        times, u = _margins(classes, vocab, overlap, ratio, rate)
        starts.append(np.interp(0.0, u - np.log(balance * (vocab - 1) * u), times))
    return trajectory({"start": ("overlap", np.array(starts))}, {"overlap": list(overlaps)})


remark2_training = Claim(
    id="scan_snap/remark2_training",
    source="Remark 2, with decoder and attention trained together",
    says="In training the decoder's logit u grows logarithmically, e^u ≥ (M−1)u, from K·s1 = 2(1+ω1)K·ln M/η_Y steps "
    "on.",
    predict=_start_of_stage,
    observe=_start_in_training,
    compare=close_relative("start", PREDICTS, by="by the formula", seen="in training"),
    settings={
        "fast": {"classes": 3, "vocab": 100, "overlaps": (0.1, 0.5), "ratio": 100.0, "rate": 0.1},
        "full": {"classes": 10, "vocab": 1000, "overlaps": (0.1, 0.3, 0.5), "ratio": 100.0, "rate": 0.05},
    },
    control=Control("e^u must be twice (M−1)u", {"balance": 2.0}),
    whose="the paper's statement",
    erratum=Erratum(
        changes={"formula": theory.logarithmic_start_printed},
        prints="In training the decoder's logit u grows logarithmically, e^u ≥ (M−1)u, from K·s1 = 2K·ln(1+ω1)/η_Y "
        "steps on.",
        says="With K = 3, M = 100 and η_Y = .3 the printed stage begins after 7 steps. In training it begins after "
        "127, and 2(1+ω1)K·ln M/η_Y is 129.",
        formulas=(r"s_1 = \frac{2\ln(1+\omega_1)}{\eta_Y}", r"s_1 = \frac{2(1+\omega_1)\ln M}{\eta_Y}"),
        consequence="The printed s1 lies before the snap by a factor of about 20.",
    ),
)

CLAIMS = [remark1_theorem1, theorem1_training, remark2_training]
