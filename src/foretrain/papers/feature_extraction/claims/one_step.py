"""The first gradient step: co-occurrence times ρ, and a shift of all tokens by β."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
import xarray as xr
from scipy.special import expit

from foretrain.core.streams import seed_list, stream
from foretrain.core.trajectory import trajectory
from foretrain.kernels.tangent import Scales, mlp_kernel
from foretrain.ledger.claim import Assumption, Claim, Control
from foretrain.ledger.comparators import close, close_relative, every
from foretrain.ledger.tolerances import PRINTED_DIGITS
from foretrain.models.text_networks import NETWORKS, finite_kernels, network
from foretrain.papers.feature_extraction import theory
from foretrain.papers.feature_extraction.experiments.depth import kernel_bias
from foretrain.papers.feature_extraction.experiments.label_scores import LabelledCorpus, read_corpus, token_scores
from foretrain.papers.feature_extraction.simulations.first_step import first_step
from foretrain.papers.feature_extraction.tolerances import (
    FIRST_STEP,
    IMBALANCE,
    KERNEL_RATIO,
    KERNEL_RATIO_AT_MOST,
    NO_BIAS,
    SMALL_BIAS,
)

MLPS = ("MLP ReLU", "MLP GeLU", "MLP SiLU", "MLP tanh")
SHIFTED = MLPS[:3]  # the mean of φ is not 0
LEAST = 5  # occurrences of a token that counts


@cache
def _corpus(name: str, texts: int | None, keep_negatives: float) -> LabelledCorpus:
    """Training texts without most of the negative ones, so that Σω is far from 0."""
    corpus = read_corpus(name, texts=texts)
    kept = (corpus.labels == 1) | (
        stream("feature_extraction/one_step", name).random(len(corpus.labels)) < keep_negatives
    )
    return corpus.keep(np.flatnonzero(kept))


def _steps_on_paper(corpus: str, texts: int | None, keep_negatives: float) -> xr.Dataset:
    read = _corpus(corpus, texts, keep_negatives)
    kernels = [mlp_kernel(NETWORKS[name].activation) for name in MLPS]
    omega, often = read.cooccurrence(), _often(read)
    changes = [theory.one_step_scores(omega, own=k.own, shared=k.shared)[often] for k in kernels]
    return _as_lines(np.array([[np.polyfit(omega[often], change, 1)] for change in changes])).drop_vars("lines")


def _often(corpus: LabelledCorpus) -> np.ndarray:
    """The tokens that occur often enough."""
    return np.flatnonzero(corpus.occurrences >= LEAST)


def _as_lines(lines: np.ndarray) -> xr.Dataset:
    """Means over seeds of [network, seed, coefficient]. The intercept of tanh, which is 0, is in units of ReLU's."""
    slope, intercept = lines.mean(axis=1).T
    return trajectory(
        {
            "slope": ("network", slope),
            "intercept": ("shifted", intercept[: len(SHIFTED)]),
            "tanh_intercept": intercept[MLPS.index("MLP tanh")] / abs(intercept[MLPS.index("MLP ReLU")]),
            "lines": (("network", "seed", "coefficient"), lines),
        },
        {"network": list(MLPS), "shifted": list(SHIFTED), "coefficient": ["slope", "intercept"]},
    )


def _steps(
    corpus: str, texts: int | None, keep_negatives: float, width: int, seeds: int, recentred: bool = True
) -> xr.Dataset:
    """Regression of one-step changes on ω over tokens that occur often enough, mean over seeds.

    `recentred` subtracts the initial outputs, so that outputs start at 0. Without it the initial outputs of a wide ReLU
    network are tens of logits, and every text pulls as hard as it is wrong.
    """
    read = _corpus(corpus, texts, keep_negatives)
    counts, signs = read.train.counts, 2.0 * read.labels - 1
    omega, often = read.cooccurrence(), _often(read)
    lines = np.zeros((len(MLPS), seeds, 2))
    for i, name in enumerate(MLPS):
        net = network(name, read.vocab, width, scales=Scales())
        for j in range(seeds):
            parameters = net.start_one(("feature_extraction/one_step", name, j + 1))
            outputs = 0.0 if recentred else counts @ token_scores(net, parameters)[:, 0]
            force = (signs * expit(-signs * outputs)) @ counts
            lines[i, j] = np.polyfit(omega[often], first_step(net, parameters, force[:, None], often)[:, 0], 1)
    return _as_lines(lines)


def _imbalanced(corpus: str, texts: int | None, keep_negatives: float) -> tuple[bool, str]:
    omega = _corpus(corpus, texts, keep_negatives).cooccurrence()
    share = float(abs(omega.sum()) / np.abs(omega).sum())
    return share > IMBALANCE.value, f"|Σω|/Σ|ω| = {share:.2f}"


one_step = Claim(
    id="feature_extraction/one_step",
    source="derived; the paper states that label scores follow co-occurrence, with a shift for ReLU",
    whose="the paper's statement",
    says=(
        "The first gradient step moves the score of token e by ρω(e)/2 + βΣω/2. (Regressed on ω, slope and intercept "
        "are within 10 % for ReLU, GeLU and SiLU, and tanh has no intercept.)"
    ),
    predict=_steps_on_paper,
    observe=_steps,
    compare=every(
        close_relative("slope", FIRST_STEP, by="by formula", seen="in the step"),
        close_relative("intercept", FIRST_STEP, by="by formula", seen="in the step"),
        close("tanh_intercept", FIRST_STEP, relative=False),
    ),
    settings={
        "fast": {"corpus": "made_up", "texts": 1500, "keep_negatives": 0.3, "width": 512, "seeds": 3},
        "full": {"corpus": "sst2", "texts": None, "keep_negatives": 0.3, "width": 1024, "seeds": 3},
    },
    control=Control("outputs do not start at 0: texts pull as hard as they are wrong", {"recentred": False}),
    assumes=(Assumption("the sum of ω is far from 0, so that an intercept can be seen", _imbalanced),),
)


