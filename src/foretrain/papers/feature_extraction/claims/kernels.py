"""The tangent kernels of the twelve networks, and the label scores they imply."""

from __future__ import annotations

import numpy as np
import torch
import xarray as xr

from foretrain.core.streams import seed_list, stream
from foretrain.core.trajectory import trajectory
from foretrain.data.tokens import TokenTexts
from foretrain.dynamics.flow import integrate
from foretrain.kernels.label_flow import residual
from foretrain.kernels.tangent import Scales
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import close, converges, every, explains
from foretrain.ledger.tolerances import FLOW
from foretrain.models.text_networks import NETWORKS, finite_kernels, limit_kernel, network
from foretrain.papers.feature_extraction import theory
from foretrain.papers.feature_extraction.tolerances import MEAN_KERNEL, WIDE_NETWORK, WIDTH_SLOPE

VOCAB, TEXTS, LENGTH = 4, 5, 3
SCALES = Scales(embedding=0.9, weight=1.1, readout=0.8, matrix=0.7)  # all different, so that a mixed-up scale shows


def _texts() -> np.ndarray:
    return stream("feature_extraction/ntk_limits", "texts").integers(0, VOCAB, (TEXTS, LENGTH))


def _limits(swapped: tuple[str, str] = ("", "")) -> xr.Dataset:
    """The closed forms; `swapped` exchanges two of them."""
    tokens = TokenTexts.of_rows(_texts(), VOCAB)
    other = dict([swapped, swapped[::-1]])
    kernels = (
        ("network", "text", "other"),
        np.array([limit_kernel(other.get(n, n), tokens, SCALES) for n in NETWORKS]),
    )
    return trajectory({"kernel": kernels, "mean_kernel": kernels}, {"network": list(NETWORKS)})


def _finite(widths: tuple[int, ...], seeds: int) -> xr.Dataset:
    """Empirical kernels of finite networks at the start, and their mean at the largest width.

    The mean over seeds is closer to the limit than any single network, and tells similar closed forms apart.
    """
    table, listed = torch.from_numpy(_texts()), seed_list(seeds)

    def runs(name: str, width: int) -> np.ndarray:
        net = network(name, VOCAB, width, scales=SCALES)
        return finite_kernels(net, net.start([("ntk_limits", name, width, s) for s in listed]), table)

    kernels = np.array([[runs(name, width) for width in widths] for name in NETWORKS])
    return trajectory(
        {
            "kernel": (("network", "width", "seed", "text", "other"), kernels),
            "mean_kernel": (("network", "text", "other"), kernels[:, -1].mean(axis=1)),
        },
        {"network": list(NETWORKS), "width": widths, "seed": listed},
    )


ntk_limits = Claim(
    id="feature_extraction/ntk_limits",
    source="derived; the paper states the infinite-width kernels of MLP, CNN, self-attention and matrix-vector models",
    whose="the paper's statement",
    says=(
        "Twelve text networks have tangent kernels in closed form. (Finite networks approach them as width^(−1/2), and "
        "the mean of many finite networks comes closer still.)"
    ),
    predict=_limits,
    observe=_finite,
    compare=every(converges("kernel", "width", WIDTH_SLOPE, WIDE_NETWORK), explains("mean_kernel", MEAN_KERNEL)),
    settings={
        "fast": {"widths": (16, 32, 64, 128), "seeds": 80},
        "full": {"widths": (64, 128, 256, 512, 1024), "seeds": 20},
        "paper": {"widths": (64, 128, 256, 512, 1024, 2048), "seeds": 20},
    },
    control=Control("the two closed forms that are most alike are swapped", {"swapped": ("MLP SiLU", "MLP tanh")}),
)


def _closed_scores(own: float, occurrences: int, until: float) -> xr.Dataset:
    """One token under logistic loss; three texts under squared loss."""
    t = np.linspace(0, until, 41)
    kernel, labels = _small_kernel()
    outputs = np.array([theory.squared_loss_outputs(kernel, kernel, labels, time) for time in t])
    return trajectory(
        {
            "score": ("time", theory.single_token_score(t, own=own, occurrences=occurrences)),
            "output": (("time", "text"), outputs),
        },
        {"time": t},
    )


def _integrated_scores(own: float, occurrences: int, until: float, exchanged: bool = False) -> xr.Dataset:
    """The same flows, integrated; `exchanged` gives each of them the loss of the other, for the control."""
    kernel, labels = _small_kernel()
    counts, ones = np.ones((occurrences, 1)), np.ones(occurrences)
    losses = ("squared", "") if exchanged else ("", "squared")

    def field(t: float, state: dict[str, np.ndarray]) -> dict[str, np.ndarray | np.float64]:
        pull = residual(ones, counts @ state["score"][None], losses[0])
        return {"score": own * (pull @ counts)[0], "output": kernel @ residual(labels, state["output"], losses[1])}

    start = {"score": 0.0, "output": xr.DataArray(np.zeros(3), dims="text")}
    return integrate(field, start, until=until, save_at=np.linspace(0, until, 41), method="DOP853", rtol=1e-11)


def _small_kernel() -> tuple[np.ndarray, np.ndarray]:
    features = stream("feature_extraction/score_flow", "features").standard_normal((3, 2))
    return features @ features.T, np.array([1.0, -1.0, 1.0])  # rank 2: a direction that must not move


score_flow = Claim(
    id="feature_extraction/score_flow",
    source="derived; the paper states that label scores follow the kernel's gradient flow",
    whose="our own expectation",
    says=(
        "Label scores have closed forms: s(t) = c − W(e^c) with c = 1 + ρn₊t for one token under logistic loss, and "
        "u(t) = KΘ⁺(I − e^{−Θt})y under squared loss."
    ),
    predict=_closed_scores,
    observe=_integrated_scores,
    compare=every(
        close("score", FLOW, by="by formula", seen="by integration"),
        close("output", FLOW, by="by formula", seen="by integration"),
    ),
    settings={"fast": {"own": 1.34, "occurrences": 12, "until": 20.0}},
    control=Control("each of the two flows runs under the loss of the other", {"exchanged": True}),
)


CLAIMS = [ntk_limits, score_flow]
