"""Scores that each architecture will give tokens or n-grams, from the gradient flow of its limit kernel."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray as Array
from scipy import sparse

from foretrain.core.streams import stream
from foretrain.data.tokens import TokenTexts
from foretrain.forecast.corpora.flow import TextKernel, dense_kernel, flow, grid, sparse_kernel
from foretrain.kernels import features
from foretrain.kernels.label_flow import bias_plateau
from foretrain.kernels.tangent import Scales, even_attention_relu, mlp_kernel

SCALES = Scales(0.1, 0.1, 0.1, 0.1)  # of the initial weights; small, as in practice
ROUNDING = 1e-9  # scores below this share of the largest are rounding errors
PAIRED_TEXTS = 1000  # most texts for a kernel that is no sparse product and needs all pairs of texts
ALIKE = 0.9999  # architectures share a forecast if the cosine of their kernels is at least this
SAMPLED = 200  # texts on which kernels are compared

Maker = Callable[[TokenTexts, Scales, features.Rates], features.Features]


@dataclass(frozen=True)
class Architecture:
    """A network of the paper, and what a forecast needs to know about its kernel."""

    network: str  # its name among the paper's networks
    order: int  # the length of the n-grams it scores; 1 for single tokens
    features: Maker | None  # None if its kernel is no sparse product


def architectures(window: int) -> dict[str, Architecture]:
    """Every network with a closed form, by the name shown to users; `window` is the CNNs' window in tokens."""

    def cnn(activation: str) -> Maker:
        return lambda texts, scales, rates: features.window_features(texts, window, activation, scales, rates)

    def mlp(activation: str) -> Maker:
        return lambda texts, scales, rates: features.mlp_features(texts, activation, scales, rates)

    def recurrent(shared: bool) -> Maker:  # sees little more than the last token, so a token's count is no guide
        return lambda texts, scales, _: features.recurrent_features(texts, shared_matrix=shared, scales=scales)

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


def targets(labels: Int[Array, "text"], classes: int) -> Array:
    """Training targets of texts: ±1 for two classes, a one-hot row for more."""
    return 2.0 * labels - 1 if classes == 2 else np.eye(classes)[labels]


@dataclass(frozen=True)
class TrainingSet:
    """Texts with their labels, and the setting in which networks learn them."""

    texts: TokenTexts
    labels: Int[Array, "text"]
    classes: int
    scales: Scales = SCALES
    adaptive: bool = True  # every token learns at the rate that Adagrad gives it, instead of one for all, as in SGD

    @property
    def target(self) -> Array:
        return targets(self.labels, self.classes)

    @property
    def outputs(self) -> int:
        return 1 if self.classes == 2 else self.classes

    @property
    def rates(self) -> features.Rates:
        return features.token_rates(self.texts) if self.adaptive else None

    def select(self, rows: Int[Array, "chosen"]) -> TrainingSet:
        """The same with these texts only, in this order."""
        return replace(self, texts=self.texts.select(rows), labels=self.labels[rows])


def alike(kinds: dict[str, Architecture], training: TrainingSet) -> dict[str, str]:
    """For each architecture the first one whose kernel is practically the same on these texts, or itself."""
    sample = training.texts.select(np.sort(stream("forecast/alike").permutation(len(training.texts))[:SAMPLED]))
    rates = training.rates
    first: dict[str, str] = {}
    kernels: dict[str, Array] = {}
    for name, kind in kinds.items():
        first[name] = name
        if kind.features is None:
            continue
        kernel = kind.features(sample, training.scales, rates).kernel()
        kernel = kernel / max(np.linalg.norm(kernel), 1e-300)
        same = (k for k, other in kernels.items() if kinds[k].order == kind.order and (other * kernel).sum() >= ALIKE)
        first[name] = next(same, name)
        if first[name] == name:
            kernels[name] = kernel
    return first


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


@dataclass(frozen=True)
class Setup:
    """Training rows of one architecture and further texts to score, before any flow."""

    kernel: TextKernel
    cross: Callable[[Array], Array]  # pulls of the training rows -> scores of the further texts
    between: Callable[[int], Array]  # number of a further text -> Θ with each training row
    bias: Callable[[Array], Array]  # pulls -> score of an item never seen
    chosen: Int[Array, "row"]  # the training texts used; all of them unless the kernel needs all pairs

    def pulls_after(self, training: TrainingSet, time: float) -> Float[Array, "row output"]:
        """What every training row has pulled after a flow of this length."""
        return last_of(flow(self.kernel, training.target[self.chosen], grid(time)))


def set_up(kind: Architecture, training: TrainingSet, further: TokenTexts) -> Setup:
    """The kernels of an architecture between the training texts, and with further texts."""
    slope = 0.25 if training.classes == 2 else 0.5
    if kind.features is None:
        return _attention_relu(training.texts, further, slope, training.scales)
    whole = kind.features(training.texts.followed_by(further), training.scales, training.rates)
    rows, others = whole.split(len(training.texts))
    by_feature = sparse.csr_array(rows.T)
    return Setup(
        sparse_kernel(rows, slope),
        lambda pulls: others @ (by_feature @ pulls),
        lambda text: rows @ others[[text]].toarray()[0],
        lambda pulls: whole.shared * (rows[:, [0]].T @ pulls)[0],
        np.arange(len(training.texts)),
    )


def _attention_relu(texts: TokenTexts, further: TokenTexts, slope: float, scales: Scales) -> Setup:
    """Self-attention with a ReLU MLP, from all pairs of some texts. Attention is uniform, as for small embeddings."""
    chosen = np.sort(stream("forecast/texts").permutation(len(texts))[:PAIRED_TEXTS])
    counts, others = sparse.csr_array(texts.counts[chosen]), further.counts
    part, first, second = even_attention_relu(counts, counts, scales)
    unshared = part.toarray()
    table, asked, weights = even_attention_relu(others, counts, scales)

    def cross(pulls: Array) -> Array:
        return table @ pulls + np.outer(asked, weights @ pulls)

    def between(text: int) -> Array:
        return table[[text]].toarray()[0] + asked[text] * weights

    single = sparse.csr_array(sparse.eye_array(1, texts.vocab))

    def bias(pulls: Array) -> Array:
        _, alone, _ = even_attention_relu(single, counts, scales)
        return alone[0] * (weights @ pulls)

    return Setup(dense_kernel(unshared + np.outer(first, second), unshared, slope), cross, between, bias, chosen)


def scored(kind: Architecture, training: TrainingSet, items: TokenTexts, time: float) -> Scored:
    """Scores of the items after a flow of length `time`."""
    setup = set_up(kind, training, items)
    pulls = setup.pulls_after(training, time)
    return Scored.rounded(kind.order, setup.cross(pulls), setup.bias(pulls))


def last_of(values: Iterable[Array]) -> Array:
    """The last of some values, without keeping the others."""
    return deque(values, maxlen=1)[0]


def plateaus(training: TrainingSet) -> dict[str, Float[Array, "output"]]:
    """Where the bias of each MLP would settle if tokens carried no information about the class."""
    texts, sizes = training.texts, np.bincount(training.labels, minlength=training.classes)
    share = np.bincount(texts.flat, minlength=texts.vocab) / max(1, len(texts.flat))
    same_token, length = float(share @ share), max(1.0, float(texts.lengths.mean()))
    plateaus = {}
    for name in ("ReLU", "GeLU", "SiLU", "tanh"):
        settled = bias_plateau(sizes, length, same_token, mlp_kernel(name.lower(), training.scales))
        plateaus[f"MLP {name}"] = settled[1:] - settled[:1] if training.classes == 2 else settled
    return plateaus
