"""The flow that predicts training, held against training in the model and against the whole flow of eq. 7 and 94."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from foretrain.core.errors import InputError
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.simulations.decoder_training import equal_overlaps, train_decoder
from foretrain.papers.scan_snap.simulations.flows import joint_flow
from foretrain.papers.scan_snap.simulations.full_gradient import (
    common_for_overlap,
    shared_token_classes,
    trained_logits,
)


def _random_classes(seed: int, classes: int = 3, occurring: int = 7, vocab: int = 12) -> np.ndarray:
    draw = np.random.default_rng(seed)
    P = np.zeros((classes, vocab))
    P[:, :occurring] = draw.dirichlet(np.full(occurring, 0.5), classes) * (draw.random((classes, occurring)) < 0.7)
    P[:, 0] += 0.1
    return P / P.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_whole_flow_for_any_classes(seed: int) -> None:
    """Eq. 7 and 94 over all M labels and all tokens give the same z as the K + 1 columns that are followed."""
    P, times = _random_classes(seed), np.array([0.0, 3.0, 40.0, 300.0])
    whole = joint_flow(P[None], np.zeros(len(P), int), vocab=P.shape[1], eta_y=0.7, eta_z=0.3, save_at=times)
    z = theory.predicted_logits(P, eta_y=0.7, eta_z=0.3, times=times)
    np.testing.assert_allclose(z, whole["z"].values[:, 0, 0, 0], atol=1e-8)


def test_gradient_steps_in_the_model_come_closer_in_proportion_to_their_length() -> None:
    """The flow is the limit of small steps: with half the rates and twice the steps, half the distance is left."""
    P = shared_token_classes(4, 30, common=0.4, shares=(0.6, 0.3, 0.1))
    z = theory.predicted_logits(P, eta_y=1.0, eta_z=0.2, times=[100.0])[0]
    far, near = (
        abs(trained_logits(P, eta_y=1 / k, eta_z=0.2 / k, save_at=[100 * k])["z"].values[0, 0, 0] - z).max()
        for k in (4, 8)
    )
    assert near < 0.02 * abs(z).max()
    assert far / near == pytest.approx(2, abs=0.1)


def test_equal_classes_and_equal_tokens_stay_equal() -> None:
    P = shared_token_classes(5, 40, common=0.3, shares=(0.25, 0.25, 0.5))
    z = theory.predicted_logits(P, eta_y=1.0, eta_z=0.1, times=[200.0])[0]
    own = z[1:16].reshape(5, 3)
    np.testing.assert_allclose(own, own[:1].repeat(5, axis=0), rtol=1e-6)
    assert own[0, 0] == own[0, 1]
    assert own[0, 2] > own[0, 0] > 0 > z[0]
    assert not z[16:].any()


@given(st.integers(0, 50), st.floats(0.1, 10))
def test_only_the_ratio_of_the_rates_and_time_in_steps_of_the_rate_count(seed: int, factor: float) -> None:
    """Section 6 (b), Fig 9: both rates times a factor is time times that factor."""
    P = _random_classes(seed % 5)
    slow = theory.predicted_logits(P, eta_y=0.5, eta_z=0.2, times=[20 * factor])
    fast = theory.predicted_logits(P, eta_y=0.5 * factor, eta_z=0.2 * factor, times=[20.0])
    np.testing.assert_allclose(fast, slow, atol=1e-7)


def test_names_of_tokens_and_classes_do_not_matter() -> None:
    P, order, rows = _random_classes(1), np.random.default_rng(0).permutation(12), [2, 0, 1]
    setting = {"eta_y": 1.0, "eta_z": 0.5, "times": [50.0, 10.0]}
    z = theory.predicted_logits(P, **setting)
    np.testing.assert_allclose(theory.predicted_logits(P[np.ix_(rows, order)], **setting), z[:, order], atol=1e-8)
    assert z.shape == (2, 12)
    np.testing.assert_array_equal(theory.predicted_logits(P, eta_y=1.0, eta_z=0.5, times=0.0), np.zeros((1, 12)))


def test_every_token_may_be_a_label() -> None:
    """K = M leaves no remaining token."""
    P = np.full((3, 3), 0.2) + 0.4 * np.eye(3)
    whole = joint_flow(P[None], np.zeros(3, int), vocab=3, eta_y=1.0, eta_z=1.0, save_at=np.array([0.0, 30.0]))
    z = theory.predicted_logits(P, eta_y=1.0, eta_z=1.0, times=[30.0])
    np.testing.assert_allclose(z[0], whole["z"].values[-1, 0, 0, 0], atol=1e-8)


def test_a_decoder_without_memory_is_the_limit_of_slow_attention() -> None:
    """Assumption 1(c): what the decoder's memory changes is in proportion to η_Z/η_Y, and about half of `memory`."""
    P = shared_token_classes(10, 1000, common=common_for_overlap(0.1))
    t0 = float(theory.snap_time(eta_y=1.0, vocab=1000, classes=10))
    feature = float((P[0] / np.linalg.norm(P[0])).max())
    logit = (1 + theory.omega1(vocab=1000)) * np.log(1000)
    ratios, excess = np.array([100.0, 300.0, 1000.0]), []
    for ratio in ratios:
        setting = {"eta_y": 1.0, "eta_z": 1 / ratio, "times": [t0]}
        with_memory, without = (
            f(P, **setting)[0, 1] for f in (theory.predicted_logits, theory.predicted_logits_adiabatic)
        )
        excess.append(without / with_memory - 1)
    slope = np.polyfit(np.log(ratios), np.log(excess), 1)[0]
    assert slope == pytest.approx(-1, abs=0.05)
    held = theory.memory(logit, eta_y=1.0, eta_z=1 / ratios, feature=feature)
    np.testing.assert_allclose(excess / held, 0.5, atol=0.1)


