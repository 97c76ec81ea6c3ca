"""Deeper networks with and without LayerNorm: what is left of the bias, and how much of the kernel is about n-grams."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray as Array
from torch import Tensor
from torch.nn import functional

from foretrain.kernels.empirical import Parameters, empirical_ntk
from foretrain.models.classifiers import ACTIVATIONS


@dataclass(frozen=True)
class DeepWindow:
    """A window of tokens through `layers` layers φ(W·/√d), each with LayerNorm before φ if `normed`, and a readout."""

    vocab: int
    width: int
    layers: int
    window: int = 1
    normed: bool = False
    activation: str = "relu"

    def start(self, generator: torch.Generator) -> dict[str, Tensor]:
        d = self.width
        shapes: dict[str, tuple[int, ...]] = {"embedding": (self.vocab, d), "first": (self.window, d, d)}
        shapes |= {f"layer_{k}": (d, d) for k in range(1, self.layers)} | {"readout": (d,)}
        return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}

    def score(self, parameters: Parameters, tokens: Tensor) -> Tensor:
        """Score of one window."""
        root = self.width**0.5
        inside = torch.einsum("kij,kj->i", parameters["first"], parameters["embedding"][tokens]) / root
        hidden = self._layer(inside)
        for k in range(1, self.layers):
            hidden = self._layer(parameters[f"layer_{k}"] @ hidden / root)
        return parameters["readout"] @ hidden / root

    def _layer(self, z: Tensor) -> Tensor:
        return ACTIVATIONS[self.activation](functional.layer_norm(z, z.shape) if self.normed else z)

    def kernel(self, parameters: Parameters, windows: Tensor) -> Float[Array, "window window"]:
        return empirical_ntk(self.score, windows, parameters=parameters)[..., 0, 0].double().numpy()


def bias_share(kernel: Float[Array, "token token"]) -> float:
    """β/ρ of a kernel between single tokens."""
    n = len(kernel)
    shared = (kernel.sum() - np.trace(kernel)) / (n * (n - 1))
    return float(shared / (np.trace(kernel) / n - shared))


def bigram_share(kernel: Float[Array, "first second first second"]) -> float:
    """The part of Θ(ab, ab) that no sum of one-token kernels gives.

    [Θ(ab,ab) − Θ(ab,ac) − Θ(ab,cb) + Θ(ab,cd)]/Θ(ab,ab): 0 for an additive network, 1 for a pure bigram
    kernel such as the matrix-vector model's.
    """
    n = kernel.shape[0]
    a, b = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    c, d = (a + 1) % n, (b + 1) % n
    own = kernel[a, b, a, b]
    mixed = own - kernel[a, b, a, d] - kernel[a, b, c, b] + kernel[a, b, c, d]
    return float(mixed.mean() / own.mean())
