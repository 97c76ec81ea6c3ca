"""A question the paper leaves open: what LayerNorm and depth do to the bias and to the n-gram kernel."""

from __future__ import annotations

from functools import cache

import numpy as np
import xarray as xr

from foretrain.core.looping import over
from foretrain.core.streams import seed_list, stream
from foretrain.core.trajectory import trajectory
from foretrain.kernels.tangent import cnn_window_kernel, mlp_kernel
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import bounded, close_relative, every, ranked
from foretrain.ledger.tolerances import Tolerance
from foretrain.papers.feature_extraction import theory
from foretrain.papers.feature_extraction.experiments.depth import EXPERIMENTS, DeepWindow, bias_after_training
from foretrain.papers.feature_extraction.experiments.label_scores import LabelledCorpus, read_corpus
from foretrain.papers.feature_extraction.tolerances import KERNEL_RATIO


def _shallow() -> xr.Dataset:
    """Both shares for one ReLU layer without LayerNorm, in closed form, with which all others are compared."""
    kernel = mlp_kernel("relu")
    none, one, both = cnn_window_kernel("relu", 2)
    return trajectory(
        {"bias": theory.bias_ratio(kernel.own, kernel.shared), "bigram": float((both - 2 * one + none) / both)}
    )


def _by_depth(layers: tuple[int, ...], width: int, seeds: int) -> xr.Dataset:
    return EXPERIMENTS[0].run(layers=layers, width=width, seeds=seeds)


normalization_depth = Claim(
    id="feature_extraction/normalization_depth",
    source="a question the paper leaves open",
    whose="our own expectation",
    says=(
        "Depth and LayerNorm change neither the bias β/ρ nor the share of bigrams in the kernel: at initialisation, 1 "
        "to 4 layers with and without LayerNorm are as one layer without, in closed form."
    ),
    finding=(
        "Depth adds to both: from one layer to four (width 512) the bias β/ρ rises from .12 to .30 and the share of "
        "bigrams from .26 to .50. LayerNorm changes neither by more than .01."
    ),
    predict=_shallow,
    observe=_by_depth,
    compare=every(
        close_relative("bias", KERNEL_RATIO, by="for one layer", seen="here"),
        close_relative("bigram", KERNEL_RATIO, by="for one layer", seen="here"),
    ),
    settings={
        "fast": {"layers": (1, 2, 4), "width": 128, "seeds": 2},
        "full": {"layers": (1, 2, 3, 4), "width": 512, "seeds": 5},
    },
    control=Control("one layer only", {"layers": (1,)}),
    expect="fails",
)


@cache
def _texts(corpus: str, texts: int, keep_negatives: float) -> LabelledCorpus:
    """Imbalanced texts, so that a shift of all scores shows."""
    read = read_corpus(corpus, texts=texts)
    draw = stream("feature_extraction/depth", corpus).random(len(read.labels))
    return read.keep(np.flatnonzero((read.labels == 1) | (draw < keep_negatives)))


def _biases(
    corpus: str, texts: int, layers: tuple[int, ...], width: int, steps: int, seeds: int, activation: str = "relu"
) -> xr.Dataset:
    """β/ρ as training shows it, over (LayerNorm, layers, seed)."""
    read = _texts(corpus, texts, 0.3)

    def bias(normed: str, layers: int, seed: int) -> float:
        net = DeepWindow(read.vocab, width, layers, 1, normed == "with LayerNorm", activation)
        return bias_after_training(net, read, steps=steps, rate=0.05, seed=seed)

    axes = {"normed": ("without LayerNorm", "with LayerNorm"), "layers": layers, "seed": seed_list(seeds)}
    biases = over(bias, axes, {}).value
    # β/ρ has no mean where some seed has hardly begun to learn; the share is between 0 and 1
    return xr.Dataset({"bias": biases, "share": biases / (1 + biases), "smallest": biases.min("seed")})


SOME_BIAS = Tolerance(0.05, "β/ρ, less than half of the least that one layer of ReLU has (.13); ours")

normalization_depth_trained = Claim(
    id="feature_extraction/normalization_depth_trained",
    source="a question the paper leaves open",
    whose="our own expectation",
    says=(
        "In training too, each further layer of ReLU adds to the bias, with and without LayerNorm: tokens never seen "
        "are shifted more, relative to what training adds to the scores of the others."
    ),
    finding=(
        "After 20 steps of full-batch descent on SST-2 (width 128, ten seeds) the median β/ρ is .14, .21 and .44 for "
        "1, 2 and 4 layers without LayerNorm, and .13, .20 and .32 with it. In two seeds four layers without LayerNorm "
        "have hardly begun to learn (2.8 and 8.5). LayerNorm makes deep networks learn faster, but does not remove the "
        "bias; tanh does."
    ),
    observe=_biases,
    compare=every(ranked("share", "layers", rising=True), bounded("smallest", low=SOME_BIAS)),
    settings={
        "fast": {"corpus": "made_up", "texts": 600, "layers": (1, 2, 4), "width": 96, "steps": 12, "seeds": 8},
        "full": {"corpus": "sst2", "texts": 2000, "layers": (1, 2, 4), "width": 128, "steps": 20, "seeds": 10},
    },
    control=Control("tanh in place of ReLU", {"activation": "tanh"}),
)

CLAIMS = [normalization_depth, normalization_depth_trained]
