"""The layer of Fig 2 and 3, and Theorem 1's runs, against plain code and autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from foretrain.core.errors import InputError
from foretrain.core.streams import stream
from foretrain.models.joint import JointBatch
from foretrain.papers.joma.experiments import layer, rank
from foretrain.papers.joma.setting import LayerTraining, RandomProblems
from foretrain.papers.joma.simulations import invariants

SMALL = RandomProblems(problems=2, nodes=2, contexts=3, samples=4)


def frequencies(kind: str, seed: int) -> np.ndarray:
    """x of Fig 2 written out class by class: [class, token]."""
    draw = stream("joma/layer", seed, "data")
    columns = draw.random((20, 20)) / 2
    for label in range(20):
        if kind == "smooth":
            for token in range(10):
                columns[label, token] = np.exp(-((token - 10 * label / 20) ** 2) / 30)
        columns[label] /= columns[label].sum()
    return columns


@pytest.mark.parametrize("kind", layer.KINDS)
def test_training_equals_a_plain_torch_loop(kind):
    """Ten steps of Fig 2 by autograd and torch.optim, and the cosine computed from its W and z by hand."""
    seed, steps = 4, 10
    x = torch.from_numpy(frequencies(kind, seed))
    draw = stream("joma/layer", seed, "start")
    W = torch.from_numpy(draw.standard_normal((20, 21)) / 100).requires_grad_()
    z = torch.from_numpy(draw.standard_normal((1, 20)) / 100).requires_grad_()
    optimizer = torch.optim.SGD([W, z], lr=0.1)
    started = (W.detach().clone(), z.detach().clone())
    for _ in range(steps):
        optimizer.zero_grad()
        b = torch.softmax(z / 0.5 + x.log(), dim=1)
        f = torch.cat([b, torch.ones(20, 1)], dim=1)
        torch.nn.functional.cross_entropy(f @ W.T, torch.arange(20)).backward()
        optimizer.step()
    _, _, states = layer.train_layer(kind, "linear", LayerTraining(steps=steps), (seed,), (0, steps))
    assert torch.allclose(states["W"][0, 0], started[0], atol=0)
    assert torch.allclose(states["W"][1, 0], W.detach(), atol=1e-14)
    assert torch.allclose(states["Z"][1, 0], z.detach(), atol=1e-14)

    mean = torch.softmax(started[1] / 0.5 + x.log(), dim=1).mean(0)

    def estimate(weights: torch.Tensor) -> torch.Tensor:
        squares = weights[:, :20].square()
        return (squares.sum(0) - squares.sum() * mean) / 2 / 0.5

    guess = estimate(W.detach()) - estimate(started[0]) + started[1][0]
    cosine = np.corrcoef(guess, z.detach()[0])[0, 1]
    run = layer.fig2.run(kind=(kind,), seeds=[seed], steps=steps, points=2).isel(time=-1, seed=0, kind=0)
    assert float(run["cosine"]) == pytest.approx(cosine, abs=1e-12)
    assert float(run["slope"]) == pytest.approx(np.polyfit(guess, z.detach()[0], 1)[0], rel=1e-9)


def test_pull_is_the_first_speed_of_v0_in_uniform_attention():
    """Fig 3: Δ_l at the start is v̇_0 under uniform attention, to which the small start is close."""
    run = layer.fig3(seeds=[1], steps=1, points=2)
    speed = (run["v"].isel(time=-1) - run["v"].isel(time=0)) / 0.1
    np.testing.assert_allclose(speed.isel(seed=0), run["pull"].isel(seed=0), atol=3e-4)


def test_fig3_shows_a_node_that_is_alive():
    """Fig 3: with ReLU node 0 may be dead from the start. Its v would never move, and show nothing."""
    run = layer.fig3("relu", seeds=[1, 2], steps=20, points=2)
    moved = abs(run["v"].isel(time=-1) - run["v"].isel(time=0)).max("context")
    assert (moved > 0).all()
    assert run["node"].values.tolist() == [1, 3]
    _, _, states = layer.train_layer("smooth", "relu", LayerTraining(steps=20), (1, 2), (0, 20))
    assert torch.equal(states["W"][1, 0, 0], states["W"][0, 0, 0])  # node 0 of the first seed
    np.testing.assert_array_equal(run["v"].isel(time=-1, seed=1), states["W"][1, 1, 3, :20])
    assert layer.fig3("linear", seeds=[1], steps=1, points=2)["node"].values.tolist() == [0]


@settings(max_examples=4)
@given(seed=st.integers(0, 50), attention=st.sampled_from(["linear", "exp"]))
def test_the_invariant_holds_along_an_independent_flow(seed, attention):
    """Theorem 1: z² − Σv² or z − ½Σv² is constant, along the flow of eq. 9 by autograd and another solver."""
    batch = invariants.random_batch(SMALL, "signal", stream("test", seed))
    size = SMALL.nodes * (SMALL.contexts + 1)

    def field(_: float, flat: np.ndarray) -> np.ndarray:
        state = torch.from_numpy(flat.copy()).requires_grad_()
        W, z = state[:size].reshape(SMALL.nodes, -1), state[size:]
        b = batch.x * (z if attention == "linear" else torch.exp(z))
        h = torch.tanh(torch.cat([b, torch.ones(len(b), 1, dtype=b.dtype)], dim=1) @ W.T)  # any φ
        (batch.signal * h).sum().div(len(b)).backward()
        return state.grad.numpy()

    start = stream("test", seed, "start").standard_normal(size + SMALL.contexts) / 2
    end = solve_ivp(field, (0, 3), start, "RK45", rtol=1e-10, atol=1e-12).y[:, -1]
    conserved = []
    for flat in (start, end):
        v, z = flat[:size].reshape(SMALL.nodes, -1)[:, :-1], flat[size:]
        conserved.append(z**2 - (v**2).sum(0) if attention == "linear" else z - (v**2).sum(0) / 2)
    np.testing.assert_allclose(conserved[1], conserved[0], atol=1e-8)
    assert np.abs(end - start).max() > 1e-2


def test_flow_of_random_problems_is_followed_by_another_solver():
    """Theorem 1: `invariant_flow` for a smooth φ and one batch, against another solver on the same field."""
    run = invariants.invariant_flow("exp", ("linear",), SMALL, until=1.0, batches=1)
    model = invariants.layer(SMALL, "exp", "linear")
    batch = invariants.batches_of_problems(SMALL, "labels")
    start = model.start([("joma/theorem1", problem, "start") for problem in range(2)])
    flat = np.concatenate([start["W"].numpy().ravel(), start["Z"].numpy().ravel()])

    def field(_: float, y: np.ndarray) -> np.ndarray:
        cut = start["W"].numel()
        state = {"W": y[:cut].reshape(start["W"].shape), "Z": y[cut:].reshape(start["Z"].shape)}
        return np.concatenate([part.ravel() for part in model.field(batch)(0.0, state).values()])

    end = solve_ivp(field, (0, 1), flat, "LSODA", rtol=1e-10, atol=1e-12).y[start["W"].numel() :, -1]
    last = run["z"].sel(drive="labels").isel(activation=0, time=-1).transpose("problem", "query", "context")
    np.testing.assert_allclose(last.values.ravel(), end, atol=1e-8)


def test_condition_residuals_by_hand():
    """Theorem 1, softmax attention: both sides of E[g h′ bbᵀ] = b̄·E[g h′ b]ᵀ written out for two samples."""
    size = RandomProblems(problems=1, nodes=2, contexts=2, samples=2)
    model = invariants.layer(size, "softmax", "linear")
    x = torch.tensor([[[0.75, 0.25], [0.5, 0.5]]], dtype=torch.float64)
    signal = torch.tensor([[[1.0, -1.0], [2.0, -2.0]]], dtype=torch.float64)
    batch = JointBatch(x, torch.zeros(1, 2, dtype=torch.long), signal=signal)
    state = {"W": torch.ones(1, 2, 3, dtype=torch.float64), "Z": torch.zeros(1, 1, 2, dtype=torch.float64)}
    left = sum(g * np.outer(b, b) for g, b in zip((0.5, 1.0), x[0].numpy(), strict=True))
    right = np.outer(x[0].mean(0), sum(g * b for g, b in zip((0.5, 1.0), x[0].numpy(), strict=True)))
    per_node, summed = invariants.condition_residuals(model, state, batch)
    assert per_node.item() == pytest.approx(np.abs(left - right).max() / np.abs(left).max(), abs=1e-14)
    assert summed.item() < 1e-15
    equal, _ = invariants.condition_residuals(model, state, invariants.equal_samples(batch))
    assert equal.item() < 1e-15


def test_embeddings_of_the_almost_orthogonal_flow_reach_up_to_epsilon():
    drift = invariants.almost_orthogonal_flow(size=SMALL)["drift"]
    ratio = (drift / drift["epsilon"]).mean("problem").values
    np.testing.assert_allclose(ratio, ratio[0], rtol=0.1)  # linear, down to ε = 1e-3
    coherence = invariants.random_coherence(0.5, tokens=30, draws=3)
    assert (coherence["coherence"] < 0.5).all()
    assert (coherence["coherence"] > 0.1).all()


def test_rank_runs_have_one_curve_per_activation_and_start_alike():
    run = rank.rank(seeds=[2], steps=4, transformer_steps=2)
    first = run["stable_rank"].isel(time=0, seed=0).values
    assert first[0] == first[1]
    W = stream("joma/layer", 2, "start").standard_normal((20, 21)) / 100
    squares = np.linalg.svd(W, compute_uv=False) ** 2
    assert first[0] == pytest.approx(squares.sum() / squares[0], rel=1e-10)
    assert run["transformer_rank"].sizes["layer"] == 3


@pytest.mark.usefixtures("as_users_run_it")
def test_unknown_kind_is_refused():
    with pytest.raises(InputError, match="kind takes any of smooth, random"):
        layer.fig2.run(kind=("rough",), steps=1)
