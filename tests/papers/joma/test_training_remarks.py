"""Trainings behind section 4, section 7 and appendix A.4, against plain loops, autograd and what must hold exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from foretrain.core.errors import InputError
from foretrain.core.streams import stream
from foretrain.papers.joma import theory
from foretrain.papers.joma.experiments import layer, student
from foretrain.papers.joma.experiments.theory import FIG4_TARGETS
from foretrain.papers.joma.setting import LayerTraining
from foretrain.papers.joma.simulations import embeddings, mixture, two_patterns
from foretrain.papers.joma.simulations.cdag import signals_at_angles, summed_over_parents


def _teacher(activation: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The samples of the student, written out."""
    draw = stream("joma/student", seed, "data")
    occurs = draw.random((200, 10)) < 0.3
    extra = draw.integers(10, size=200)
    for sample in range(200):
        occurs[sample, extra[sample]] = True
    x = occurs / occurs.sum(1, keepdims=True)
    told = x @ (20 * np.array(FIG4_TARGETS))
    y = told - told.mean()
    return x, np.maximum(y, 0) if activation == "relu" else y


@pytest.mark.parametrize("activation", ["relu", "linear"])
@pytest.mark.parametrize("loss", student.LOSSES)
def test_the_student_equals_a_plain_torch_loop(loss, activation):
    """Fig 4 in training: twenty steps by autograd, and what is recorded of them."""
    seed, steps = 3, 20
    x, y = map(torch.from_numpy, _teacher(activation, seed))
    start = np.abs(stream("joma/student", seed, "start").standard_normal((1, 11))) * 0.01
    W, z = torch.from_numpy(start).requires_grad_(), torch.zeros(10, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([W, z], lr=0.02)

    def output() -> torch.Tensor:
        b = x * torch.exp(z)
        u = (b / b.sum(1, keepdim=True)) @ W[0, :10] + W[0, 10]
        return torch.relu(u) if activation == "relu" else u

    objective = {
        "squared": lambda h: 0.5 * (y - h).square().mean(),
        "fixed": lambda h: -(y * h).mean(),
        "logistic": lambda h: torch.nn.functional.binary_cross_entropy_with_logits(h, (y > 0).double()),
    }[loss]
    for _ in range(steps):
        optimizer.zero_grad()
        objective(output()).backward()
        optimizer.step()
    run = student.train_student(loss, activation, (seed,), steps).isel(time=-1, seed=0)
    np.testing.assert_allclose(run["v"], W.detach()[0, :10], atol=1e-12)
    np.testing.assert_allclose(run["z"], z.detach(), atol=1e-12)
    share = torch.softmax(z.detach(), 0)
    assert float(run["entropy"]) == pytest.approx(float(-(share * share.log()).sum()), abs=1e-12)


def test_a_student_whose_attention_does_not_learn_keeps_it_uniform():
    run = student.train_student("squared", "linear", (1,), 10, learns=False)
    assert not run["z"].values.any()
    assert run["v"].isel(time=-1).values.any()


def test_the_pull_says_what_is_left_to_learn():
    """Theorem 4 in training: Δ_l at the start is E[y·x_l], and it goes to 0 as the student learns."""
    run = student.train_student("squared", "linear", (2,), 1500)
    x, y = _teacher("linear", 2)
    first = (y[:, None] * x).mean(0)
    # W starts at .01, so h is not exactly 0
    np.testing.assert_allclose(run["pull"][0, 0], first - first.mean(), atol=0.01)
    assert float(abs(run["pull"][-1]).max()) < 0.3 * float(abs(run["pull"][0]).max())


def test_one_node_answers_to_two_queries_and_eq60_holds():
    """Appendix A.4 and Fig 10 on synthetic data: both patterns, each with its own query only; ξ adds up."""
    run = two_patterns.train_two_patterns((4,), 600)
    response = run["response"].isel(seed=0).values
    assert response[0].min() > 0.9
    assert response[1:].max() < 0.1
    weights = run["weights"].isel(seed=0)
    moved = (weights - weights.isel(time=0)).values
    np.testing.assert_allclose(moved[:, -2:], run["bias"].isel(seed=0), atol=1e-13)


def test_pattern_samples_are_what_they_are_called():
    task = two_patterns.PatternTask()
    batch, kind = task.with_kinds(300, np.random.default_rng(1))
    x, query = batch.x.numpy(), batch.query.numpy()
    np.testing.assert_allclose(x.sum(1), 1)
    for own, other, pair in ((0.5, 0.0, 0), (0.0, 0.5, 1), (0.0, 0.0, 2)):
        chosen = kind == pair
        for m in range(2):
            rows = x[chosen & (query == m)]
            np.testing.assert_allclose(rows[:, 5 * m : 5 * m + 5].sum(1), own)
            np.testing.assert_allclose(rows[:, 5 * (1 - m) : 5 * (1 - m) + 5].sum(1), other)
    assert batch.signal[:, 0].tolist() == (kind == 0).astype(float).tolist()


def test_no_single_weight_tells_the_pairs_apart_without_attention():
    """Appendix A.4: v·p1 + ξ1 and v·p2 + ξ2 sum to the same as the crossed pairs, whatever v and ξ."""
    run = two_patterns.train_two_patterns((4,), 600, learns=False)["response"].isel(seed=0)
    assert float(run.sel(pair=two_patterns.PAIRS[0]).mean() - run.sel(pair=two_patterns.PAIRS[1]).mean()) < 0.3


def test_euler_rule_of_the_mixture():
    """Theorem 3 in training: under a fixed gradient ½d‖θ‖²/dt = E[g·h], by one step of gradient descent."""
    short = mixture.train_on_mixture("fixed", problems=3, steps=2, rate=1e-6)
    draw = stream("joma/mixture", 3, 200, 3)
    mean = draw.standard_normal((3, 1, 3))
    mean *= 2 / np.linalg.norm(mean, axis=-1, keepdims=True)
    x = draw.standard_normal((3, 200, 3)) + (np.arange(200) < 100)[:, None] * mean
    theta = 0.5 * draw.standard_normal((3, 4))
    h = np.maximum(x @ theta[:, :3, None] + theta[:, None, 3:], 0)[..., 0]
    g = np.where(np.arange(200) < 100, 1.0, -np.linspace(0.4, 3.0, 3)[:, None])
    size = short["size"].values
    np.testing.assert_allclose(size[0], np.linalg.norm(theta, axis=1))
    np.testing.assert_allclose((size[-1] ** 2 - size[0] ** 2) / 4e-6, (g * h).mean(1), atol=1e-4)
    with pytest.raises(InputError, match="loss"):
        mixture.train_on_mixture("hinge")


def test_a_token_that_never_occurs_takes_its_logit_from_its_neighbour():
    """Section 7: with Z from embeddings it has cos times the neighbour's logit, with a free Z none."""
    run = embeddings.train_shared_attention(cosine=0.3, steps=20)
    np.testing.assert_allclose(run["unseen"], 0.3 * run["seen"], atol=1e-14)
    assert abs(float(run["seen"][-1])) > 1e-3
    assert not embeddings.train_shared_attention(cosine=0.3, steps=20, free=True)["unseen"].values.any()


def test_speeds_of_shared_logits_are_those_of_the_formula():
    """Section 7: autograd through A against Ż = K_Q·G·K_C."""
    run = embeddings.shared_speeds()
    speed = theory.shared_logit_speed(run["free"], run["query_embeddings"], run["context_embeddings"])
    np.testing.assert_allclose(run["shared"], speed, atol=1e-14)
    gram = run["context_embeddings"].values.T @ run["context_embeddings"].values
    np.testing.assert_allclose(gram, 0.6 + 0.4 * np.eye(6), atol=1e-14)


def test_runs_of_trained_embeddings_do_not_depend_on_each_other():
    """Section 7: seeds are trained together; each gives what it gives by itself."""
    both, alone = (embeddings.train_embeddings(seeds, steps=5) for seeds in ((1, 2), (2,)))
    for name in ("pair_cosine", "other_cosine", "loss"):
        assert float(both[name].sel(seed=2)) == pytest.approx(float(alone[name][0]), abs=1e-13)
    x, _ = embeddings._synonym_data(True, 1, embeddings.SYNONYMS)
    np.testing.assert_allclose(x.sum(1), 1)


def test_assumption1_and_plain_cosines_by_hand():
    """Fig 2 and Assumption 1: E[g_hk x] from the labels and a softmax, and cosines without centring."""
    seeds, times = (2,), (0, 30)
    run = layer.fig2.run(kind=("random",), seeds=seeds, steps=30, points=2).isel(kind=0, seed=0)
    model, batch, states = layer.train_layer("random", "linear", LayerTraining(steps=30), seeds, times)
    pulls = []
    for time in range(2):
        h = model.hidden({name: value[time] for name, value in states.items()}, batch)[0].numpy()
        chances = np.exp(h) / np.exp(h).sum(1, keepdims=True)
        pulls.append(((np.eye(20) - chances).T @ batch.x[0].numpy()).ravel())
    assert float(run["pull_size"][1]) == pytest.approx(np.linalg.norm(pulls[1]) / np.linalg.norm(pulls[0]), rel=1e-12)
    cosine = pulls[0] @ pulls[1] / np.linalg.norm(pulls[0]) / np.linalg.norm(pulls[1])
    assert float(run["pull_cosine"][1]) == pytest.approx(cosine, rel=1e-12)
    z = states["Z"][1, 0, 0].numpy()
    squares = (model.context_weights(states["W"])[1, 0].numpy() ** 2).sum(0)
    plain = squares @ z / np.linalg.norm(squares) / np.linalg.norm(z)
    assert float(run["plain_cosine_first"][1]) == pytest.approx(plain, rel=1e-10)


def test_signals_have_the_angles_they_were_drawn_with():
    """Multi-layer Theorem 1: the bound is reached in the plane, never beaten, and C4 turns negative only above 90°."""
    run = signals_at_angles(draws=2000)
    bound = theory.gradient_correlation_bound(run["C1"], run["C2"], run["C3"])
    gap = (run["C4"] - bound).values
    below = run["angle"].values < 90
    assert gap.min() > -1e-12
    assert np.abs(gap[::2][below[::2]]).max() < 1e-11
    assert gap[1::2].max() > 0.1
    assert run["C4"].values[below].min() > 0
    assert (run["C4"].values[~below] < 0).any()


def test_gradients_of_parents_add_up():
    """Multi-layer analysis: corr(z, g_k) is the sum over the parents, and may be negative."""
    run = summed_over_parents(graphs=5, samples=64)
    np.testing.assert_allclose(run["whole"], run["parts"], atol=1e-12)
    assert run["met"].any()
