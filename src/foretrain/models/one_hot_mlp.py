"""The MLP of appendix I on one-hot tokens, many runs at once: parameters have a leading axis of runs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from foretrain.core.errors import require_at_least
from foretrain.models.parameters import Parameters


@dataclass(frozen=True)
class OneHotMLP:
    """Eq. 23: z0 = [e_x1, …, e_xk], z_ℓ = φ(W_ℓ z_{ℓ−1}), f = wᵀz_L with φ = ReLU and Gaussian weights."""

    tokens: int
    length: int
    width: int = 16
    layers: int = 1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            require_at_least(name, value, 1)

    def draw(self, runs: int, generator: torch.Generator) -> Parameters:
        """Initial parameters: independent Gaussian entries, with variances that keep z_ℓ of order 1."""

        def normal(variance: float, *shape: int) -> Tensor:
            return variance**0.5 * torch.randn(runs, *shape, generator=generator, dtype=torch.float64)

        inputs = [self.tokens * self.length, *([self.width] * (self.layers - 1))]
        weights = {f"W{i + 1}": normal(2 / (self.length if i == 0 else n), self.width, n) for i, n in enumerate(inputs)}
        return {**weights, "w": normal(1 / self.width, self.width)}

    def outputs(self, parameters: Parameters, strings: Int[Tensor, "string position"]) -> Float[Tensor, "run string"]:
        """f of every string, in every run."""
        z = F.one_hot(strings, self.tokens).flatten(1).to(torch.float64)
        hidden = torch.einsum("rwd,sd->rsw", parameters["W1"], z)
        for layer in range(2, self.layers + 1):
            hidden = torch.einsum("rvw,rsw->rsv", parameters[f"W{layer}"], torch.relu(hidden))
        return torch.einsum("rw,rsw->rs", parameters["w"], torch.relu(hidden))

    def gradient(
        self, parameters: Parameters, strings: Int[Tensor, "string position"], labels: Float[Tensor, "string"]
    ) -> Parameters:
        """Gradient of each run's mean squared error. No run sees another, so one backward pass serves all."""
        leaves = {name: value.detach().requires_grad_() for name, value in parameters.items()}
        loss = ((self.outputs(leaves, strings) - labels) ** 2).mean(dim=1).sum()
        return dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))

    def exchanged(
        self, parameters: Parameters, first: Int[Tensor, "position"], second: Int[Tensor, "position"]
    ) -> Parameters:
        """W1·Π, where the permutation Π of inputs swaps the tokens of two strings, position by position."""
        order = torch.arange(self.tokens * self.length).reshape(self.length, self.tokens)
        for place, (a, b) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
            order[place, [a, b]] = order[place, [b, a]]
        return {**parameters, "W1": parameters["W1"][:, :, order.flatten()]}
