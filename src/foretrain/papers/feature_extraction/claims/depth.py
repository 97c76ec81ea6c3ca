"""A question the paper leaves open: what LayerNorm and depth do to the bias and to the n-gram kernel."""

from __future__ import annotations

import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.kernels.tangent import cnn_window_kernel, mlp_kernel
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import close_relative, every
from foretrain.papers.feature_extraction import theory
from foretrain.papers.feature_extraction.experiments.depth import depth_shares
from foretrain.papers.feature_extraction.tolerances import KERNEL_RATIO


def _shallow() -> xr.Dataset:
    """Both shares for one ReLU layer without LayerNorm, in closed form, with which all others are compared."""
    kernel = mlp_kernel("relu")
    none, one, both = cnn_window_kernel("relu", 2)
    return trajectory(
        {"bias": theory.bias_ratio(kernel.own, kernel.shared), "bigram": float((both - 2 * one + none) / both)}
    )


normalization_depth = Claim(
    id="feature_extraction/normalization_depth",
    source="a question the paper leaves open",
    says=(
        "What LayerNorm and depth do to the bias β/ρ and to the share of bigrams in the kernel: 1 to 4 layers, with "
        "and without LayerNorm, against the closed form of one layer without. A measurement: fails means that they "
        "change them; one layer without LayerNorm, the control, is as the closed form says."
    ),
    predict=_shallow,
    observe=depth_shares,
    compare=every(close_relative("bias", KERNEL_RATIO), close_relative("bigram", KERNEL_RATIO)),
    settings={
        "fast": {"layers": (1, 2, 4), "width": 128, "seeds": 2},
        "full": {"layers": (1, 2, 3, 4), "width": 512, "seeds": 5},
    },
    control=Control("one layer without LayerNorm: nothing is changed", {"layers": (1,), "normed": (False,)}),
    expect=None,
)

CLAIMS = [normalization_depth]