# (network, σ_e = σ_w, σ_v): equal scales, and a readout that goes to 0
RATIOS = (
    ("MLP ReLU", 1.0, 1.0),
    ("MLP ReLU", 0.1, 0.1),
    ("MLP ReLU", 1.0, 0.3),
    ("MLP ReLU", 1.0, 0.01),
    ("MLP GeLU", 1.0, 1.0),
    ("MLP SiLU", 1.0, 1.0),
)
POINTS = [f"{name}, σ={inner:g}, readout {readout:g}" for name, inner, readout in RATIOS]
EQUAL, NO_READOUT = 0, 3  # the points for which the paper prints a number
PRINTED = [0.1187, 1 / (np.pi - 1)]
TANH = ("MLP tanh", 1.0, 1.0)
SMALL_GELU = ("MLP GeLU", 0.1, 0.1)  # its bias is far below the noise of a kernel's entries


def _ratio(name: str, inner: float, readout: float) -> float:
    kernel = mlp_kernel(NETWORKS[name].activation, Scales(inner, inner, readout))
    return theory.bias_ratio(kernel.own, kernel.shared)


def _ratios_on_paper(swapped: bool = False) -> xr.Dataset:
    """The closed forms and the printed numbers; `swapped` exchanges the forms of GeLU and SiLU."""
    other = {"MLP GeLU": "MLP SiLU", "MLP SiLU": "MLP GeLU"} if swapped else {}
    return trajectory(
        {
            "ratio": ("point", [_ratio(other.get(name, name), inner, readout) for name, inner, readout in RATIOS]),
            "tanh_ratio": _ratio(*TANH),
            "small_gelu": _ratio(*SMALL_GELU),
            "printed": ("number", PRINTED),
            "closed_form": ("number", PRINTED),
            "printed_small": 2e-5,
        },
        {"point": POINTS},
    )


def _ratios(width: int, tokens: int, seeds: int, units: int) -> xr.Dataset:
    """β/ρ from the mean empirical kernel of single tokens over seeds, also at the points of the printed numbers.

    Only `closed_form` is not measured: it has to agree with the printed digits.
    """

    def mean_kernel(point: tuple[str, float, float]) -> np.ndarray:
        name, inner, readout = point
        net = network(name, tokens, width, scales=Scales(inner, inner, readout))
        starts = net.start([("bias_variance", name, seed) for seed in seed_list(seeds)])
        return finite_kernels(net, starts, torch.arange(tokens)[:, None]).mean(axis=0)

    ratios = [kernel_bias(mean_kernel(point)) for point in RATIOS]
    small = _mean_activation(SMALL_GELU, width, units) ** 2
    small_ratio = small / (np.trace(mean_kernel(SMALL_GELU)) / tokens - small)
    return trajectory(
        {
            "ratio": ("point", ratios),
            "tanh_ratio": kernel_bias(mean_kernel(TANH)),
            "small_gelu": small_ratio,
            "printed": ("number", [ratios[EQUAL], ratios[NO_READOUT]]),
            "closed_form": ("number", [_ratio("MLP ReLU", 1.0, 1.0), _ratio("MLP ReLU", 1.0, 1e-4)]),
            "printed_small": small_ratio,
        },
        {"point": POINTS},
    )


def _mean_activation(point: tuple[str, float, float], width: int, units: int) -> float:
    """The mean of φ over `units` tokens of a finite network; its square gives β far more exactly than a kernel does."""
    name, inner, readout = point
    net = network(name, units, width, scales=Scales(inner, inner, readout))
    start = net.start_one(("bias_variance", name, "units"))
    return float(net.phi(start["embedding"] @ start["weight"].mT / width**0.5).double().mean())


MEASURED = {"by": "by formula", "seen": "in networks"}

bias_variance = Claim(
    id="feature_extraction/bias_variance",
    source="derived; the paper states that the bias depends on the initial variances",
    whose="the paper's statement",
    says=(
        "How large the bias is depends on the initial variances: β/ρ is .1187 for ReLU if all are equal, at most "
        "1/(π − 1) as that of the readout goes to 0, and 2e-5 for GeLU at σ = .1. (In closed form, and in finite "
        "networks.)"
    ),
    predict=_ratios_on_paper,
    observe=_ratios,
    compare=every(
        close_relative("ratio", KERNEL_RATIO, **MEASURED),
        close("ratio", KERNEL_RATIO_AT_MOST, relative=False, **MEASURED),
        close("tanh_ratio", NO_BIAS, relative=False, by="by formula", seen="in networks"),
        close_relative("small_gelu", SMALL_BIAS, by="by formula", seen="in networks"),
        close_relative("printed", KERNEL_RATIO, by="as quoted", seen="in networks"),
        close("printed", KERNEL_RATIO_AT_MOST, relative=False, by="as quoted", seen="in networks"),
        close("closed_form", PRINTED_DIGITS, relative=False, by="as quoted", seen="by formula"),
        close_relative("printed_small", SMALL_BIAS, by="as quoted", seen="in networks"),
    ),
    settings={
        "fast": {"width": 128, "tokens": 32, "seeds": 24, "units": 16_000},
        "full": {"width": 1024, "tokens": 32, "seeds": 8, "units": 8000},
    },
    control=Control("the closed forms of GeLU and SiLU are swapped", {"swapped": True}),
)

CLAIMS = [one_step, bias_variance]
