"""Scores that each architecture will give tokens or n-grams, from the gradient flow of its limit kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray as Array
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator, eigsh, svds

from foretrain.core.streams import stream
from foretrain.data.tokens import TokenTexts
from foretrain.kernels import features
from foretrain.kernels.tangent import Scales, even_attention_relu, mlp_kernel
from foretrain.papers.feature_extraction import theory

TIME = 40.0  # length of the flow, in units of the time that the fastest direction of the counts needs
STEPS = 24  # of that flow; errors are below 1e-3 of the largest score (against 320 steps, on SST-2 and IMDB)
SCALES = Scales(0.1, 0.1, 0.1, 0.1)  # of the initial weights; small, as in practice
ROUNDING = 1e-9  # scores below this share of the largest are rounding errors
PAIRED_TEXTS = 1500  # most texts for a kernel that is no sparse product and needs all pairs of texts


@dataclass(frozen=True)
class Architecture:
    """A network of the paper, and what a forecast needs to know about its kernel."""

    network: str  # its name among the paper's networks
    order: int  # the length of the n-grams it scores; 1 for single tokens
    features: Callable[[TokenTexts, Scales], features.Features] | None  # None if its kernel is no sparse product


def architectures(window: int) -> dict[str, Architecture]:
    """Every network with a closed form, by the name shown to users; `window` is the CNNs' window in tokens."""

    def cnn(activation: str) -> Callable[[TokenTexts, Scales], features.Features]:
        return lambda texts, scales: features.window_features(texts, window, activation, scales)

    def mlp(activation: str) -> Callable[[TokenTexts, Scales], features.Features]:
        return lambda texts, scales: features.mlp_features(texts, activation, scales)

    def recurrent(shared: bool) -> Callable[[TokenTexts, Scales], features.Features]:
        return lambda texts, scales: features.recurrent_features(texts, shared_matrix=shared, scales=scales)

    return {
        "MLP ReLU": Architecture("MLP ReLU", 1, mlp("relu")),
        "MLP GeLU": Architecture("MLP GeLU", 1, mlp("gelu")),
        "MLP SiLU": Architecture("MLP SiLU", 1, mlp("silu")),
        "MLP tanh": Architecture("MLP tanh", 1, mlp("tanh")),
        "self-attention": Architecture("SA", 1, features.attention_features),
        "self-attention + ReLU": Architecture("SA + ReLU", 1, None),
        "CNN ReLU": Architecture("CNN ReLU", window, cnn("relu")),
        "CNN linear": Architecture("CNN linear", window, cnn("linear")),
        "matrix-vector": Architecture("MV diagonal", 2, features.matrix_vector_features),
        "linear RNN": Architecture("L-RNN shared", 1, recurrent(True)),
        "linear RNN, matrix per token": Architecture("L-RNN token", 2, recurrent(False)),
    }


@dataclass(frozen=True)
class Scored:
    """Scores of n-grams of one order, and the bias: the score of an n-gram whose tokens were never seen."""

    order: int
    scores: Float[Array, "item output"]
    bias: Float[Array, "output"]

    @classmethod
    def rounded(cls, order: int, scores: Float[Array, "item output"], bias: Float[Array, "output"]) -> Scored:
        """Set scores to 0 that are only rounding errors and would look like a forecast."""
        least = ROUNDING * np.abs(scores).max(initial=0.0)
        return cls(order, np.where(np.abs(scores) < least, 0.0, scores), np.where(np.abs(bias) < least, 0.0, bias))


def targets(labels: Int[Array, "text"], classes: int) -> Array:
    """Training targets of the texts: ±1 for two classes, a one-hot row for more."""
    return 2.0 * labels - 1 if classes == 2 else np.eye(classes)[labels]


def scored(
    kind: Architecture, texts: TokenTexts, joined: TokenTexts, target: Array, scales: Scales, time: float = TIME
) -> Scored:
    """Scores of the items that follow the texts in `joined`, after a flow of length `time`."""
    if kind.features is None:
        scores, bias = _attention_relu(texts, target, scales, time)
        return Scored.rounded(kind.order, scores[: len(joined) - len(texts)], bias)
    features = kind.features(joined, scales)
    rows, items = features.split(len(texts))
    weights = _flow(rows, target, time)
    return Scored.rounded(kind.order, items @ weights, features.shared * weights[0])


def _flow(rows: sparse.csr_array, target: Array, time: float) -> Float[Array, "feature output"]:
    """Weights of the features after the flow. The unit of time ignores column 0, the bias, so that all networks learn
    equally long from the counts, however large their bias."""
    others = sparse.diags_array(np.arange(rows.shape[1]) > 0, dtype=np.float64)
    fastest = theory.fastest(aslinearoperator(rows) @ aslinearoperator(others))
    steps = math.ceil(STEPS * max(1.0, math.sqrt(time / TIME)))
    return _column(theory.label_scores(rows, target, (1.0, 0.0), time / fastest, steps=steps))


def _attention_relu(
    texts: TokenTexts, target: Array, scales: Scales, time: float
) -> tuple[Float[Array, "token output"], Float[Array, "output"]]:
    """Self-attention with a ReLU MLP, from all pairs of some texts. Attention is uniform, as for small embeddings."""
    chosen = np.sort(stream("forecast/texts").permutation(len(texts))[:PAIRED_TEXTS])
    counts, target = sparse.csr_array(texts.counts[chosen]), target[chosen]
    part, first, second = even_attention_relu(counts, counts, scales)
    own = part.toarray()
    n = len(chosen)
    start = np.ones(n)
    fastest = eigsh(own, 1, v0=start, return_eigenvectors=False)[0] / n / 4
    kernel = own + np.outer(first, second)
    largest = svds(kernel, 1, v0=start, return_singular_vectors=False)[0]
    steps = int(np.ceil(time / fastest * largest / n / 4))
    pull = _column(theory.kernel_descent(kernel, np.eye(n), target, rate=time / fastest / steps, steps=steps))
    tokens = sparse.csr_array(sparse.eye_array(texts.vocab))
    part, first, second = even_attention_relu(tokens, counts, scales)
    return part @ pull + np.outer(first, second @ pull), first[0] * (second @ pull)


def _column(scores: Array) -> Float[Array, "item output"]:
    return scores if scores.ndim == 2 else scores[:, None]


def plateaus(texts: TokenTexts, labels: Array, classes: int, scales: Scales) -> dict[str, Float[Array, "output"]]:
    """Where the bias of each MLP would settle if tokens carried no information about the class."""
    sizes = np.bincount(labels, minlength=classes)
    share = np.bincount(texts.flat, minlength=texts.vocab) / max(1, len(texts.flat))
    plateaus = {}
    for name in ("ReLU", "GeLU", "SiLU", "tanh"):
        settled = theory.bias_plateau(
            sizes, max(1.0, float(texts.lengths.mean())), float(share @ share), mlp_kernel(name.lower(), scales)
        )
        plateaus[f"MLP {name}"] = settled[1:] - settled[:1] if classes == 2 else settled
    return plateaus
