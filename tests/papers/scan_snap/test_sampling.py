"""Mean and covariance of training on drawn samples, held against many runs of it and against steps without noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from foretrain.core.errors import InputError
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.simulations.full_gradient import (
    common_for_overlap,
    shared_token_classes,
    trained_logits,
)
from foretrain.papers.scan_snap.theory import sampling


def _uneven_classes(classes: int = 3, occurring: int = 6, vocab: int = 10) -> np.ndarray:
    P = np.zeros((classes, vocab))
    P[:, :occurring] = np.random.default_rng(3).dirichlet(np.ones(occurring), classes)
    return P


def _sgd(P: np.ndarray, *, eta_y: float, eta_z: float, steps: int, runs: int, batch: int = 1) -> np.ndarray:
    """Eq. 7 and 94 in all M labels and tokens, on classes drawn at random: z after the steps, [run, token]."""
    K, M = P.shape
    draw = np.random.default_rng(7)
    Y, z = np.zeros((runs, M, M)), np.zeros((runs, M))
    for _ in range(steps):
        share = draw.multinomial(batch, np.full(K, 1 / K), runs) / batch
        c = P * np.exp(z)[:, None]
        f = c / np.linalg.norm(c, axis=-1, keepdims=True)
        error = np.eye(K, M) - softmax(f @ Y, axis=-1)
        g = error @ np.swapaxes(Y, 1, 2)
        z_step = f * (g - f * (f * g).sum(axis=-1, keepdims=True))
        Y += eta_y * np.swapaxes(f * share[..., None], 1, 2) @ error
        z += eta_z * (z_step * share[..., None]).sum(axis=1)
    return z


@pytest.mark.parametrize(("batch", "excess"), [(1, 0.02), (4, 0.004)])
def test_it_is_the_mean_and_spread_of_many_runs(batch: int, excess: float) -> None:
    """Third order is left out: about a fifth of what noise adds at batch 1, and the rest is the error of 4000 runs."""
    P, setting = _uneven_classes(), {"eta_y": 0.5, "eta_z": 0.5}
    z = _sgd(P, **setting, steps=60, runs=4000, batch=batch)
    mean, spread = (x[0] for x in theory.logit_moments(P, **setting, times=[60], batch=batch))
    quiet = theory.logit_moments(P, **setting, times=[60], batch=np.inf)[0][0]
    error = z.std(axis=0) / np.sqrt(len(z))
    assert abs(mean - quiet).max() > excess * abs(quiet).max()
    assert np.all(abs(mean - z.mean(axis=0)) <= 4 * error + 0.25 * abs(mean - quiet).max())
    np.testing.assert_allclose(spread[:6], z.std(axis=0)[:6], rtol=0.15)


def test_without_noise_it_is_gradient_steps_on_all_classes() -> None:
    P, times = shared_token_classes(5, 40, common=0.4), [1, 10, 120]
    mean, spread = theory.logit_moments(P, eta_y=2.0, eta_z=1.0, times=times, batch=np.inf)
    trained = trained_logits(P, eta_y=2.0, eta_z=1.0, save_at=times)["z"].values.reshape(3, 5, 40)[:, 0]
    np.testing.assert_allclose(mean, trained, atol=1e-9)
    assert not spread.any()


def test_noise_adds_in_inverse_proportion_to_the_batch() -> None:
    P, sizes = shared_token_classes(5, 100, common=common_for_overlap(0.3)), np.array([64.0, 128.0, 256.0])
    excess = [theory.noise_excess(P, eta_y=1.0, eta_z=1.0, times=[60], batch=size) for size in sizes]
    assert np.polyfit(np.log(sizes), np.log(excess), 1)[0] == pytest.approx(-1, abs=0.05)


@pytest.mark.parametrize("ratio", [0.5, 20.0])
def test_classes_that_are_alike_need_two_blocks_only(ratio: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole covariance of all numbers gives the same; what the blocks leave out is of third order."""
    P = shared_token_classes(4, 30, common=common_for_overlap(0.3))
    setting = {"eta_y": 0.5, "eta_z": 0.5 / ratio, "times": [20, 90], "batch": 1}
    mean, spread = theory.logit_moments(P, **setting)
    monkeypatch.setattr(sampling, "_orbits", lambda task: None)
    whole_mean, whole_spread = theory.logit_moments(P, **setting)
    np.testing.assert_allclose(mean, whole_mean, rtol=2e-3, atol=1e-9)
    np.testing.assert_allclose(spread[:, :9], whole_spread[:, :9], rtol=0.01)


def test_names_of_tokens_and_classes_do_not_matter() -> None:
    P, setting = shared_token_classes(4, 20, common=0.4), {"eta_y": 1.0, "eta_z": 0.2, "times": [30.0, 7.5], "batch": 2}
    order = np.random.default_rng(0).permutation(20)
    for table in (P, np.vstack([P[:2], P[:1] * 0.5 + P[2:3] * 0.5])):
        z = theory.predicted_logits(table, **setting)
        np.testing.assert_allclose(theory.predicted_logits(table[::-1][:, order], **setting), z[:, order], atol=1e-8)
        np.testing.assert_array_equal(z, theory.logit_moments(table, **setting)[0])


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_every_token_may_be_a_label(classes: int) -> None:
    P = np.full((classes, classes), 0.5 / classes) + 0.5 * np.eye(classes)
    setting = {"eta_y": 0.3, "eta_z": 0.3}
    z = _sgd(P, **setting, steps=40, runs=2000).mean(axis=0)
    mean = theory.predicted_logits(P, **setting, times=[40], batch=1)[0]
    np.testing.assert_allclose(mean, z, atol=0.004)


def test_many_short_steps_are_followed_several_at_once() -> None:
    """With 2000 times shorter steps nothing is left but the flow, at every time."""
    P, times = shared_token_classes(5, 100, common=0.4), np.array([3e2, 3e3, 3e4])
    setting = {"eta_y": 0.01, "eta_z": 0.01, "times": times}
    z = theory.predicted_logits(P, **setting, batch=64)
    np.testing.assert_allclose(z, theory.predicted_logits(P, **setting), rtol=0.02, atol=1e-6)


def test_it_refuses_what_it_cannot_follow() -> None:
    P = shared_token_classes(20, 300, common=common_for_overlap(0.6))
    with pytest.raises(InputError, match="attention has run away by step"):
        theory.predicted_logits(P, eta_y=2.0, eta_z=100.0, times=[300], batch=1)
    assert theory.noise_excess(P, eta_y=2.0, eta_z=100.0, times=[300], batch=1) == np.inf
    uneven = np.random.default_rng(0).dirichlet(np.ones(40), 12)
    with pytest.raises(InputError, match="Take fewer classes or tokens"):
        theory.predicted_logits(uneven, eta_y=1.0, eta_z=1.0, times=[3], batch=1)
    assert theory.applies(uneven, eta_y=1.0, eta_z=1.0)["Small noise"].met is None
    with pytest.raises(InputError, match="batch must be at least 1"):
        theory.predicted_logits(P, eta_y=1.0, eta_z=1.0, times=[3], batch=0)
