"""The numbers published with Fig 5, 22, 23 and 25 (means of 5 trials in the base setting) against ours."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from foretrain.core.looping import over
from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import as_printed, bounded, close, every
from foretrain.ledger.tolerances import Tolerance
from foretrain.models.sequence_baselines import LSTM, MLP, MLP_XX, RNN
from foretrain.papers.abstract_symbols.claims.published_numbers import (
    ABA_ABB,
    COPYING,
    COPYING_ERRORS,
    LENGTH_4,
    MAJORITY,
    PUBLISHED,
    TRIALS,
    WITH_B_ERROR,
)
from foretrain.papers.abstract_symbols.experiments.architectures import BASE_RATES, SAMPLES
from foretrain.papers.abstract_symbols.simulations.trained import (
    TRANSFORMERS,
    VANILLA,
    WITH_A,
    WITH_AB,
    WITH_B,
    at_best_rate,
    at_its_rate,
    setting_called,
)
from foretrain.papers.abstract_symbols.tolerances import PUBLISHED_SPREAD


def _published(task: str, n: Sequence[int], architectures: Sequence[str]) -> xr.Dataset:
    values = [[PUBLISHED[task][name][size] for size in n] for name in architectures]
    return trajectory(
        {"test_loss": (("architecture", "n"), values)}, {"architecture": list(architectures), "n": list(n)}
    )


def _measured(
    task: str,
    n: Sequence[int],
    architectures: Sequence[str],
    seeds: int,
    epochs: int | None = None,
    rates: Sequence[float] = BASE_RATES,
    multiplier: float | None = None,
    stand_in: str = "",
) -> xr.Dataset:
    """Losses in the base setting; `stand_in` replaces every architecture, and `multiplier` is that of a and b."""
    s = setting_called("base", epochs=epochs, scaling_multiplier=multiplier)

    def one(architecture: str, n: int) -> xr.Dataset:
        return at_best_rate(task, stand_in or architecture, n=n, seeds=seeds, setting=s, rates=rates)

    losses = over(one, {"architecture": architectures, "n": n}, {}).test_loss.transpose("architecture", "n", "seed")
    return trajectory(
        {"test_loss": (losses.dims, losses.values)},
        {"architecture": list(architectures), "n": list(n), "seed": losses.seed.values},
    )


def _as_published(source: str, settings: Mapping[str, Mapping[str, Any]], control: Control, **claim: Any) -> Claim:
    return Claim(
        **{
            "source": f"{source}, published numbers",
            "predict": _published,
            "observe": _measured,
            "compare": as_printed("test_loss", PUBLISHED_SPREAD, TRIALS, guess=1.0),
            "settings": settings,
            "control": control,
            "whose": "the paper's statement",
            **claim,
        }
    )


OWN_RATE = (
    "The paper names one learning rate for all parameters. We reproduce Fig 5 (b) and Fig 22 only with ten times that "
    "rate for a and b, a factor that we chose because the numbers agree then."
)
ONLY_A = {"task": ABA_ABB, "architectures": (WITH_A,), "multiplier": 1.0}
WITHOUT_XX = Control("an MLP in place of every architecture", {"stand_in": MLP})
WITH_XX = Control("an MLP with vec(XXᵀ) in place of every architecture", {"stand_in": MLP_XX})
ALL = (*TRANSFORMERS, MLP)
EVERY = (*ALL, RNN, LSTM)
BOTH = (VANILLA, WITH_AB)
fig22_published = _as_published(
    "Fig 22",
    {
        "fast": {"task": ABA_ABB, "n": (64,), "architectures": (WITH_A,), "seeds": 3, "epochs": 80, "rates": (3e-3,)},
        "full": {"task": ABA_ABB, "n": (16, 64), "architectures": ALL, "seeds": 5, "epochs": 400},
        "paper": {"task": ABA_ABB, "n": SAMPLES, "architectures": EVERY, "seeds": 5},
    },
    WITHOUT_XX,
    id="abstract_symbols/fig22_published",
    says=(
        "Mean test losses in the base setting are those published, within what they vary between figures. (With a and "
        "b at ten times the rate of the weights, and the better of rates .001 and .003 by validation: both were chosen "
        "because they agree. At tier full after 400 epochs.)"
    ),
)


def _at_most_published(task: str, n: Sequence[int], architectures: Sequence[str]) -> xr.Dataset:
    most = _published(task, n, architectures).test_loss + PUBLISHED_SPREAD.value
    return xr.Dataset({"most": most})


def _mean_losses(**cells: Any) -> xr.Dataset:
    measured = _measured(**cells).test_loss
    return xr.Dataset({"mean_loss": measured.mean("seed", skipna=False)})


fig22_one_rate = _as_published(
    "Fig 22",
    {
        "fast": {"n": (64,), "seeds": 3, "epochs": 80, "rates": (3e-3,), **ONLY_A},
        "full": {"n": (64, 128), "seeds": 5, "epochs": 200, "rates": BASE_RATES, **ONLY_A},
        "paper": {"n": (32, 64, 128, 256), "seeds": 5, "epochs": None, "rates": BASE_RATES, **ONLY_A},
    },
    Control("ten times the rate for a", {"multiplier": None}),
    id="abstract_symbols/fig22_one_rate",
    whose="our own expectation",
    says="With a·I and one learning rate for all parameters (.001 or .003, the better by validation), mean test losses "
    "are as low as those published.",
    predict=_at_most_published,
    observe=_mean_losses,
    compare=bounded("mean_loss", high="most"),
    expect="fails",
    finding=(
        f"{OWN_RATE} With one rate the weights memorise 64 samples before a has moved: losses of .97 (rate .001) and "
        ".57 (rate .003) are left after 400 epochs, published .038."
    ),
)
fig23_published = _as_published(
    "Fig 23 at length 4",
    {
        "fast": {"task": MAJORITY, "n": (32,), "architectures": (VANILLA,), "seeds": 2, "epochs": 5, "rates": (1e-3,)},
        "full": {"task": MAJORITY, "n": (32, 512), "architectures": BOTH, "seeds": 5, "epochs": 150},
        "paper": {"task": MAJORITY, "n": LENGTH_4, "architectures": BOTH, "seeds": 5},
    },
    WITH_XX,
    id="abstract_symbols/fig23_published",
    says=(
        "Mean test losses on majorities of 4, with and without both scalings, are those published. (A verdict is only "
        "expected at tier paper: after 150 epochs on 512 samples 5 seeds vary too much, and after 100 epochs on 2048 "
        "they are off by .17.)"
    ),
    expect_from="paper",
)


HALF = Tolerance(0.5, "the least of a loss that counts as a plateau, as a share of that at 32 samples")


def _plateau(**cells: Any) -> xr.Dataset:
    """The losses, and the loss at the last size up to 256 as a share of that at 32 samples."""
    mean = _measured(**cells).test_loss.mean("seed", skipna=False)
    level = mean.sel(n=slice(32, 256))
    return trajectory(
        {"test_loss": (mean.dims, mean.values), "plateau": float((level.isel(n=-1) / level.isel(n=0)).squeeze())},
        {"architecture": mean.architecture.values, "n": mean.n.values},
    )


fig25_published = _as_published(
    "Fig 25",
    {
        tier: {"task": ABA_ABB, "architectures": (MLP_XX,), "rates": (1e-3,), **sizes}
        for tier, sizes in {
            "fast": {"n": (32, 64), "seeds": 2, "epochs": 100},
            "full": {"n": (32, 64, 256), "seeds": 5, "epochs": None},
            "paper": {"n": tuple(PUBLISHED[ABA_ABB][MLP_XX]), "seeds": 5, "epochs": None},
        }.items()
    },
    Control("an MLP without vec(XXᵀ)", {"stand_in": MLP}),
    id="abstract_symbols/fig25_published",
    says=(
        "Mean test losses of an MLP with vec(XXᵀ) in the base setting are at most those published, and there is a "
        "plateau: 256 samples leave at least half of the loss that 32 leave. (Our plateau is lower: .07 to .1, "
        "published .13 to .14. Depth and width are not printed; with two hidden layers of 256 instead of one there is "
        "no plateau.)"
    ),
    predict=_published,
    observe=_plateau,
    compare=every(bounded("test_loss", high="test_loss"), bounded("plateau", low=HALF)),
)


Cells = Sequence[tuple[int, int]]  # embedding dimension and n


def _names(cells: Cells) -> dict[str, Any]:
    return {"cell": [f"d = {d}, n = {n}" for d, n in cells]}


def _published_errors(cells: Cells) -> xr.Dataset:
    return trajectory({"wrong": ("cell", [COPYING_ERRORS[d][n] for d, n in cells])}, _names(cells))


def _errors(
    cells: Cells,
    seeds: int,
    epochs: int | None = None,
    architecture: str = VANILLA,
    scaled: bool = True,
    multiplier: float | None = None,
) -> xr.Dataset:
    """The share of unseen symbols that are not copied; `scaled` divides the products with the embeddings by √d."""

    def wrong(embedding: int, n: int) -> float:
        s = setting_called("base", embedding=embedding, epochs=epochs, scaling_multiplier=multiplier)
        options = {} if scaled else {"score_scale": 1.0}
        runs = at_its_rate(COPYING, architecture, n=n, seeds=seeds, setting=s, readout="cls", **options)
        return float(1 - runs.test_accuracy.mean("seed", skipna=False))

    errors = [wrong(*cell) for cell in cells]
    return trajectory({"wrong": ("cell", errors)}, _names(cells))


fig5_published = Claim(
    id="abstract_symbols/fig5_published",
    source="Fig 5 (a), published numbers",
    whose="the paper's statement",
    says=(
        "Without b·I the share of unseen symbols that are not copied is the published one. (The paper does not say "
        "where the answer is read: ours is read at a CLS token, with scores over √d, which we chose because the "
        "numbers agree then.)"
    ),
    predict=_published_errors,
    observe=_errors,
    compare=close("wrong", PUBLISHED_SPREAD, relative=False, by="as published", seen="here"),
    settings={
        "fast": {"cells": ((64, 16), (64, 64)), "seeds": 1, "epochs": 100},
        "full": {"cells": ((64, 16), (64, 32), (64, 64), (64, 128)), "seeds": 5, "epochs": 400},
        "paper": {"cells": tuple((d, n) for d, losses in COPYING_ERRORS.items() for n in losses), "seeds": 5},
    },
    control=Control("scores that are not divided by √d", {"scaled": False}),
)


def _repaired(**claim: Any) -> Claim:
    multiplier = claim.pop("multiplier")
    return Claim(
        source="Fig 5 (b), published numbers",
        observe=_errors,
        compare=bounded("wrong", high=WITH_B_ERROR),
        settings={
            tier: {"architecture": WITH_B, "multiplier": multiplier, **sizes}
            for tier, sizes in {
                "fast": {"cells": ((64, 16),), "seeds": 5, "epochs": 30},
                "full": {"cells": ((64, 16), (64, 32), (512, 16), (512, 32)), "seeds": 5, "epochs": 100},
                "paper": {"cells": tuple(itertools.product(COPYING_ERRORS, (16, 32, 64, 128))), "seeds": 5},
            }.items()
        },
        **claim,
    )


fig5_repaired_published = _repaired(
    id="abstract_symbols/fig5_repaired_published",
    whose="the paper's statement",
    says="With b·I, 16 samples suffice to copy all but 2 % of unseen symbols. (With b at ten times the rate of the "
    "weights: see fig5_one_rate.)",
    multiplier=None,
    control=Control("one rate for all parameters", {"multiplier": 1.0}),
)
fig5_one_rate = _repaired(
    id="abstract_symbols/fig5_one_rate",
    whose="our own expectation",
    says="With b·I and one learning rate for all parameters, 16 samples suffice to copy all but 2 % of unseen symbols.",
    finding=(
        f"{OWN_RATE} With one rate b·I helps (d = 64: .34 wrong instead of .68 at n = 32) but needs 64 samples: W_V "
        "and W_O memorise 16 symbols before b moves."
    ),
    expect="fails",
    multiplier=1.0,
    control=Control("ten times that rate for b", {"multiplier": None}),
)

CLAIMS = [
    fig22_published,
    fig22_one_rate,
    fig23_published,
    fig25_published,
    fig5_published,
    fig5_repaired_published,
    fig5_one_rate,
]
