"""Random computational graphs against torch's autograd, graph by graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from foretrain import InputError
from foretrain.models.computational_graph import ACTIVATIONS, ComputationalGraph


@pytest.fixture
def problem():
    draw = np.random.default_rng(4)
    graph = ComputationalGraph.random(draw, graphs=5, inputs=4, hidden=6, outputs=2)
    return graph, draw.standard_normal((5, 9, 4)), draw.standard_normal((5, 9, 2))


def _by_autograd(graph: ComputationalGraph, number: int, x: np.ndarray, targets: np.ndarray):
    """Values, dJ/df of every node and dJ/dw for J = −½Σ(target − f)² of one graph."""
    functions = {"linear": lambda t: t, "relu": torch.relu, "tanh": torch.tanh}
    weights = torch.tensor(graph.weights[number], requires_grad=True)
    nodes = [torch.tensor(x[number, :, k], requires_grad=True) for k in range(graph.inputs)]
    for j in range(graph.inputs, weights.shape[0]):
        total = sum(weights[j, k] * nodes[k] for k in range(j))
        value = functions[ACTIVATIONS[graph.kinds[number, j]]](total)
        value.retain_grad()
        nodes.append(value)
    out = torch.stack(nodes[-graph.outputs :], 1)
    (-0.5 * ((torch.tensor(targets[number]) - out) ** 2).sum()).backward()
    gradients = [n.grad if n.grad is not None else torch.zeros_like(n) for n in nodes]
    return torch.stack(nodes, 1).detach().numpy(), torch.stack(gradients, 1).numpy(), weights.grad.numpy()


def test_values_and_gradients_are_autograds(problem):
    graph, x, targets = problem
    state = graph.run(x, targets)
    moved = graph.stepped(state, 0.1).weights - graph.weights
    for number in range(5):
        values, gradients, by_weight = _by_autograd(graph, number, x, targets)
        assert np.abs(state.values[number] - values).max() < 1e-12
        assert np.abs(state.gradients[number] - gradients).max() < 1e-12
        wanted = 0.1 * by_weight / 9 * graph.edges[number]
        assert np.abs(moved[number] - wanted).max() < 1e-12


def test_edges_lead_from_earlier_to_later_nodes(problem):
    graph = problem[0]
    assert not np.triu(graph.edges).any()
    assert not graph.edges[:, : graph.inputs].any()
    assert graph.edges[:, graph.inputs :].any(axis=2).all()
    assert not graph.edges[:, :, -graph.outputs :].any()
    assert np.array_equal(graph.weights != 0, graph.edges)


def test_sparse_graphs_keep_one_edge_per_node():
    graph = ComputationalGraph.random(np.random.default_rng(0), graphs=3, inputs=2, hidden=4, outputs=1, density=0.0)
    assert (graph.edges[:, 2:].sum(axis=2) == 1).all()


def test_training_lowers_the_error(problem):
    graph, x, targets = problem
    losses = []
    for _ in range(60):
        state = graph.run(x, targets)
        losses.append(float((state.gradients[..., -2:] ** 2).mean()))
        graph = graph.stepped(state, 0.05)
    assert losses[-1] < 0.8 * losses[0]


def test_bad_sizes_are_refused():
    with pytest.raises(InputError, match="at least 1"):
        ComputationalGraph.random(np.random.default_rng(0), graphs=0, inputs=2, hidden=4, outputs=1)
    with pytest.raises(InputError, match="density must lie between 0 and 1; got 2"):
        ComputationalGraph.random(np.random.default_rng(0), graphs=1, inputs=2, hidden=4, outputs=1, density=2.0)
