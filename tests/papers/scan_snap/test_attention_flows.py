"""Training as a flow: against autograd, against the trained model, and against small steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import simpson

from foretrain.models import Bilinear
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.claims.extensions import _crossed_task
from foretrain.papers.scan_snap.simulations import flows
from foretrain.papers.scan_snap.simulations.random_classes import RandomClasses

TASK = RandomClasses(instances=2, queries=2, per_query=2, distinct=2, share=(0.2, 0.4))


def random_state(draw: np.random.Generator, heads: int, vocab: int) -> dict[str, np.ndarray]:
    instances, _, tokens = TASK.probabilities.shape
    by_query = draw.normal(0, 1, (instances, heads, TASK.queries, tokens))
    return {"Y": draw.normal(0, 2, (instances, heads, tokens, vocab)), "z": by_query[:, :, TASK.query]}


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 4))
def test_joint_velocity_is_the_gradient_of_the_mean_log_probability(seed: int, heads: int, samples: int) -> None:
    """Eq. 7 and 94, against autograd."""
    draw = np.random.default_rng(seed)
    state = random_state(draw, heads, vocab=6)
    counts = draw.multinomial(30, TASK.probabilities[:, :, None], size=(2, 4, samples)) + 0.1
    velocity = flows.joint_velocity(counts, TASK.query, state, eta_y=0.3, eta_z=0.7)
    Y = torch.tensor(state["Y"], requires_grad=True)
    rows = torch.tensor(state["z"][:, :, [0, 2]], requires_grad=True)  # one row of Z per query
    total = torch.zeros(())
    for n in range(4):
        c = torch.from_numpy(counts[:, None, n]) * torch.exp(rows[:, :, TASK.query[n], None])
        logits = ((c / c.norm(dim=-1, keepdim=True)) @ Y).sum(dim=1)
        total = total + torch.log_softmax(logits, dim=-1)[..., n].mean(dim=-1).sum()
    (total / 4).backward()
    np.testing.assert_allclose(velocity["Y"], 0.3 * Y.grad, atol=1e-12)
    np.testing.assert_allclose(velocity["z"], 0.7 * rows.grad[:, :, TASK.query], atol=1e-12)


def test_joint_velocity_agrees_with_the_trained_model() -> None:
    """Two programs give the same gradient: one over tokens, the model's over blocks of common and distinct tokens."""
    task, batch = _crossed_task(0, queries=2, per_query=2)
    model = Bilinear(task, dtype=torch.float64)
    draw = torch.Generator().manual_seed(1)
    blocks = {
        name: torch.randn(1, 1, *block.shape[1:], generator=draw, dtype=torch.float64)
        for name, block in model.start([("test", 0, "start")]).items()
    }
    gradient = model.full(model.gradient(blocks, model.prepare([batch]), task.classes))
    Y, Z = (matrix[0, 0].numpy() for matrix in model.full(blocks))
    # in the flow, the next token of class n is column n
    order = np.concatenate([task.label, np.setdiff1d(np.arange(task.vocab), task.label)])
    state = {"Y": Y[None, None][..., order], "z": Z[task.query][None, None]}
    velocity = flows.joint_velocity(task.probabilities[None, :, None], task.query, state, eta_y=1.0, eta_z=1.0)
    np.testing.assert_allclose(velocity["Y"][0, 0], -gradient[0][0, 0].numpy()[:, order], atol=1e-12)
    np.testing.assert_allclose(velocity["z"][0, 0], -gradient[1][0, 0].numpy()[task.query], atol=1e-12)


@pytest.mark.parametrize("residual", [True, False])
def test_gradient_of_the_model_with_and_without_residual(residual: bool) -> None:
    """Section 7: ū = LN(LN(ũ) + u_xT); the model's gradient is that of the loss, by autograd on full matrices."""
    task, batch = _crossed_task(1, queries=2, per_query=2)
    model = Bilinear(task, residual=residual, dtype=torch.float64)
    draw = torch.Generator().manual_seed(2)
    blocks = {
        name: torch.randn(1, 1, *block.shape[1:], generator=draw, dtype=torch.float64).requires_grad_()
        for name, block in model.start([("test", 0, "start")]).items()
    }
    Y, Z = (matrix[0, 0] for matrix in model.full(blocks))
    query = torch.from_numpy(task.query)
    c = torch.from_numpy(task.probabilities) * torch.exp(Z[query])
    f = c / c.norm(dim=-1, keepdim=True)
    if residual:
        f = f + torch.eye(task.vocab, dtype=torch.float64)[query]
        f = f / f.norm(dim=-1, keepdim=True)
    loss = torch.nn.functional.cross_entropy(f @ Y, torch.from_numpy(task.label))
    expected = dict(zip(blocks, torch.autograd.grad(loss, list(blocks.values())), strict=True))
    with torch.no_grad():
        gradient = model.gradient({k: v.detach() for k, v in blocks.items()}, model.prepare([batch]), task.classes)
    assert gradient.keys() == expected.keys()
    for name, value in gradient.items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-12)


