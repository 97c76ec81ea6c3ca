"""The twelve networks of the paper by name, each with its tangent kernel at infinite width."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from numpy import ndarray as Array
from torch import Tensor
from torch.func import jacrev, vmap

from foretrain.core.errors import require_known
from foretrain.data.tokens import TokenTexts
from foretrain.kernels import features
from foretrain.kernels.tangent import Scales, attention_mlp_texts
from foretrain.models.classifiers import Classifier
from foretrain.models.parameters import Parameters

WINDOW = 2  # tokens that a CNN sees at once

JACOBIAN = 20_000_000  # entries of all Jacobians held at once: 80 MB


@dataclass(frozen=True)
class Named:
    """What a name of the paper stands for."""

    architecture: str
    activation: str


NETWORKS = {
    "MLP ReLU": Named("mlp", "relu"),
    "MLP GeLU": Named("mlp", "gelu"),
    "MLP SiLU": Named("mlp", "silu"),
    "MLP tanh": Named("mlp", "tanh"),
    "CNN ReLU": Named("cnn", "relu"),
    "CNN linear": Named("cnn", "linear"),
    "SA": Named("sa", "linear"),
    "SA + ReLU": Named("sa_mlp", "relu"),
    "MV full": Named("mv", "linear"),
    "MV diagonal": Named("mv_diagonal", "linear"),
    "L-RNN token": Named("rnn_token", "linear"),
    "L-RNN shared": Named("rnn_shared", "linear"),
}


def network(name: str, vocab: int, width: int, *, scales: Scales, outputs: int = 1, padded: bool = False) -> Classifier:
    """A network by its name; `padded` lets the windows of a CNN reach over both ends of a text."""
    require_known("network", name, NETWORKS)
    kind = NETWORKS[name]
    pad = padded and kind.architecture == "cnn"
    return Classifier(
        kind.architecture, vocab, width, kind.activation, outputs, window=WINDOW, padded=pad, scales=scales
    )


def limit_kernel(name: str, texts: TokenTexts, scales: Scales) -> Float[Array, "text text"]:
    """Θ between texts at infinite width."""
    require_known("network", name, NETWORKS)
    kind = NETWORKS[name]
    match kind.architecture:
        case "mlp":
            return features.mlp_features(texts, kind.activation, scales).kernel()
        case "cnn":
            features.require_windows(texts, WINDOW)
            return features.window_features(texts, WINDOW, kind.activation, scales).kernel()
        case "sa":
            return features.attention_features(texts, scales).kernel()
        case "sa_mlp":
            return attention_mlp_texts(kind.activation, texts.counts, scales=scales)
        case "mv" | "mv_diagonal":
            return features.matrix_vector_features(texts, scales).kernel()
        case _:
            shared = kind.architecture == "rnn_shared"
            return features.recurrent_features(texts, shared_matrix=shared, scales=scales).kernel()


def finite_kernels(
    net: Classifier, starts: Parameters, texts: Int[Tensor, "text place"]
) -> Float[Array, "run text text"]:
    """Θ of the first output between texts of one length, at the current weights of every run, all runs at once.

    This is for many small networks; `kernels.empirical` does the same for one network of any size.
    """

    def kernel(parameters: Parameters) -> Tensor:
        slopes = vmap(jacrev(lambda weights, text: net.of_one(weights, text)[0]), in_dims=(None, 0))(parameters, texts)
        flat = [slope.flatten(1) for slope in slopes.values()]
        return torch.stack([slope @ slope.mT for slope in flat]).sum(0)

    per_run = len(texts) * sum(value[0].numel() for value in starts.values())
    return vmap(kernel, chunk_size=max(1, JACOBIAN // per_run))(starts).double().numpy()
