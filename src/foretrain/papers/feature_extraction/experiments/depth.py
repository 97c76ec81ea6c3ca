"""Deeper networks with and without LayerNorm: what is left of the bias, and how much of the kernel is about n-grams."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float
from numpy import ndarray as Array
from torch import Tensor
from torch.nn import functional

from foretrain.core.streams import torch_stream
from foretrain.core.trajectory import trajectory
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


def kernel_bias(kernel: Float[Array, "token token"]) -> float:
    """β/ρ read off a kernel between single tokens: the mean off its diagonal, and what the diagonal has above it."""
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


@cache
def depth_shares(
    layers: tuple[int, ...],
    width: int,
    seeds: int,
    tokens: int = 4,
    activation: str = "relu",
    normed: tuple[bool, ...] = (False, True),
) -> xr.Dataset:
    """β/ρ and the share of bigrams in empirical kernels, over (normed, layers), means over seeds."""
    single = torch.arange(tokens)[:, None]
    pairs = torch.cartesian_prod(torch.arange(tokens), torch.arange(tokens))

    def kernel(depth: int, with_norm: bool, seed: int, rows: Tensor) -> Array:
        window = rows.shape[1]
        net = DeepWindow(tokens, width, depth, window, with_norm, activation)
        return net.kernel(net.start(torch_stream("feature_extraction/depth", depth, window, seed)), rows)

    shares = np.array(
        [
            [
                [
                    (
                        kernel_bias(kernel(depth, with_norm, seed, single)),
                        bigram_share(kernel(depth, with_norm, seed, pairs).reshape([tokens] * 4)),
                    )
                    for seed in range(seeds)
                ]
                for depth in layers
            ]
            for with_norm in normed
        ]
    ).mean(axis=2)
    axes = ("normed", "layers")
    return trajectory(
        {"bias": (axes, shares[..., 0]), "bigram": (axes, shares[..., 1])},
        {"normed": [int(n) for n in normed], "layers": layers},
        width=width, seeds=seeds, activation=activation,
    )  # fmt: skip
