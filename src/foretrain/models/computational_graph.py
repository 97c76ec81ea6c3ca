"""Random computational graphs: every node applies its own activation to a weighted sum of earlier nodes.

Many graphs at once: the first axis of every array is the graph. Nodes are numbered so that a node only reads earlier
ones. The first are inputs, the last are outputs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray as Array

from foretrain.core.errors import require

ACTIVATIONS = ("linear", "relu", "tanh")


@dataclass(frozen=True)
class GraphState:
    """Values f, slopes σ′ and back-propagated gradients g of all nodes."""

    values: Float[Array, "graph sample node"]
    slopes: Float[Array, "graph sample node"]
    gradients: Float[Array, "graph sample node"]


@dataclass(frozen=True)
class ComputationalGraph:
    """f_j = σ_j(Σ_k w_jk·f_k) over the edges k → j."""

    edges: Bool[Array, "graph node node"]  # [j, k]: node j reads node k
    weights: Float[Array, "graph node node"]
    kinds: Int[Array, "graph node"]  # index into ACTIVATIONS
    inputs: int
    outputs: int

    @classmethod
    def random(
        cls, draw: np.random.Generator, *, graphs: int, inputs: int, hidden: int, outputs: int, density: float = 0.5
    ) -> ComputationalGraph:
        """Each possible edge exists with probability `density`. Every node except the inputs reads at least one."""
        require(min(graphs, inputs, outputs) >= 1, "graphs, inputs and outputs must be at least 1 each.")
        require(0 <= density <= 1, f"density must lie between 0 and 1; got {density}.")
        nodes = inputs + hidden + outputs
        earlier = np.tri(nodes, nodes, -1, dtype=bool)
        earlier[:inputs] = False
        earlier[:, nodes - outputs :] = False  # no node reads an output
        edges = (draw.random((graphs, nodes, nodes)) < density) & earlier
        chosen = draw.integers(0, np.maximum(earlier.sum(1), 1), size=(graphs, nodes))
        edges |= (np.arange(nodes) == chosen[..., None]) & earlier
        fan_in = np.maximum(edges.sum(-1, keepdims=True), 1)
        weights = edges * draw.standard_normal(edges.shape) / np.sqrt(fan_in)
        return cls(edges, weights, draw.integers(len(ACTIVATIONS), size=(graphs, nodes)), inputs, outputs)

    def run(self, x: Float[Array, "graph sample input"], targets: Float[Array, "graph sample output"]) -> GraphState:
        """Forward, then backward from g = target − f at the outputs, the direction that lowers the squared error."""
        nodes = self.edges.shape[1]
        values = np.zeros((*x.shape[:2], nodes))
        slopes = np.ones_like(values)
        values[..., : self.inputs] = x
        for node in range(self.inputs, nodes):
            total = np.einsum("gk,gsk->gs", self.weights[:, node, :node], values[..., :node])
            values[..., node], slopes[..., node] = _activate(total, self.kinds[:, node, None])
        gradients = np.zeros_like(values)
        gradients[..., -self.outputs :] = targets - values[..., -self.outputs :]
        for node in reversed(range(self.inputs, nodes)):
            sent = gradients[..., node] * slopes[..., node]
            gradients[..., :node] += self.weights[:, None, node, :node] * sent[..., None]
        return GraphState(values, slopes, gradients)

    def stepped(self, state: GraphState, rate: float) -> ComputationalGraph:
        """One step of gradient ascent on −½E‖target − f‖²."""
        pushed = state.slopes * state.gradients
        move = np.einsum("gsj,gsk->gjk", pushed, state.values) / state.values.shape[1]
        return replace(self, weights=self.weights + rate * self.edges * move)


def _activate(total: Array, kind: Array) -> tuple[Array, Array]:
    squashed = np.tanh(total)
    value = np.select([kind == 0, kind == 1], [total, np.maximum(total, 0)], squashed)
    slope = np.select([kind == 0, kind == 1], [np.ones_like(total), (total > 0).astype(float)], 1 - squashed**2)
    return value, slope
