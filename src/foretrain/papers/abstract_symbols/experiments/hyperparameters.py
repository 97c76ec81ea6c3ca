"""Appendix B.1 on αβα against αββ: learning rate, depth, heads, width, batch size, the last layer (Fig 8 to 16)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import xarray as xr

from foretrain.core.looping import over
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, Positive, Seeds, about
from foretrain.papers.abstract_symbols.experiments.parameters import (
    Architecture,
    BatchSize,
    Depth,
    Embedding,
    EpochCount,
    HeadCount,
    RateAxis,
    SampleSize,
    Setting,
)
from foretrain.papers.abstract_symbols.simulations.trained import VANILLA, at_its_rate, setting_called, summary

RATES = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)


def learning_rates(
    n: SampleSize = 512,
    rates: RateAxis = RATES,
    seeds: Seeds = 5,
    setting: Setting = "base",
    architecture: Architecture = VANILLA,
    depth: Depth = None,
    heads: HeadCount = None,
    embedding: Embedding = None,
    batch: BatchSize = None,
) -> xr.Dataset:
    """Fig 8 to 14: learning rates compared."""
    s = setting_called(setting, depth=depth, heads=heads, embedding=embedding, batch=batch)
    return summary("aba_abb", architecture, n=n, seeds=seeds, setting=s, rates=tuple(rates))


def last_layer_alone(
    n: SampleSize = 512,
    multiplier: Annotated[
        Positive, about("How many times larger the attention logits start than in the setting.")
    ] = 1.0,
    seeds: Seeds = 5,
    setting: Setting = "base",
    epochs: Annotated[EpochCount, about("Epochs of training.", unit="epochs")] = 10000,
    heads: Annotated[Count, about("Attention heads per layer.", unit="heads")] = 64,
) -> xr.Dataset:
    """Fig 15: only the last layer is trained, and the attention logits start larger."""
    s = setting_called(setting, epochs=epochs, heads=heads)
    return at_its_rate("aba_abb", n=n, seeds=seeds, setting=s, attention_multiplier=multiplier, last_layer=True)


def parts_trained(
    parts: Sequence[str], n: Sequence[int], seeds: Seeds, setting: str, epochs: int, heads: int, multiplier: float
) -> xr.Dataset:
    """Fig 15, what its caption says of samples: all parameters trained, or the last layer alone.

    Only the last layer gets `epochs`, `heads` and `multiplier`; a network that is trained as a whole has those of the
    setting.
    """

    def one(part: str, n: int) -> xr.Dataset:
        if part == "all parameters":
            return at_its_rate("aba_abb", n=n, seeds=seeds, setting=setting_called(setting))
        return last_layer_alone(n, multiplier, seeds, setting, epochs, heads)

    return over(one, {"part": parts, "n": n}, {})


def batch_sizes(
    n: SampleSize = 512,
    batch: BatchSize = None,
    seeds: Seeds = 5,
    setting: Setting = "base",
    architecture: Architecture = VANILLA,
) -> xr.Dataset:
    """Fig 16: batch size against n, at the rate of the setting."""
    return at_its_rate("aba_abb", architecture, n=n, seeds=seeds, setting=setting_called(setting, batch=batch))


QUICK = {"seeds": 2, "setting": "glance"}
# Small networks train for 300 epochs, in which Adam moves a parameter by at most about 300 times the rate: at 1e-5 that
# gets nowhere.
FULL = {"rates": RATES[2:], "seeds": 3, "setting": "small"}


def _rate_against(id: str, says: str, axis: str, values: Sequence[int], few: Sequence[int], n: int) -> Experiment:
    settings: dict[str, dict[str, Any]] = {
        "fast": {**QUICK, "n": 32, "rates": (1e-3, 1e-2), axis: few},
        "full": {**FULL, "n": n},
        "paper": {"n": n},
    }
    return Experiment(id, f"Learning rate against {says} at n = {n}", learning_rates, {axis: values}, settings=settings)


EXPERIMENTS = [
    Experiment(
        "abstract_symbols/fig8",
        "Learning rate against n",
        learning_rates,
        {"n": (64, 128, 256, 512, 1024, 2048)},
        settings={"fast": {**QUICK, "n": (16, 32), "rates": (1e-3, 1e-2)}, "full": {**FULL, "seeds": 5}},
    ),
    _rate_against("abstract_symbols/fig9", "depth", "depth", (1, 2, 4, 8), (1, 2), 512),
    _rate_against("abstract_symbols/fig10", "depth", "depth", (1, 2, 4, 8), (1, 2), 1024),
    _rate_against("abstract_symbols/fig11", "heads", "heads", (1, 2, 4, 8, 16, 32), (1, 2), 512),
    _rate_against("abstract_symbols/fig12", "heads", "heads", (1, 2, 4, 8, 16, 32), (1, 2), 1024),
    _rate_against("abstract_symbols/fig13", "embedding dimension", "embedding", (32, 64, 128, 256, 512), (8, 16), 1024),
    _rate_against("abstract_symbols/fig14", "batch size", "batch", (32, 64, 128, 256, 512), (16, 32), 512),
    Experiment(
        "abstract_symbols/fig15",
        "The last layer trained alone, against n and the size of the attention logits",
        last_layer_alone,
        {"multiplier": (1.0, 8.0, 64.0), "n": (64, 128, 256, 512, 1024, 2048, 4096, 8192)},
        settings={
            "fast": {**QUICK, "n": (16, 32), "multiplier": (1.0, 8.0), "epochs": 50, "heads": 4},
            "full": {"n": (64, 128, 256, 512, 1024, 2048), "epochs": 5000, "setting": "small"},
        },
    ),
    Experiment(
        "abstract_symbols/fig16",
        "Batch size against n",
        batch_sizes,
        {"batch": (32, 64, 128, 256, 512, 1024), "n": (64, 128, 256, 512, 1024, 2048)},
        settings={
            "fast": {**QUICK, "n": (16, 32), "batch": (16, 32)},
            "full": {
                "n": (64, 128, 256, 512, 1024),
                "batch": (64, 128, 256, 512, 1024),
                "seeds": 3,
                "setting": "small",
            },
        },
    ),
]
