"""Trained networks side by side: what a·I and b·I change (Fig 2, 3, 5, 22, 23), MLPs given XXᵀ (Fig 25), one's own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import xarray as xr

from foretrain.core.errors import require
from foretrain.dynamics.validated import Progress, best_rate
from foretrain.ledger.experiment import Experiment
from foretrain.models.sequence_baselines import LSTM, MLP, MLP_XX, RNN
from foretrain.papers.abstract_symbols.experiments.trained import (
    RATES,
    TRANSFORMERS,
    VANILLA,
    WITH_A,
    WITH_AB,
    WITH_B,
    at_best_rate,
    cell,
    grid,
    setting_called,
)

SAMPLES = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
TOLD_EVERY = 5.0  # seconds
BASE_RATES = (1e-3, 3e-3)  # the paper's, and one at which a and b move far enough before few samples are memorised


def train(
    task: str = "aba_abb",
    n: int = 512,
    identity_kq: bool = False,
    identity_vo: bool = False,
    rates: Sequence[float] = RATES,
    seeds: int | Sequence[int] = 5,
    setting: str = "base",
    epochs: int | None = None,
    depth: int | None = None,
    heads: int | None = None,
    embedding: int | None = None,
    batch: int | None = None,
    scaling_multiplier: float | None = None,
    patience: int | None = None,
) -> xr.Dataset:
    """One architecture on one task, by name or from a TOML file, with its curves over (rate, seed, epoch_done).

    What is given from `epochs` to `scaling_multiplier` takes the place of the setting's own. A run is done after
    `patience` epochs without a better validation loss, if given. Every few seconds a line on standard error says loss,
    and accuracy on unseen symbols.
    """
    architecture = {(0, 0): VANILLA, (1, 0): WITH_A, (0, 1): WITH_B, (1, 1): WITH_AB}[identity_kq, identity_vo]
    require(
        scaling_multiplier is None or identity_kq or identity_vo,
        "scaling_multiplier is that of a and b; set identity_kq or identity_vo to true as well.",
    )
    changes = {"epochs": epochs, "depth": depth, "heads": heads, "embedding": embedding, "batch": batch}
    s = setting_called(setting, scaling_multiplier=scaling_multiplier, **changes)
    found = cell(
        task,
        architecture,
        n=n,
        seeds=seeds if isinstance(seeds, int) else list(seeds),
        setting=s,
        rates=tuple(rates),
        patience=patience,
        progress=_teller(tuple(rates) or (s.learning_rate,)),
    )
    return found.assign_attrs(architecture=architecture, task=task, n=n)


def chosen_rate(found: xr.Dataset) -> str:
    """The rate of least validation loss and what it gives on unseen symbols."""
    best = best_rate(found)
    if best.test_loss.isnull().all():
        return "Every run diverged; set smaller rates."
    seeds, lost = int(best.test_loss.notnull().sum()), int(best.test_loss.isnull().sum())
    over = " with 1 seed"
    if seeds > 1:
        over = f" (standard deviation {float(best.test_loss.std(ddof=1)):.2g} over {seeds} seeds)"
    over += f", {lost} lost before the first look" if lost else ""
    return (
        f"Chosen by validation: rate {float(best['rate']):g}. On unseen symbols: loss "
        f"{float(best.test_loss.mean()):.3g}{over}, accuracy {float(best.test_accuracy.mean()):.0%}."
    )


def _teller(rates: Sequence[float]) -> Callable[[Progress], None]:
    told = time.monotonic()
    named = "rate " + ", ".join(f"{rate:g}" for rate in rates)

    def tell(now: Progress) -> None:
        nonlocal told
        if time.monotonic() - told >= TOLD_EVERY:
            told = time.monotonic()
            runs = f"run {now.first}" if now.first == now.last else f"runs {now.first} to {now.last}"
            print(
                f"{named}, {runs} of {now.runs}, epoch {now.epoch} of {now.epochs}: train loss {now.train_loss:.3g}, "
                f"on unseen symbols loss {now.validation_loss:.3g}, accuracy {now.validation_accuracy:.0%}",
                file=sys.stderr,
                flush=True,
            )

    return tell


def fig2(
    n: Sequence[int] = SAMPLES,
    architectures: Sequence[str] = (VANILLA, WITH_A),
    rates: Sequence[float] = RATES,
    seeds: int | Sequence[int] = 5,
    setting: str = "base",
) -> xr.Dataset:
    """The two print programs as regression: test loss against n at the best rate of each curve."""
    s = setting_called(setting)

    def one(architecture: str, n: int) -> xr.Dataset:
        return at_best_rate("print_program", architecture, n=n, seeds=seeds, setting=s, rates=rates)

    return grid({"architecture": architectures, "n": n}, one)


def fig3(
    n: Sequence[int] = SAMPLES,
    architectures: Sequence[str] = (VANILLA, WITH_B),
    rates: Sequence[float] = RATES,
    seeds: int | Sequence[int] = 5,
    setting: str = "base",
    depth: int = 4,
    embedding: int = 512,
) -> xr.Dataset:
    """The two print programs as next token: error on unseen symbols against n at the best rate."""
    s = setting_called(setting, depth=depth, embedding=embedding)

    def one(architecture: str, n: int) -> xr.Dataset:
        return at_best_rate("print_symbol", architecture, n=n, seeds=seeds, setting=s, rates=rates)

    return grid({"architecture": architectures, "n": n}, one)


def fig5(
    n: Sequence[int] = (16, 32, 64, 128, 256, 512, 1024),
    embeddings: Sequence[int] = (64, 512, 2048),
    architectures: Sequence[str] = (VANILLA, WITH_B),
    rates: Sequence[float] = RATES,
    seeds: int | Sequence[int] = 5,
    setting: str = "base",
) -> xr.Dataset:
    """Copying an unseen symbol against n and the embedding dimension.

    Read out at a CLS token: at the symbol itself the residual stream holds the answer before any training.
    """

    def one(architecture: str, embedding: int, n: int) -> xr.Dataset:
        s = setting_called(setting, embedding=embedding)
        return at_best_rate("copying", architecture, n=n, seeds=seeds, setting=s, rates=rates, readout="cls")

    return grid({"architecture": architectures, "embedding": embeddings, "n": n}, one)


def fig22(
    n: Sequence[int] = SAMPLES,
    architectures: Sequence[str] = (*TRANSFORMERS, RNN, LSTM, MLP),
    seeds: int | Sequence[int] = 5,
    setting: str = "base",
    task: str = "aba_abb",
    rates: Sequence[float] = BASE_RATES,
) -> xr.Dataset:
    """Test loss of seven architectures against n, at the best of the rates (none: at that of the setting)."""
    s = setting_called(setting)

    def one(architecture: str, n: int) -> xr.Dataset:
        return at_best_rate(task, architecture, n=n, seeds=seeds, setting=s, rates=rates)

    return grid({"architecture": architectures, "n": n}, one)


def fig23(
    lengths: Sequence[int] = (2, 3, 4, 5, 6),
    n: Sequence[int] = SAMPLES,
    architectures: Sequence[str] = (VANILLA, WITH_AB),
    seeds: int | Sequence[int] = 5,
    setting: str = "base",
    rates: Sequence[float] = BASE_RATES,
) -> xr.Dataset:
    """Majority of k symbols: test loss against n with and without both scalings, at the best of the rates."""
    s = setting_called(setting)

    def one(architecture: str, length: int, n: int) -> xr.Dataset:
        return at_best_rate(f"majority_{length}", architecture, n=n, seeds=seeds, setting=s, rates=rates)

    return grid({"architecture": architectures, "length": lengths, "n": n}, one)


def fig25(
    n: Sequence[int] = (4, 32, 64, 256, 2048, 8192),
    architectures: Sequence[str] = (MLP_XX, MLP, VANILLA),
    seeds: int | Sequence[int] = 5,
    setting: str = "base",
) -> xr.Dataset:
    """An MLP that is given vec(XXᵀ), one that is not, and a transformer."""
    return fig22(n, architectures, seeds, setting, rates=())


QUICK = {"n": (16, 32), "seeds": 2, "setting": "glance"}
# Small networks train for 300 epochs, in which Adam moves a parameter by at most about 300 rates: the smaller ones of
# the paper's rates come nowhere.
FULL = {"n": SAMPLES[2:9], "rates": (1e-3, 1e-2), "seeds": 3, "setting": "small"}
EXPERIMENTS = [
    Experiment(
        "abstract_symbols/train",
        "A transformer on a template task of one's choice, with or without a·I and b·I",
        train,
        cut={"rates": "rate"},
        settings={
            "fast": {"n": 32, "seeds": 2, "rates": (1e-3, 1e-2), "setting": "glance"},
            "full": {"setting": "small"},
        },
        concludes=chosen_rate,
    ),
    Experiment(
        "abstract_symbols/fig2",
        "Print programs as regression: test loss against n, with and without a·I",
        fig2,
        cut={"n": "n"},
        settings={"fast": {**QUICK, "n": (8, 16), "rates": (1e-2,)}, "full": FULL},
    ),
    Experiment(
        "abstract_symbols/fig3",
        "Print programs as next token: error on unseen symbols against n, with and without b·I",
        fig3,
        cut={"n": "n"},
        settings={
            "fast": {**QUICK, "n": (8, 16), "rates": (1e-2,), "depth": 2, "embedding": 32, "architectures": (WITH_B,)},
            "full": {**FULL, "n": (32, 64, 128, 256), "embedding": 128},
        },
    ),
    Experiment(
        "abstract_symbols/fig5",
        "Copying unseen symbols against n and embedding dimension, with and without b·I",
        fig5,
        cut={"n": "n"},
        settings={"fast": {**QUICK, "embeddings": (16, 32), "rates": (1e-2,)}, "full": {**FULL, "n": (16, 64, 256)}},
    ),
    Experiment(
        "abstract_symbols/fig22",
        "Test loss of different architectures against n",
        fig22,
        cut={"n": "n"},
        settings={
            "fast": {**QUICK, "architectures": (VANILLA, WITH_A, LSTM, MLP), "rates": ()},
            "full": {"n": SAMPLES[2:10], "setting": "small", "rates": ()},
        },
    ),
    Experiment(
        "abstract_symbols/fig23",
        "Majority of k symbols against n, with and without both scalings",
        fig23,
        cut={"lengths": "length", "n": "n"},
        settings={
            "fast": {**QUICK, "lengths": (2, 3), "rates": ()},
            "full": {"n": SAMPLES[2:9], "setting": "small", "rates": ()},
        },
    ),
    Experiment(
        "abstract_symbols/fig25",
        "MLP with vec(XXᵀ), MLP and transformer against n",
        fig25,
        cut={"n": "n"},
        settings={"fast": QUICK, "full": {"setting": "small"}},
    ),
]