def test_the_drive_on_attention_is_made_of_confusions() -> None:
    """Theorem 1 under eq. 7: coefficients of g_n in the features of a decoder trained by its own gradient."""
    K, M, overlap, rate, steps = 6, 50, 0.2, 2.4, [1, 7, 40, 300]
    features = equal_overlaps(K, overlap)
    order = np.broadcast_to(np.arange(K), (1, max(steps), K))
    Y = train_decoder(features, order, eta_y=rate / K, vocab=M, save_at=steps, unmixed=False)[:, 0]
    error = np.eye(K, M) - softmax(features @ Y, axis=-1)
    coefficients = error @ np.swapaxes(Y, -1, -2) @ np.linalg.pinv(features)
    drive = theory.confusion_drive(max(steps), eta_y=rate, vocab=M, classes=K, overlap=overlap)
    np.testing.assert_allclose(drive[steps], -coefficients[:, 0, 1], rtol=1e-10)
    small = theory.confusion_drive(1, eta_y=1e-6, vocab=M, classes=K, overlap=overlap)[1]
    assert small == pytest.approx(theory.confusion_drive_at_first(1.0, eta_y=1e-6, vocab=M, classes=K), rel=1e-5)


def test_the_snap_is_read_off_the_curve_alone() -> None:
    """z = t²/(1 + t²) has d ln z/d ln t = 2/(1 + t²), which is 1 at t = 1; a straight line never snaps."""
    t = np.geomspace(0.01, 100, 801)
    curves = np.stack([t**2 / (1 + t**2), 5 * t**1.5, np.log1p(t) ** 0.5])
    snaps = theory.snap_of_curve(t, curves)
    assert snaps[0] == pytest.approx(1, rel=1e-3)
    assert np.isnan(snaps[1])
    assert snaps[2] == t[0]
    with pytest.raises(InputError, match="above 0"):
        theory.snap_of_curve(t, -curves[0])


@pytest.mark.parametrize(
    ("P", "times", "message"),
    [
        ([0.5, 0.5], [1.0], "class, token"),
        ([[0.5, 0.4]], [1.0], "sum to 1"),
        ([[1.0], [1.0]], [1.0], "at least as many tokens"),
        ([[0.5, 0.5]], [-1.0], "at least 0"),
    ],
)
def test_bad_input_is_refused_with_a_reason(P: list[float], times: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        theory.predicted_logits(P, eta_y=1.0, eta_z=1.0, times=times)
    with pytest.raises(InputError, match="eta_z"):
        theory.predicted_logits([[0.5, 0.5]], eta_y=1.0, eta_z=0.0, times=[1.0])
