"""The lazy regime: the scores of every architecture from its kernel, and how the kernel stops moving as width grows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import xarray as xr

from foretrain.core.streams import seed_list
from foretrain.core.trajectory import trajectory
from foretrain.kernels.tangent import Scales
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import bounded, close, every, explains, ranked
from foretrain.ledger.tolerances import Tolerance
from foretrain.models.text_networks import NETWORKS, network
from foretrain.papers.feature_extraction.experiments.lazy import SmallCorpus, descended_scores, predicted_scores
from foretrain.papers.feature_extraction.experiments.movement import EXPERIMENTS, READOUTS
from foretrain.papers.feature_extraction.tolerances import LAZY, MOVEMENT_POWER

MATRIX_PER_TOKEN = ("MV full", "L-RNN token")
UNIT = Scales()


@cache
def _from_kernels(texts: int, vocab: int, rate: float, steps: int) -> xr.Dataset:
    corpus = SmallCorpus.made_up(texts, vocab)
    scores = [predicted_scores(name, corpus, rate=rate, steps=steps, scales=UNIT) for name in NETWORKS]
    return trajectory(
        {"score": (("network", "asked"), np.array(scores))}, {"network": list(NETWORKS), "asked": np.arange(vocab)}
    )


def _learned(
    name: str, texts: int, vocab: int, rate: float, steps: int, width: int, seeds: int, shuffled: bool
) -> np.ndarray:
    """The scores of a network after training, [seed, asked]."""
    corpus = SmallCorpus.made_up(texts, vocab)
    net = network(name, vocab, width, scales=UNIT)
    starts = net.start([("feature_extraction/synthetic", name, width, s) for s in seed_list(seeds)])
    train = corpus.shuffled() if shuffled else corpus
    return descended_scores(net, starts, train, corpus.asked(name), rate=rate, steps=steps)


def _from_networks(
    texts: int, vocab: int, rate: float, steps: int, width: int, matrix_width: int, seeds: int, shuffled: bool = False
) -> xr.Dataset:
    """Mean scores over seeds; `matrix_width` is the width of networks with a matrix per token, which are large."""
    scores = [
        _learned(
            name, texts, vocab, rate, steps, matrix_width if name in MATRIX_PER_TOKEN else width, seeds, shuffled
        ).mean(axis=0)
        for name in NETWORKS
    ]
    return trajectory(
        {"score": (("network", "asked"), np.array(scores))}, {"network": list(NETWORKS), "asked": np.arange(vocab)}
    )


synthetic = Claim(
    id="feature_extraction/synthetic",
    source="derived; the paper states that every architecture extracts token-label co-occurrence, and ReLU shifts it",
    whose="the paper's statement",
    says=(
        "On corpora of chosen co-occurrence and class balance, descent under the limit kernel predicts the scores that "
        "all twelve networks learn in the lazy regime, ReLU's shift included: it explains 95 % of their variance."
    ),
    predict=_from_kernels,
    observe=_from_networks,
    compare=explains("score", LAZY),
    settings={
        "fast": {"texts": 40, "vocab": 10, "rate": 0.05, "steps": 8, "width": 256, "matrix_width": 128, "seeds": 4},
        "full": {"texts": 120, "vocab": 16, "rate": 0.05, "steps": 10, "width": 1024, "matrix_width": 256, "seeds": 5},
    },
    control=Control("labels are independent of tokens: shuffled among the training texts", {"shuffled": True}),
)


def _correlations(
    texts: int, vocab: int, rate: float, steps: int, widths: tuple[int, ...], seeds: int, shuffled: bool = False
) -> xr.Dataset:
    """The correlation of learned and predicted scores, and its mean over networks and seeds."""
    names = ("MLP ReLU", "MLP tanh", "SA")
    predicted = _from_kernels(texts, vocab, rate, steps)["score"].sel(network=list(names)).values
    correlations = []
    for width in widths:
        scores = [_learned(name, texts, vocab, rate, steps, width, seeds, shuffled) for name in names]
        correlations.append(
            [[np.corrcoef(p, run)[0, 1] for run in runs] for p, runs in zip(predicted, scores, strict=True)]
        )
    values = np.array(correlations)
    return trajectory(
        {
            "correlation": (("width", "network", "seed"), values),
            "mean": ("width", values.mean(axis=(1, 2))),
            "widest": values[-1].mean(),
        },
        {"width": list(widths), "network": list(names)},
    )


CORRELATION = Tolerance(np.sqrt(1 - LAZY.value), f"an R² that leaves at most this share: {LAZY.reason}")

finite_width = Claim(
    id="feature_extraction/finite_width",
    source="derived; the paper measures widths 32, 64, 128 and 256",
    whose="the paper's statement",
    says=(
        "The wider a network, the nearer its scores are to those of the infinite one: from width 32 to 256 their "
        "correlation rises, to an R² of at least .95."
    ),
    observe=_correlations,
    compare=every(ranked("mean", "width", rising=True), bounded("widest", low=CORRELATION)),
    settings={
        "fast": {"texts": 40, "vocab": 10, "rate": 0.05, "steps": 8, "widths": (32, 64, 128, 256), "seeds": 10},
        "full": {"texts": 120, "vocab": 16, "rate": 0.05, "steps": 10, "widths": (32, 64, 128, 256), "seeds": 40},
    },
    control=Control("labels are shuffled among the training texts", {"shuffled": True}),
)


# The kernel moves by (1/d)Σ_j of terms that are odd in v_j/√d. Their signs cancel, which leaves 1/d for a smooth
# activation. With ReLU, the inputs of √d units also change sign, and each moves the kernel up or down by the sign of
# v_j, which leaves d^(1/4)/d. If all v_j have the same sign nothing cancels, and both move by 1/√d, the usual bound.
MOVED = ("MLP ReLU", "MLP GeLU")
POWERS = dict(zip(READOUTS, ((-0.75, -1.0), (-0.5, -0.5)), strict=True))


def _powers(table: Mapping[str, tuple[float, ...]]) -> xr.Dataset:
    return trajectory(
        {"power": (("readout", "network"), list(table.values())), "small": 1.0},
        {"readout": list(table), "network": list(MOVED)},
    )


def _powers_of_the_bound() -> xr.Dataset:
    """At most width^(−1/2) for every readout: the usual bound."""
    return _powers(dict.fromkeys(POWERS, (-0.5, -0.5)))


def _powers_on_paper(cancels: bool = True) -> xr.Dataset:
    """The powers derived above; without `cancels` those of a readout of one sign, for the control."""
    return _powers(POWERS if cancels else dict.fromkeys(POWERS, POWERS[READOUTS[1]]))


@cache
def _movement(
    widths: tuple[int, ...], seeds: int, loss_left: float, sigma: float = 1.0, mean_field: bool = False
) -> xr.Dataset:
    """The relative movement of the kernel until the loss is `loss_left` of what it was, and its power of width."""
    setting = {"seeds": seeds, "loss_left": loss_left, "sigma": sigma, "mean_field": mean_field}
    moved = EXPERIMENTS[0].run(network=MOVED, width=widths, **setting)
    means = moved["movement"].mean("seed").transpose("width", "readout", "network").values
    power = np.polyfit(np.log(widths), np.log(means).reshape(len(widths), -1), 1)[0]
    return moved.assign(power=(("readout", "network"), power.reshape(means.shape[1:])))


MOVES = {
    "fast": {"widths": (32, 256), "seeds": 32, "loss_left": 0.8},
    "full": {"widths": (32, 64, 128, 256, 512), "seeds": 20, "loss_left": 0.6},
}

ntk_stability = Claim(
    id="feature_extraction/ntk_stability",
    source="derived; the paper states that the kernel stays constant in training as the width grows",
    whose="the paper's statement",
    says=(
        "The tangent kernel stays constant in training as the width grows: until the loss has fallen by a fixed share "
        "it moves by a part that vanishes at least as fast as width^(−1/2). (Gradient descent from weights of variance "
        "1.)"
    ),
    predict=_powers_of_the_bound,
    observe=_movement,
    compare=every(bounded("power", high="power", slack=MOVEMENT_POWER), bounded("movement", high="small")),
    settings=MOVES,
    control=Control(
        "outputs scaled by 1/width instead of 1/√width, as in mean-field networks, which learn features at every width",
        {"mean_field": True},
    ),
)

ntk_stability_rate = Claim(
    id="feature_extraction/ntk_stability_rate",
    source="derived",
    whose="our own expectation",
    says=(
        "How fast it vanishes depends on the signs of the readout weights: with both signs as width^(−3/4) for ReLU "
        "and as width^(−1) for GeLU, with one sign as width^(−1/2) for both."
    ),
    finding=(
        "The usual bound width^(−1/2) is not the rate. The terms that move the kernel are odd in the readout weights "
        "and cancel; with ReLU, √width units also change sign, and cancel up to their square root. Measured over "
        "widths 32 to 512: −.72 ± .06 for ReLU and −1.00 ± .05 for GeLU; with weights of one sign −.55 and −.54, ± .01."
    ),
    predict=_powers_on_paper,
    observe=_movement,
    compare=close("power", MOVEMENT_POWER, relative=False, by="derived", seen="measured"),
    settings=MOVES,
    control=Control("nothing cancels, whatever the signs of the readout weights", {"cancels": False}),
)

CLAIMS = [synthetic, finite_width, ntk_stability, ntk_stability_rate]
