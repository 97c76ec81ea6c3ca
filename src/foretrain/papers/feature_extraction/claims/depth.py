"""A question the paper leaves open: what LayerNorm and depth do to the bias and to the n-gram kernel."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
import xarray as xr

from foretrain.claim import Claim, Control
from foretrain.comparators import close, every
from foretrain.kernels.tangent import cnn_window_kernel, mlp_kernel
from foretrain.papers.feature_extraction import theory
from foretrain.papers.feature_extraction.depth import DeepWindow, bias_share, bigram_share
from foretrain.streams import torch_stream
from foretrain.tolerances import KERNEL_RATIO
from foretrain.trajectory import trajectory


def _shallow() -> xr.Dataset:
    """Both shares of one ReLU layer without LayerNorm, in closed form: what deeper and normed ones are held against."""
    kernel = mlp_kernel("relu")
    none, one, both = cnn_window_kernel("relu", 2)
    return trajectory(
        {"bias": theory.bias_share(kernel.own, kernel.shared), "bigram": float((both - 2 * one + none) / both)}
    )


@cache
def depth_shares(
    layers: tuple[int, ...], width: int, seeds: int, tokens: int = 4, activation: str = "relu"
) -> xr.Dataset:
    """β/ρ and the share of bigrams in empirical kernels, over (normed, layers), means over seeds."""
    single = torch.arange(tokens)[:, None]
    pairs = torch.cartesian_prod(torch.arange(tokens), torch.arange(tokens))
    bias, bigram = np.zeros((2, len(layers), seeds)), np.zeros((2, len(layers), seeds))
    for i, normed in enumerate((False, True)):
        for j, depth in enumerate(layers):
            for seed in range(seeds):
                for window, rows in ((1, single), (2, pairs)):
                    net = DeepWindow(tokens, width, depth, window, normed, activation)
                    start = net.start(torch_stream("feature_extraction/depth", depth, window, seed))
                    kernel = net.kernel(start, rows)
                    if window == 1:
                        bias[i, j, seed] = bias_share(kernel)
                    else:
                        bigram[i, j, seed] = bigram_share(kernel.reshape([tokens] * 4))
    return trajectory(
        {"bias": (("normed", "layers"), bias.mean(axis=2)), "bigram": (("normed", "layers"), bigram.mean(axis=2))},
        {"normed": [0, 1], "layers": layers},
        width=width, seeds=seeds, activation=activation,
    )  # fmt: skip


normalization_depth = Claim(
    id="feature_extraction/normalization_depth",
    source="a question the paper leaves open",
    says=(
        "What LayerNorm and depth do to the bias β/ρ and to the share of bigrams in the kernel: 1 to 4 layers, with "
        "and without LayerNorm, against one layer without. A measurement."
    ),
    predict=_shallow,
    observe=depth_shares,
    compare=every(close("bias", KERNEL_RATIO, relative=False), close("bigram", KERNEL_RATIO, relative=False)),
    settings={
        "fast": {"layers": (1, 2, 4), "width": 128, "seeds": 2},
        "full": {"layers": (1, 2, 3, 4), "width": 512, "seeds": 5},
    },
    control=Control("tanh in place of ReLU", {"activation": "tanh"}),
    expect=None,
)

CLAIMS = [normalization_depth]
