"""The twelve networks of the paper by name, each with its kernel in the limit of infinite width."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from numpy import ndarray as Array

from foretrain.data.tokens import TokenTexts
from foretrain.errors import require_known
from foretrain.kernels import features
from foretrain.kernels.empirical import empirical_ntk
from foretrain.kernels.tangent import Scales, attention_mlp_texts
from foretrain.models.classifiers import Classifier, Parameters

WINDOW = 2  # of the CNNs


@dataclass(frozen=True)
class Named:
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


def finite_kernel(net: Classifier, parameters: Parameters, texts: torch.Tensor) -> Float[Array, "text text"]:
    """Θ between texts of one length at the network's present weights (first output)."""
    return empirical_ntk(net.of_one, texts, parameters=parameters)[..., 0, 0].double().numpy()
