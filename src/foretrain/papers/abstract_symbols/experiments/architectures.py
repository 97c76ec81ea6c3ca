"""Trained networks compared: what a·I and b·I change (Fig 2, 3, 5, 22, 23), MLPs given XXᵀ (Fig 25), your own task."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import xarray as xr
from pydantic import Field

from foretrain.core.errors import require
from foretrain.dynamics.validated import best_rate
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Positive, Seeds, about
from foretrain.models.sequence_baselines import LSTM, MLP, MLP_XX, RNN
from foretrain.papers.abstract_symbols.experiments.parameters import (
    Architecture,
    BatchSize,
    Depth,
    Embedding,
    HeadCount,
    OwnEpochs,
    Patience,
    Rates,
    SampleSize,
    Setting,
    TaskName,
)
from foretrain.papers.abstract_symbols.simulations.trained import (
    RATES,
    TRANSFORMERS,
    VANILLA,
    WITH_A,
    WITH_AB,
    WITH_B,
    at_best_rate,
    cell,
    setting_called,
)

SAMPLES = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
BASE_RATES = (1e-3, 3e-3)  # the paper's, and one at which a and b move before a small training set is memorised


def train(
    task: TaskName = "aba_abb",
    n: SampleSize = 512,
    identity_kq: Annotated[bool, about("Whether every head has a·I added to W_K·W_Qᵀ, with a trained.")] = False,
    identity_vo: Annotated[bool, about("Whether every head has b·I added to W_V·W_Oᵀ, with b trained.")] = False,
    rates: Rates = RATES,
    seeds: Seeds = 5,
    setting: Setting = "base",
    epochs: OwnEpochs = None,
    depth: Depth = None,
    heads: HeadCount = None,
    embedding: Embedding = None,
    batch: BatchSize = None,
    scaling_multiplier: Annotated[
        Positive | None,
        about("Learning rate of a and b as a multiple of that of the weights; none takes that of the setting."),
    ] = None,
    patience: Patience = None,
) -> xr.Dataset:
    """One architecture on one task, by name or from a TOML file, with its curves over (rate, seed, epoch_done).

    The arguments from `epochs` to `scaling_multiplier` replace those of the setting, and `patience` stops a run early.
    """
    architecture = {(0, 0): VANILLA, (1, 0): WITH_A, (0, 1): WITH_B, (1, 1): WITH_AB}[identity_kq, identity_vo]
    require(
        scaling_multiplier is None or identity_kq or identity_vo,
        "scaling_multiplier changes the learning rate of a and b; set identity_kq or identity_vo to true as well.",
    )
    changes = {"epochs": epochs, "depth": depth, "heads": heads, "embedding": embedding, "batch": batch}
    s = setting_called(setting, scaling_multiplier=scaling_multiplier, **changes)
    runs = cell(
        task,
        architecture,
        n=n,
        seeds=seeds if isinstance(seeds, int) else list(seeds),
        setting=s,
        rates=tuple(rates),
        patience=patience,
    )
    return runs.assign_attrs(architecture=architecture, task=task, n=n)


def chosen_rate(runs: xr.Dataset) -> str:
    """The rate with the lowest validation loss, and how well it does on unseen symbols."""
    best = best_rate(runs)
    if best.test_loss.isnull().all():
        return "Every run diverged; set smaller rates."
    seeds, lost = int(best.test_loss.notnull().sum()), int(best.test_loss.isnull().sum())
    over = " with 1 seed"
    if seeds > 1:
        over = f" (standard deviation {float(best.test_loss.std(ddof=1)):.2g} over {seeds} seeds)"
    over += f", {lost} lost before the first validation pass" if lost else ""
    return (
        f"Chosen by validation: rate {float(best['rate']):g}. On unseen symbols: loss "
        f"{float(best.test_loss.mean()):.3g}{over}, accuracy {float(best.test_accuracy.mean()):.0%}."
    )


def at_the_best_rate(
    architecture: Architecture = VANILLA,
    n: SampleSize = 512,
    task: TaskName = "aba_abb",
    rates: Rates = RATES,
    seeds: Seeds = 5,
    setting: Setting = "base",
    depth: Depth = None,
    embedding: Embedding = None,
    readout: Literal["cls", "last"] | None = None,
) -> xr.Dataset:
    """Test loss at the rate that validation chooses."""
    s = setting_called(setting, depth=depth, embedding=embedding)
    read = {} if readout is None else {"readout": readout}
    return at_best_rate(task, architecture, n=n, seeds=seeds, setting=s, rates=rates, **read)


def majority(
    architecture: Architecture = VANILLA,
    length: Annotated[int, Field(ge=2, le=10), about("Length k of the majority.", unit="symbols")] = 3,
    n: SampleSize = 512,
    rates: Rates = BASE_RATES,
    seeds: Seeds = 5,
    setting: Setting = "base",
) -> xr.Dataset:
    """Fig 23: majority of k symbols, at the best of the rates."""
    return at_the_best_rate(architecture, n, f"majority_{length}", rates, seeds, setting)


AS_SET: dict[str, Any] = {"depth": None, "embedding": None, "readout": None}
QUICK = {"n": (16, 32), "seeds": 2, "setting": "glance"}
# Small networks train for 300 epochs, in which Adam moves a parameter by at most about 300 times the rate: the smaller
# of the paper's rates get nowhere.
FULL = {"n": SAMPLES[2:9], "rates": (1e-3, 1e-2), "seeds": 3, "setting": "small"}
EXPERIMENTS = [
    Experiment(
        "abstract_symbols/train",
        "A transformer on a template task of your choice, with or without a·I and b·I",
        train,
        batched={"rates": "rate"},
        together=4,
        settings={
            "fast": {"n": 32, "seeds": 2, "rates": (1e-3, 1e-2), "setting": "glance"},
            "full": {"setting": "small"},
        },
        concludes=chosen_rate,
    ),
    Experiment(
        "abstract_symbols/fig2",
        "Print programs as regression: test loss against n, with and without a·I",
        at_the_best_rate,
        {"architecture": (VANILLA, WITH_A), "n": SAMPLES},
        fixed={"task": "print_program", **AS_SET},
        settings={"fast": {**QUICK, "n": (8, 16), "rates": (1e-2,)}, "full": FULL},
    ),
    Experiment(
        "abstract_symbols/fig3",
        "Print programs as next token: error on unseen symbols against n, with and without b·I",
        at_the_best_rate,
        {"architecture": (VANILLA, WITH_B), "n": SAMPLES},
        fixed={"task": "print_symbol", "readout": None},
        settings={
            "fast": {**QUICK, "n": (8, 16), "rates": (1e-2,), "depth": 2, "embedding": 32, "architecture": (WITH_B,)},
            "full": {**FULL, "n": (32, 64, 128, 256), "depth": 4, "embedding": 128},
            "paper": {"depth": 4, "embedding": 512},
        },
    ),
    # The answer is read at a CLS token, because at the symbol itself the residual stream holds it before any training.
    Experiment(
        "abstract_symbols/fig5",
        "Copying unseen symbols against n and embedding dimension, with and without b·I",
        at_the_best_rate,
        {"architecture": (VANILLA, WITH_B), "embedding": (64, 512, 2048), "n": (16, 32, 64, 128, 256, 512, 1024)},
        fixed={"task": "copying", "readout": "cls", "depth": None},
        settings={"fast": {**QUICK, "embedding": (16, 32), "rates": (1e-2,)}, "full": {**FULL, "n": (16, 64, 256)}},
    ),
    Experiment(
        "abstract_symbols/fig22",
        "Test loss of different architectures against n",
        at_the_best_rate,
        {"architecture": (*TRANSFORMERS, RNN, LSTM, MLP), "n": SAMPLES},
        fixed=AS_SET,
        settings={
            "fast": {**QUICK, "architecture": (VANILLA, WITH_A, LSTM, MLP), "rates": ()},
            "full": {"n": SAMPLES[2:10], "setting": "small", "rates": ()},
            "paper": {"rates": BASE_RATES},
        },
    ),
    Experiment(
        "abstract_symbols/fig23",
        "Majority of k symbols against n, with and without both scalings",
        majority,
        {"architecture": (VANILLA, WITH_AB), "length": (2, 3, 4, 5, 6), "n": SAMPLES},
        settings={
            "fast": {**QUICK, "length": (2, 3), "rates": ()},
            "full": {"n": SAMPLES[2:9], "setting": "small", "rates": ()},
        },
    ),
    Experiment(
        "abstract_symbols/fig25",
        "MLP with vec(XXᵀ), MLP and transformer against n",
        at_the_best_rate,
        {"architecture": (MLP_XX, MLP, VANILLA), "n": (4, 32, 64, 256, 2048, 8192)},
        fixed={"task": "aba_abb", "rates": (), **AS_SET},
        settings={"fast": QUICK, "full": {"setting": "small"}},
    ),
]
