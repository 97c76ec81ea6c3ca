"""Deeper networks with and without LayerNorm: how large the bias is, and how much of the kernel is about bigrams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray as Array
from torch import Tensor
from torch.nn import functional

from foretrain.core.streams import torch_stream
from foretrain.kernels.empirical import Parameters, empirical_ntk
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, about
from foretrain.models.classifiers import ACTIVATIONS
from foretrain.papers.feature_extraction.experiments.label_scores import LEAST, LabelledCorpus
from foretrain.papers.feature_extraction.experiments.parameters import SeedCount, Width

TOKENS = 4  # between which kernels are computed


@dataclass(frozen=True)
class DeepWindow:
    """A window of tokens, `layers` layers φ(W·/√d), each with LayerNorm before φ if `normed`, and a readout."""

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
        """The score of one window."""
        root = self.width**0.5
        inside = torch.einsum("kij,kj->i", parameters["first"], parameters["embedding"][tokens]) / root
        hidden = self._layer(inside)
        for k in range(1, self.layers):
            hidden = self._layer(parameters[f"layer_{k}"] @ hidden / root)
        return parameters["readout"] @ hidden / root

    def token_scores(self, parameters: Parameters) -> Float[Tensor, "vocab"]:
        """The scores of all tokens at once, each a window by itself."""
        root = self.width**0.5
        hidden = self._layer(parameters["embedding"] @ parameters["first"][0].mT / root)
        for k in range(1, self.layers):
            hidden = self._layer(hidden @ parameters[f"layer_{k}"].mT / root)
        return hidden @ parameters["readout"] / root

    def _layer(self, z: Tensor) -> Tensor:
        return ACTIVATIONS[self.activation](functional.layer_norm(z, z.shape[-1:]) if self.normed else z)

    def kernel(self, parameters: Parameters, windows: Tensor) -> Float[Array, "window window"]:
        return empirical_ntk(self.score, windows, parameters=parameters)[..., 0, 0].double().numpy()


def kernel_bias(kernel: Float[Array, "token token"]) -> float:
    """β/ρ of a kernel between single tokens: β is the mean off the diagonal, and ρ what the diagonal adds to it."""
    n = len(kernel)
    shared = (kernel.sum() - np.trace(kernel)) / (n * (n - 1))
    return float(shared / (np.trace(kernel) / n - shared))


def bigram_share(kernel: Float[Array, "first second first second"]) -> float:
    """The share of Θ(ab, ab) that no sum of one-token kernels can give.

    [Θ(ab,ab) − Θ(ab,ac) − Θ(ab,cb) + Θ(ab,cd)]/Θ(ab,ab): 0 for an additive network, 1 for a pure bigram
    kernel such as the matrix-vector model's.
    """
    n = kernel.shape[0]
    a, b = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    c, d = (a + 1) % n, (b + 1) % n
    same_bigram = kernel[a, b, a, b]
    mixed = same_bigram - kernel[a, b, a, d] - kernel[a, b, c, b] + kernel[a, b, c, d]
    return float(mixed.mean() / same_bigram.mean())


def bias_after_training(net: DeepWindow, corpus: LabelledCorpus, *, steps: int, rate: float, seed: int) -> float:
    """β/ρ as training shows it: a text's score is the sum over its tokens, and all weights descend on the mean loss.

    Under a constant kernel a score moves by ρA(e) + βΣ_e A(e), where A is the accumulated pull on each token. So ρ is
    the slope of what was learned over A, and β is what tokens that never occur have learned, over ΣA.
    """
    counts = torch.from_numpy(corpus.train.counts.toarray()).float()
    signs = torch.from_numpy(2.0 * corpus.labels - 1).float()
    parameters = net.start(torch_stream("feature_extraction/depth", "trained", net.layers, seed))
    before = net.token_scores(parameters)
    pull = torch.zeros(net.vocab)
    for _ in range(steps):
        leaves = {name: value.detach().requires_grad_() for name, value in parameters.items()}
        outputs = counts @ (net.token_scores(leaves) - before)
        slopes = torch.autograd.grad(functional.softplus(-signs * outputs).mean(), list(leaves.values()))
        pull += rate * (signs * torch.sigmoid(-signs * outputs.detach())) @ counts / len(signs)
        parameters = {
            name: value - rate * slope for (name, value), slope in zip(parameters.items(), slopes, strict=True)
        }
    learned = (net.token_scores(parameters) - before).double().numpy()
    pulled, often = pull.double().numpy(), corpus.occurrences >= LEAST
    own = np.polyfit(pulled[often], learned[often], 1)[0]
    return float(learned[corpus.unseen].mean() / pulled.sum() / own)


def depth(
    normed: Annotated[
        Literal["without LayerNorm", "with LayerNorm"], about("Whether every layer has LayerNorm.")
    ] = "without LayerNorm",
    layers: Annotated[Count, about("Number of layers.", unit="layers")] = 1,
    width: Width = 256,
    seeds: SeedCount = 4,
) -> dict[str, float]:
    """β/ρ and the share of bigrams in empirical kernels, as means over seeds."""
    tokens = torch.arange(TOKENS)

    def kernel(rows: Tensor, seed: int) -> Array:
        window = rows.shape[1]
        net = DeepWindow(TOKENS, width, layers, window, normed=normed == "with LayerNorm")
        return net.kernel(net.start(torch_stream("feature_extraction/depth", layers, window, seed)), rows)

    biases = [kernel_bias(kernel(tokens[:, None], seed)) for seed in range(seeds)]
    pairs = torch.cartesian_prod(tokens, tokens)
    bigrams = [bigram_share(kernel(pairs, seed).reshape([TOKENS] * 4)) for seed in range(seeds)]
    return {"bias": float(np.mean(biases)), "bigram": float(np.mean(bigrams))}


EXPERIMENTS = [
    Experiment(
        "feature_extraction/depth",
        "bias and bigram share against depth, with and without LayerNorm",
        depth,
        {"normed": ("without LayerNorm", "with LayerNorm"), "layers": (1, 2, 3, 4)},
        settings={"fast": {"layers": (1, 2), "width": 32, "seeds": 1}, "full": {}},
    )
]
