"""Theorem 4 with its constants from the data, and with every correction."""

from __future__ import annotations

import numpy as np
import pytest

from foretrain.core.errors import InputError
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.simulations.flows import attention_flow
from foretrain.papers.scan_snap.simulations.full_gradient import common_for_overlap, shared_token_classes

FIG3 = {"eta_y": 0.1, "eta_z": 0.5}
STEPS = ((False, False, False), (True, False, False), (True, True, False), (True, True, True))


def test_the_ladder_of_corrections() -> None:
    """Theorem 4 at K = 10, M = 1000, t = 4000: growth factors as each correction is made, for three common tokens."""
    ladder = [
        [
            float(theory.theorem4_growth_factor(4000.0, probabilities=P, **FIG3, constant=c, per_class=k, clock=t))
            for P in (shared_token_classes(10, 1000, common=p) for p in (0.05, 0.2, 0.5))
        ]
        for c, k, t in STEPS
    ]
    expected = [[56.99, 34.27, 4.208], [1.671, 13.95, 5.219], [1.133, 1.391, 1.218], [1.048, 1.280, 1.176]]
    np.testing.assert_allclose(ladder, expected, rtol=1e-3)


def test_the_rest_of_the_ladder_is_the_gradient_and_the_memory() -> None:
    """Theorem 4 in the same setting: χ by eq. 10, by the loss's gradient without memory, and with it."""
    for common, expected in ((0.05, (1.056, 1.018, 1.002)), (0.2, (1.335, 1.180, 1.007)), (0.5, (1.675, 1.485, 1.076))):
        P, times = shared_token_classes(10, 1000, common=common), np.array([0.0, 4000.0])
        flow = attention_flow(
            P[None, :, :21], np.zeros(10, int), vocab=1000, eta_y=0.1, eta_z=0.05, save_at=times, rtol=1e-8
        )
        z = [
            flow["z"].values[-1, 0, 0, 1],
            theory.predicted_logits_adiabatic(P, **FIG3, times=times)[-1, 1],
            theory.predicted_logits(P, **FIG3, times=times)[-1, 1],
        ]
        np.testing.assert_allclose(np.exp(2 * np.array(z)), expected, atol=6e-4)


def test_without_corrections_it_is_the_printed_formula() -> None:
    P = shared_token_classes(10, 1000, common=0.2)
    c0, t = theory.theorem4_c0(P), np.geomspace(1, 1e5, 7)
    setting = {**FIG3, "vocab": 1000, "classes": 10, "c0": c0}
    norm = np.linalg.norm(P[0])
    assert c0 == pytest.approx((norm / 0.2) ** 4 / 10)
    none = theory.theorem4_growth(t, probabilities=P, **FIG3, constant=False, per_class=False, clock=False)
    np.testing.assert_allclose(none, theory.attention_growth_printed(t, **setting), rtol=1e-12)
    first = theory.theorem4_growth(t, probabilities=P, **FIG3, per_class=False, clock=False)
    np.testing.assert_allclose(first, theory.attention_growth(t, **setting), rtol=1e-12)
    assert theory.theorem4_growth(0.0, probabilities=P, **FIG3) == pytest.approx(0, abs=1e-15)


def test_with_all_corrections_it_solves_eq_10_for_small_overlaps() -> None:
    """Theorem 4 corrected: against eq. 10 at the rate η_Z/K of the clock, the error is in proportion to the overlap."""
    classes, vocab, errors, overlaps = 5, 200_000, [], (0.003, 0.01, 0.03)
    for overlap in overlaps:
        P = shared_token_classes(classes, vocab, common=common_for_overlap(overlap))
        flow = attention_flow(
            P[None, :, :11], np.zeros(classes, int), vocab=vocab, eta_y=1.0, eta_z=2e-3, save_at=np.array([0.0, 100.0])
        )
        form = theory.theorem4_growth(100.0, probabilities=P, eta_y=1.0, eta_z=2e-3 * classes)
        errors.append(abs(float(flow["growth"].values[-1, 0, 0]) / form - 1))
    slope = np.polyfit(np.log(overlaps), np.log(errors), 1)[0]
    assert slope == pytest.approx(1, abs=0.15)
    assert errors[0] < 0.03


def test_what_theorem_4_is_not_for_is_refused() -> None:
    two = shared_token_classes(3, 20, common=0.2)
    two[:, 19] = 0.1
    two /= two.sum(axis=1, keepdims=True)
    with pytest.raises(InputError, match="single common token"):
        theory.theorem4_c0(two)
    with pytest.raises(InputError, match="overlap alike"):
        theory.theorem4_c0(shared_token_classes(3, 20, common=0.2, first=0.4))
