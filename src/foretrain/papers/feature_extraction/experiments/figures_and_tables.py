"""One function per figure or table; each returns a trajectory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from foretrain.core.streams import seed_list, torch_stream
from foretrain.core.trajectory import trajectory
from foretrain.kernels.tangent import Scales, mlp_kernel
from foretrain.ledger.experiment import Experiment
from foretrain.papers.feature_extraction.experiments.depth import depth_shares
from foretrain.papers.feature_extraction.experiments.label_scores import read_corpus, trained_scores
from foretrain.papers.feature_extraction.experiments.lazy import SmallCorpus, descended_scores, predicted_scores
from foretrain.papers.feature_extraction.experiments.movement import movement_by_width
from foretrain.papers.feature_extraction.experiments.networks import network


def label_scores(
    networks: Sequence[str] = ("MLP ReLU", "MLP GeLU", "SA", "CNN ReLU"),
    corpus: str = "made_up",
    texts: int = 3000,
    epochs: int = 6,
    seeds: int = 1,
) -> xr.Dataset:
    """Label scores of tokens beside their co-occurrence, after every epoch of training; `corpus` may be "sst2"."""
    trained = trained_scores(read_corpus(corpus, texts=texts), tuple(networks), epochs=epochs, seeds=seed_list(seeds))
    return trained.isel(token=np.flatnonzero(trained["occurrences"].values >= 5))


def lazy_scores(
    networks: Sequence[str] = ("MLP ReLU", "MLP tanh", "SA", "CNN ReLU"),
    width: int = 512,
    texts: int = 40,
    vocab: int = 10,
    seeds: int = 4,
) -> xr.Dataset:
    """Scores learned in the lazy regime beside those of the limit kernel, mean over seeds."""
    corpus = SmallCorpus.made_up(texts, vocab, 4, 0.7)
    rate, steps = 0.05, 8
    learned, predicted = [], []
    for name in networks:
        net = network(name, vocab, width, scales=Scales())
        starts = net.start_runs(torch_stream("lazy_scores", name, s) for s in seed_list(seeds))
        runs = descended_scores(net, starts, corpus, corpus.asked(name), rate=rate, steps=steps)
        learned.append(np.mean(runs, axis=0))
        predicted.append(predicted_scores(name, corpus, rate=rate, steps=steps, scales=Scales()))
    axes = ("network", "asked")
    return trajectory(
        {"learned": (axes, np.array(learned)), "predicted": (axes, np.array(predicted))},
        {"network": list(networks)},
        units={"learned": "logits", "predicted": "logits"},
        width=width,
    )


def bias_share(
    sigmas: Sequence[float] = (0.01, 0.03, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.4, 2.0, 3.0),
    activations: Sequence[str] = ("relu", "gelu", "silu", "tanh"),
) -> xr.Dataset:
    """β/ρ in closed form: against the size of all initial weights, and against the readout's alone."""
    ratios = np.zeros((2, len(activations), len(sigmas)))
    for i, activation in enumerate(activations):
        for j, sigma in enumerate(sigmas):
            for k, scales in enumerate((Scales(sigma, sigma, sigma), Scales(1.0, 1.0, sigma))):
                kernel = mlp_kernel(activation, scales)
                ratios[k, i, j] = kernel.shared / kernel.own
    return trajectory(
        {"share": (("varied", "activation", "sigma"), ratios)},
        {"varied": ["all weights", "readout only"], "activation": list(activations), "sigma": list(sigmas)},
    )


def depth(layers: Sequence[int] = (1, 2, 3, 4), width: int = 256, seeds: int = 4) -> xr.Dataset:
    """What LayerNorm and depth do to the bias and to the share of bigrams in the kernel."""
    return depth_shares(tuple(layers), width, seeds)


def movement(
    networks: Sequence[str] = ("MLP ReLU", "MLP GeLU", "MLP tanh"),
    widths: Sequence[int] = (32, 64, 128, 256, 512),
    seeds: int = 8,
    loss_left: float = 0.6,
) -> xr.Dataset:
    """How far the tangent kernel moves against width, for readout weights of both signs and of one."""
    return movement_by_width(tuple(networks), tuple(widths), seeds, loss_left, "sgd", 1.0)


EXPERIMENTS: list[Experiment] = [
    Experiment(
        "feature_extraction/label_scores",
        "label scores against co-occurrence, epoch by epoch",
        label_scores,
        cut={"networks": "network"},
        settings={"fast": {"networks": ("MLP ReLU", "MLP GeLU"), "texts": 500, "epochs": 2}, "full": {}},
    ),
    Experiment(
        "feature_extraction/lazy_scores",
        "scores learned in the lazy regime against the limit kernel",
        lazy_scores,
        cut={"networks": "network"},
        settings={"fast": {"networks": ("MLP ReLU", "SA"), "width": 128, "seeds": 2}, "full": {}},
    ),
    Experiment(
        "feature_extraction/bias_share",
        "β/ρ against the size of the initial weights",
        bias_share,
        cut={"sigmas": "sigma"},
        settings={"fast": {"sigmas": (0.1, 1.0)}, "full": {}},
    ),
    Experiment(
        "feature_extraction/movement",
        "movement of the tangent kernel against width",
        movement,
        cut={"widths": "width"},
        settings={
            "fast": {"networks": ("MLP ReLU", "MLP GeLU"), "widths": (32, 64), "seeds": 2, "loss_left": 0.9},
            "full": {},
        },
    ),
    Experiment(
        "feature_extraction/depth",
        "bias and bigram share against depth, with and without LayerNorm",
        depth,
        cut={"layers": "layer"},
        settings={"fast": {"layers": (1, 2), "width": 32, "seeds": 1}, "full": {}},
    ),
]
