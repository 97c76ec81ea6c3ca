"""The twelve networks of the paper by name, each with its kernel in the limit of infinite width."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray as Array

from foretrain.data.tokens import TokenTexts
from foretrain.errors import require_known
from foretrain.kernels import tangent
from foretrain.kernels.empirical import empirical_ntk
from foretrain.kernels.tangent import Scales
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
    rows = [texts[i] for i in range(len(texts))]
    match kind.architecture:
        case "mlp":
            return tangent.mlp_kernel(kind.activation, scales).texts(texts.counts)
        case "cnn":
            return tangent.cnn_texts(kind.activation, WINDOW, texts, scales=scales)
        case "sa":
            return tangent.attention_texts(texts.counts, scales=scales)
        case "sa_mlp":
            dense = texts.counts.toarray()
            pairs = [[tangent.attention_mlp_text(kind.activation, a, b, scales) for b in dense] for a in dense]
            return np.array(pairs)
        case "mv" | "mv_diagonal":
            bigrams = texts.ngrams(2)[1]
            return tangent.matrix_vector_weight(scales) * (bigrams @ bigrams.T).toarray()
        case _:
            shared = kind.architecture == "rnn_shared"
            pairs = [[tangent.recurrent_kernel(a, b, shared=shared, scales=scales) for b in rows] for a in rows]
            return np.array(pairs)


def finite_kernel(net: Classifier, parameters: Parameters, texts: torch.Tensor) -> Float[Array, "text text"]:
    """Θ between texts of one length at the network's present weights (first output)."""

    def one(weights: Mapping[str, torch.Tensor], row: torch.Tensor) -> torch.Tensor:
        return net.scores(dict(weights), row.unsqueeze(0)).reshape(-1)

    return empirical_ntk(one, texts, parameters=parameters)[..., 0, 0].double().numpy()
