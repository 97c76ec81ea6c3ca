"""Appendix B.1 on αβα against αββ: learning rate, depth, heads, width, batch size, the last layer (Fig 8 to 16)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import xarray as xr

from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, Positive, Seeds, about
from foretrain.papers.abstract_symbols.experiments.parameters import (
    NOT_EMPTY,
    Architecture,
    BatchSizes,
    Depths,
    Embeddings,
    EpochCount,
    HeadCounts,
    RateAxis,
    SampleSize,
    SampleSizes,
    Setting,
)
from foretrain.papers.abstract_symbols.setting import TrainingSetting
from foretrain.papers.abstract_symbols.simulations.trained import (
    VANILLA,
    at_its_rate,
    grid,
    setting_called,
    summary,
)

RATES = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
Multipliers = Annotated[
    Sequence[Positive], NOT_EMPTY, about("How many times larger the attention logits start than in the setting.")
]


def _cell(architecture: str, n: int, seeds: Seeds, s: TrainingSetting, rates: Sequence[float]) -> xr.Dataset:
    return summary("aba_abb", architecture, n=n, seeds=seeds, setting=s, rates=tuple(rates))


def _rate_against(
    field: str,
    values: Sequence[int],
    rates: Sequence[float],
    n: int,
    seeds: Seeds,
    setting: str,
    architecture: str,
    *,
    axis: str = "",
) -> xr.Dataset:
    """Learning rate against one field of the setting; the axis is named after the field unless `axis` names it."""
    axis = axis or field

    def one(**point: int) -> xr.Dataset:
        return _cell(architecture, n, seeds, setting_called(setting, **{field: point[axis]}), rates)

    return grid({axis: values}, one)


def fig8(
    n: SampleSizes = (64, 128, 256, 512, 1024, 2048),
    rates: RateAxis = RATES,
    seeds: Seeds = 5,
    setting: Setting = "base",
    architecture: Architecture = VANILLA,
) -> xr.Dataset:
    """Fig 8: learning rate against n."""
    return grid({"n": n}, lambda n: _cell(architecture, n, seeds, setting_called(setting), rates))


def fig9(
    depths: Depths = (1, 2, 4, 8),
    rates: RateAxis = RATES,
    n: SampleSize = 512,
    seeds: Seeds = 5,
    setting: Setting = "base",
    architecture: Architecture = VANILLA,
) -> xr.Dataset:
    """Fig 9: learning rate against depth at n = 512."""
    return _rate_against("depth", depths, rates, n, seeds, setting, architecture)


def fig10(
    depths: Depths = (1, 2, 4, 8),
    rates: RateAxis = RATES,
    n: SampleSize = 1024,
    seeds: Seeds = 5,
    setting: Setting = "base",
    architecture: Architecture = VANILLA,
) -> xr.Dataset:
    """Fig 10: learning rate against depth at n = 1024."""
    return fig9(depths, rates, n, seeds, setting, architecture)


def fig11(
    heads: HeadCounts = (1, 2, 4, 8, 16, 32),
    rates: RateAxis = RATES,
    n: SampleSize = 512,
    seeds: Seeds = 5,
    setting: Setting = "base",
    architecture: Architecture = VANILLA,
) -> xr.Dataset:
    """Fig 11: learning rate against heads per layer at n = 512."""
    return _rate_against("heads", heads, rates, n, seeds, setting, architecture)


def fig12(
    heads: HeadCounts = (1, 2, 4, 8, 16, 32),
    rates: RateAxis = RATES,
    n: SampleSize = 1024,
    seeds: Seeds = 5,
    setting: Setting = "base",
    architecture: Architecture = VANILLA,
) -> xr.Dataset:
    """Fig 12: learning rate against heads per layer at n = 1024."""
    return fig11(heads, rates, n, seeds, setting, architecture)


def fig13(
    embeddings: Embeddings = (32, 64, 128, 256, 512),
    rates: RateAxis = RATES,
    n: SampleSize = 1024,
    seeds: Seeds = 5,
    setting: Setting = "base",
    architecture: Architecture = VANILLA,
) -> xr.Dataset:
    """Fig 13: learning rate against embedding dimension at n = 1024."""
    return _rate_against("embedding", embeddings, rates, n, seeds, setting, architecture)


def fig14(
    batch_sizes: BatchSizes = (32, 64, 128, 256, 512),
    rates: RateAxis = RATES,
    n: SampleSize = 512,
    seeds: Seeds = 5,
    setting: Setting = "base",
    architecture: Architecture = VANILLA,
) -> xr.Dataset:
    """Fig 14: learning rate against batch size at n = 512."""
    return _rate_against("batch", batch_sizes, rates, n, seeds, setting, architecture, axis="batch_size")


def fig15(
    n: SampleSizes = (64, 128, 256, 512, 1024, 2048, 4096, 8192),
    multipliers: Multipliers = (1.0, 8.0, 64.0),
    seeds: Seeds = 5,
    setting: Setting = "base",
    epochs: Annotated[EpochCount, about("Epochs of training.", unit="epochs")] = 10000,
    heads: Annotated[Count, about("Attention heads per layer.", unit="heads")] = 64,
) -> xr.Dataset:
    """Fig 15: only the last layer is trained, and the attention logits start 1, 8 and 64 times as large."""
    s = setting_called(setting, epochs=epochs, heads=heads)
    return grid(
        {"multiplier": multipliers, "n": n},
        lambda multiplier, n: at_its_rate(
            "aba_abb", n=n, seeds=seeds, setting=s, attention_multiplier=multiplier, last_layer=True
        ),
    )


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
        s = setting_called(setting, epochs=epochs, heads=heads)
        return at_its_rate("aba_abb", n=n, seeds=seeds, setting=s, attention_multiplier=multiplier, last_layer=True)

    return grid({"part": parts, "n": n}, one)


def fig16(
    n: SampleSizes = (64, 128, 256, 512, 1024, 2048),
    batch_sizes: BatchSizes = (32, 64, 128, 256, 512, 1024),
    seeds: Seeds = 5,
    setting: Setting = "base",
    architecture: Architecture = VANILLA,
) -> xr.Dataset:
    """Fig 16: batch size against n, at the rate of the setting."""
    return grid(
        {"batch_size": batch_sizes, "n": n},
        lambda batch_size, n: at_its_rate(
            "aba_abb", architecture, n=n, seeds=seeds, setting=setting_called(setting, batch=batch_size)
        ),
    )


QUICK = {"seeds": 2, "setting": "glance"}
RATE_QUICK = {**QUICK, "n": 32, "rates": (1e-3, 1e-2)}
# Small networks train for 300 epochs, in which Adam moves a parameter by at most about 300 times the rate: at 1e-5 that
# gets nowhere.
FULL = {"rates": RATES[2:], "seeds": 3, "setting": "small"}
EXPERIMENTS = [
    Experiment(
        "abstract_symbols/fig8",
        "Learning rate against n",
        fig8,
        batched={"n": "n"},
        settings={"fast": {**QUICK, "n": (16, 32), "rates": (1e-3, 1e-2)}, "full": {**FULL, "seeds": 5}},
    ),
    *(
        Experiment(
            id,
            f"Learning rate against {says}",
            figure,
            batched={values: axis},
            settings={"fast": {**RATE_QUICK, values: few}, "full": FULL},
        )
        for id, figure, says, values, axis, few in (
            ("abstract_symbols/fig9", fig9, "depth at n = 512", "depths", "depth", (1, 2)),
            ("abstract_symbols/fig10", fig10, "depth at n = 1024", "depths", "depth", (1, 2)),
            ("abstract_symbols/fig11", fig11, "heads at n = 512", "heads", "heads", (1, 2)),
            ("abstract_symbols/fig12", fig12, "heads at n = 1024", "heads", "heads", (1, 2)),
            ("abstract_symbols/fig13", fig13, "embedding dimension at n = 1024", "embeddings", "embedding", (8, 16)),
            ("abstract_symbols/fig14", fig14, "batch size at n = 512", "batch_sizes", "batch_size", (16, 32)),
        )
    ),
    Experiment(
        "abstract_symbols/fig15",
        "The last layer trained alone, against n and the size of the attention logits",
        fig15,
        batched={"multipliers": "multiplier", "n": "n"},
        settings={
            "fast": {**QUICK, "n": (16, 32), "multipliers": (1.0, 8.0), "epochs": 50, "heads": 4},
            "full": {"n": (64, 128, 256, 512, 1024, 2048), "epochs": 5000, "setting": "small"},
        },
    ),
    Experiment(
        "abstract_symbols/fig16",
        "Batch size against n",
        fig16,
        batched={"batch_sizes": "batch_size", "n": "n"},
        settings={
            "fast": {**QUICK, "n": (16, 32), "batch_sizes": (16, 32)},
            "full": {
                "n": (64, 128, 256, 512, 1024),
                "batch_sizes": (64, 128, 256, 512, 1024),
                "seeds": 3,
                "setting": "small",
            },
        },
    ),
]