def test_rows_of_both_matrices_keep_their_sum() -> None:
    """Section 3.1: Ẏ1 = Ż1 = 0."""
    start = np.random.default_rng(0).normal(0, 0.5, (2, 2, 1, TASK.probabilities.shape[-1])).repeat(4, axis=2)
    flow = flows.joint_flow(
        TASK.probabilities, TASK.query, vocab=10, eta_y=0.5, eta_z=0.5, save_at=np.linspace(0, 50, 6), start=start
    )
    np.testing.assert_allclose(flow["Y"].sum("label"), 0, atol=1e-10)
    sums = flow["z"].sum("token")
    np.testing.assert_allclose(sums, sums.isel(time=[0]).values.repeat(6, axis=0), atol=1e-10)
    np.testing.assert_allclose(flow["velocity"].isel(time=0), 0, atol=1e-15)  # Y = 0 sends nothing back
    moved = flow["z"].isel(time=-1) - flow["z"].isel(time=0)
    assert float(abs(moved).max()) > 0.01


def test_descent_approaches_the_flow_in_proportion_to_its_step() -> None:
    """Halving the step of gradient descent halves its distance to the flow."""
    P, until = TASK.probabilities, 40
    flow = flows.joint_flow(P, TASK.query, vocab=10, eta_y=1.0, eta_z=0.5, save_at=np.array([0.0, until]))
    errors = []
    for finer in (1, 2, 4):
        steps = until * finer
        descent = flows.joint_descent(
            lambda: P[:, :, None],
            TASK.query,
            vocab=10,
            eta_y=1.0 / finer,
            eta_z=0.5 / finer,
            steps=steps,
            save_every=steps,
        )
        assert descent["time"].values.tolist() == [0, steps]
        errors.append(float(abs(descent["z"].isel(time=-1).values - flow["z"].isel(time=-1).values).max()))
    assert np.polyfit(np.log([1, 2, 4]), np.log(errors), 1)[0] == pytest.approx(-1, abs=0.1)


def test_attention_flow_collects_the_velocity_of_lemma4_by_query_and_the_growth() -> None:
    """Lemma 4, eq. 10: logits and growth are the integrals of their velocities, by Simpson's rule."""
    times = np.linspace(0, 100, 401)
    flow = flows.attention_flow(TASK.probabilities, TASK.query, vocab=1000, eta_y=0.5, eta_z=0.2, save_at=times)
    f = theory.features(TASK.probabilities, flow["z"].values)
    beta = theory.gradient_coefficients(f, vocab=1000)[1]
    rate = 0.2 * theory.speed(times, eta_y=0.5, vocab=1000, classes=4)
    velocity = theory.by_query(theory.attention_velocity(f, beta), TASK.query) * rate[:, None, None, None]
    np.testing.assert_allclose(flow["z"].values[-1], simpson(velocity, x=times, axis=0), atol=1e-6)
    speed = theory.growth_speed(f, beta) * rate[:, None, None]
    np.testing.assert_allclose(flow["growth"].values[-1], simpson(speed, x=times, axis=0), atol=1e-6)
    assert flow["growth"].values[-1].min() > 0.01
    z = flow["z"].values[-1]  # classes 0 and 1 have one query, 2 and 3 the other
    np.testing.assert_array_equal(z[:, [0, 2]], z[:, [1, 3]])
    assert abs(z[:, 0] - z[:, 2]).max() > 1e-3


def test_theorem3_holds_along_the_flow_of_eq_10() -> None:
    """Theorem 3, eq. 11 and 12: r of two distinct tokens from the logit of one, and bounds for the dominant token."""
    times = np.linspace(0, 2000, 5)
    flow = flows.attention_flow(TASK.probabilities, TASK.query, vocab=1000, eta_y=0.5, eta_z=0.5, save_at=times)
    z, f = flow["z"].values, theory.features(TASK.probabilities, flow["z"].values)
    for n, (first, second) in enumerate(TASK.distinct_tokens):
        ratio = (f[:, :, n, first] / f[:, :, n, second]) ** 2 - 1  # r of eq. 11: [time, instance]
        np.testing.assert_allclose(ratio, theory.relative_gain(ratio[0], z[:, :, n, first]), rtol=1e-9)
        assert abs(ratio[-1] / ratio[0]).min() > 1.05  # it does grow
        for instance in range(TASK.instances):
            dominant = first if f[0, instance, n, first] > f[0, instance, n, second] else second
            growth = flow["growth"].values[1:, instance, n]
            low, high = theory.growth_factor_bounds(growth, feature=f[0, instance, n, dominant])
            chi = theory.growth_factor(z[1:, instance, n, dominant])
            assert (low < chi).all()
            assert (chi < high).all()
            other = second if dominant == first else first
            assert (theory.growth_factor(z[1:, instance, n, other]) < chi).all()
