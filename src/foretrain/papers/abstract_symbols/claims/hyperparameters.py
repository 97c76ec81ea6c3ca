"""Fig 8 to 16: what the captions say of learning rate, depth, heads, width, batch size and the last layer.

At tier fast the networks are tiny and have a·I, which lets them learn from 128 samples. From tier full on they do not
have it, like the paper's. What cannot be seen at tier fast has an expected verdict only from tier full on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import xarray as xr

from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import bounded, every
from foretrain.ledger.tolerances import Tolerance
from foretrain.papers.abstract_symbols.claims.sides import (
    GAIN,
    SAME,
    along,
    as_good_as,
    better_than,
    drawn_by_side,
    some_gain,
    with_train_loss,
)
from foretrain.papers.abstract_symbols.experiments import hyperparameters as figures
from foretrain.papers.abstract_symbols.simulations.trained import VANILLA, WITH_A

RUNS = {experiment.id: experiment.run for experiment in figures.EXPERIMENTS}
CLOSE_TO_ZERO = Tolerance(0.05, "our reading of a train loss close to zero")
GLANCE = {"setting": "glance", "seeds": 3, "n": 32}  # where nothing is expected at tier fast
TINY = {"setting": "tiny", "architecture": WITH_A, "seeds": 4, "n": 128}
SMALL = {"setting": "small", "architecture": VANILLA, "seeds": 16, "n": 1024}
BASE = {"setting": "base", "architecture": VANILLA, "seeds": 10, "n": 512}
RATES: dict[str, dict[str, Any]] = {
    "fast": {"rates": (1e-2,)},
    "full": {"rates": (3e-3,)},
    "paper": {"rates": figures.RATES},
}


def _without_rates(fast: dict[str, Any], full: dict[str, Any], paper: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {"fast": {**TINY, **fast}, "full": {**SMALL, **full}, "paper": {**BASE, **paper}}


def _settings(fast: dict[str, Any], full: dict[str, Any], paper: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {tier: {**RATES[tier], **one} for tier, one in _without_rates(fast, full, paper).items()}


fig8 = better_than(
    **along(figures.EXPERIMENTS, "abstract_symbols/fig8", "rates"),
    says="Too large (.1, past the end of the figure) or too small a learning rate hurts generalisation.",
    settings=_without_rates(
        {"n": (128,), "better": 1e-2, "worse": (3e-4, 1e-1)},
        {"n": (1024,), "better": 3e-3, "worse": (1e-4, 1e-1)},
        {"n": (512, 1024, 2048), "better": 1e-3, "worse": (1e-5, 1e-1)},
    ),
)

fig8_train_loss = Claim(
    id="abstract_symbols/fig8_train_loss",
    source="Fig 8",
    whose="the paper's statement",
    says=(
        "Too large or too small a learning rate can hurt generalisation even when the train loss is close to zero: at "
        "such rates the mean train loss ends below .05, and the test loss is worse. (At tier full with a·I, which "
        "learns from 128 samples.)"
    ),
    predict=some_gain,
    observe=with_train_loss(RUNS["abstract_symbols/fig8"], "rates"),
    compare=every(GAIN, bounded("train_loss", high=CLOSE_TO_ZERO)),
    figure=drawn_by_side(),
    settings=_without_rates(
        {"n": (128,), "better": 1e-2, "worse": (1e-3,)},
        {"n": (128,), "architecture": WITH_A, "better": 3e-3, "worse": (1e-4, 3e-2)},
        {"n": (1024,), "better": 1e-3, "worse": (3e-5, 1e-2)},
    ),
    control=SAME,
)

fig9 = as_good_as(
    **along(figures.EXPERIMENTS, "abstract_symbols/fig9", "depth"),
    says="With fewer samples there is no clear relationship between depth, from 2 on, and generalisation.",
    settings=_settings({"values": (2, 4), **GLANCE}, {"values": (2, 4), "n": 512}, {"values": (2, 8)}),
    control=Control("one layer against two, which does matter", {"values": (1, 2)}),
    expect_from="full",
)

fig10 = better_than(
    **along(figures.EXPERIMENTS, "abstract_symbols/fig10", "depth"),
    says="With 1024 samples a deeper network does better. (Two layers than one; see fig10_deeper for more.)",
    settings=_settings(
        {"better": 2, "worse": (1,)}, {"better": 2, "worse": (1,)}, {"better": 8, "worse": (1,), "n": 1024}
    ),
)

fig10_deeper = better_than(
    **along(figures.EXPERIMENTS, "abstract_symbols/fig10", "depth", "abstract_symbols/fig10_deeper"),
    says="With 1024 samples four layers do better than two.",
    settings=_settings(
        {"better": 4, "worse": (2,), **GLANCE}, {"better": 4, "worse": (2,)}, {"better": 8, "worse": (2,), "n": 1024}
    ),
    finding=(
        "In small networks (8 seeds) one layer leaves .43, two .31 and four .28 of a guess's loss: the second layer is "
        "seen, but four layers cannot be told from two (gain .03 ± .05)."
    ),
    expect_from="paper",
)

fig11 = better_than(
    **along(figures.EXPERIMENTS, "abstract_symbols/fig11", "heads"),
    says="More heads are better than one.",
    settings=_settings(
        {"better": 2, "worse": (1,), **GLANCE}, {"better": 4, "worse": (1,)}, {"better": 16, "worse": (1,)}
    ),
    expect_from="full",
)

fig12 = better_than(
    **along(figures.EXPERIMENTS, "abstract_symbols/fig12", "heads"),
    says="With more samples too, more heads are better.",
    settings=_settings(
        {"better": 4, "worse": (1,), **GLANCE},
        {"better": 4, "worse": (1,), "n": 2048, "seeds": 5},
        {"better": 32, "worse": (1, 2), "n": 1024},
    ),
    expect_from="full",
)

fig13 = better_than(
    **along(figures.EXPERIMENTS, "abstract_symbols/fig13", "embedding"),
    says="A smaller embedding dimension is generally better at n = 1024.",
    settings=_settings(
        {"better": 8, "worse": (16,), **GLANCE},
        {"better": 32, "worse": (128,)},
        {"better": 64, "worse": (512,), "n": 1024},
    ),
    expect_from="full",
)

fig14 = better_than(
    **along(figures.EXPERIMENTS, "abstract_symbols/fig14", "batch"),
    says="A smaller batch is better at n = 512.",
    settings=_settings(
        {"better": 16, "worse": (32,), **GLANCE},
        {"better": 64, "worse": (512,), "n": 512},
        {"better": 32, "worse": (512,)},
    ),
    expect_from="full",
)

fig15 = better_than(
    **along(figures.EXPERIMENTS, "abstract_symbols/fig15", "multiplier"),
    says="With only the last layer trained, attention logits that start 64 times as large generalise better than those "
    "that start 8 times or once as large.",
    sides=(64.0, (1.0, 8.0)),
    settings={
        "fast": {"setting": "tiny", "seeds": 6, "n": (512,), "epochs": 1000, "heads": 32},
        "full": {"setting": "small", "seeds": 5, "n": (512, 2048), "epochs": 5000, "heads": 64},
        "paper": {"setting": "base", "seeds": 10, "n": (1024, 4096), "epochs": 10000, "heads": 64},
    },
)


def _below_a_guess(n: Sequence[int], seeds: int, multiplier: float = 64.0, **sizes: Any) -> xr.Dataset:
    """By how much the last layer, trained alone, is below the loss 1 of a guess, in standard errors over seeds."""
    losses = RUNS["abstract_symbols/fig15"](n=n, multiplier=(multiplier,), seeds=seeds, **sizes).test_loss
    by_seed = losses.mean([axis for axis in losses.dims if axis != "seed"])
    gain = 1 - by_seed
    error = gain.std("seed", ddof=1) / seeds**0.5
    return xr.Dataset({"gain_over_guess": gain.mean("seed") / error, "test_loss": by_seed})


fig15_suffices = Claim(
    id="abstract_symbols/fig15_suffices",
    source="Fig 15",
    whose="the paper's statement",
    says=(
        "Training just the last layer suffices to generalise to unseen symbols: with attention logits that start 64 "
        "times as large, the loss is below that of a guess."
    ),
    finding=(
        "It is a long way from solving the task: small networks with 64 heads leave .73 of a guess's loss from 2048 "
        "samples and .61 from 8192, where networks trained as a whole leave .32 from 1024."
    ),
    predict=some_gain,
    observe=_below_a_guess,
    compare=bounded("gain_over_guess", low="needed"),
    settings={
        "fast": {"setting": "tiny", "seeds": 6, "n": (512,), "epochs": 1000, "heads": 32},
        "full": {"setting": "small", "seeds": 5, "n": (2048,), "epochs": 5000, "heads": 64},
        "paper": {"setting": "base", "seeds": 10, "n": (4096, 8192), "epochs": 10000, "heads": 64},
    },
    control=Control("attention logits that start as usual", {"multiplier": 1.0}),
)

fig15_samples = better_than(
    figures.parts_trained,
    "parts",
    id="abstract_symbols/fig15_samples",
    source="Fig 15",
    says=(
        "Training just the last layer needs more samples and epochs: from the same samples a network that is trained "
        "as a whole has a lower loss, although the other is trained for many times more epochs with more heads."
    ),
    sides=("all parameters", ("the last layer",)),
    expect_from="full",
    settings={
        "fast": {"setting": "glance", "seeds": 3, "n": (32,), "epochs": 50, "heads": 4, "multiplier": 64.0},
        "full": {"setting": "small", "seeds": 5, "n": (1024,), "epochs": 5000, "heads": 64, "multiplier": 64.0},
        "paper": {"setting": "base", "seeds": 10, "n": (1024, 4096), "epochs": 10000, "heads": 64, "multiplier": 64.0},
    },
)

fig16 = better_than(
    **along(figures.EXPERIMENTS, "abstract_symbols/fig16", "batch"),
    says="A smaller batch is generally better, over several n.",
    settings=_without_rates(
        {"better": 16, "worse": (32,), **GLANCE, "n": (32,)},
        {"better": 64, "worse": (512,), "n": (256, 512)},
        {"better": 32, "worse": (1024,), "n": (256, 512, 1024)},
    ),
    expect_from="full",
)

CLAIMS = [
    fig8,
    fig8_train_loss,
    fig9,
    fig10,
    fig10_deeper,
    fig11,
    fig12,
    fig13,
    fig14,
    fig15,
    fig15_suffices,
    fig15_samples,
    fig16,
]
