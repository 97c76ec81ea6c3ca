"""Does kernel regression at initialisation rank tasks and architectures as training does?"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import xarray as xr

from foretrain.claim import Claim, Control
from foretrain.comparators import bounded
from foretrain.models.sequence_baselines import MLP, MLP_XX
from foretrain.papers.abstract_symbols.experiments.data_need import data_need, predicted_need
from foretrain.papers.abstract_symbols.experiments.trained import VANILLA, WITH_A
from foretrain.trajectory import trajectory


def _by_chance() -> xr.Dataset:
    return trajectory({"most_chance": 0.05})


def _ranks(
    tasks: Sequence[str],
    n: Sequence[int],
    architectures: Sequence[str],
    seeds: int,
    setting: str,
    loss: float,
    shifted: bool = False,
) -> xr.Dataset:
    """Kendall's τ between predicted and measured need over all cells, and its chance.

    The chance is the share of all ways to exchange architectures and to exchange tasks among the predictions that give
    at least this τ: cells of one architecture are not independent. Needs beyond the grid or beyond what the kernel
    resolves are infinite and tie. `shifted` gives every architecture the prediction of the one before it.
    """
    measured = data_need(tasks, n, architectures, seeds, setting, loss).n_needed
    predicted = np.array([[predicted_need(task, name, loss) for name in architectures] for task in tasks])
    if shifted:
        predicted = np.roll(predicted, 1, axis=1)
    needed = measured.transpose("task", "architecture").values
    among = _rank_correlation(predicted, needed)
    exchanged = [
        _rank_correlation(predicted[np.ix_(rows, columns)], needed)
        for rows in itertools.permutations(range(len(tasks)))
        for columns in itertools.permutations(range(len(architectures)))
    ]
    return trajectory(
        {
            "chance": np.mean(np.array(exchanged) >= among - 1e-12),
            "rank_correlation": among,
            "predicted_need": (("task", "architecture"), predicted),
            "measured_need": (("task", "architecture"), needed),
        },
        {"task": list(tasks), "architecture": list(architectures)},
    )


def _rank_correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Kendall's τ_b."""
    i, j = np.triu_indices(x.size, 1)
    with np.errstate(invalid="ignore"):  # infinite needs tie
        a, b = (np.nan_to_num(np.sign(z.ravel()[i] - z.ravel()[j])) for z in (x, y))
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


forecast_agrees = Claim(
    id="abstract_symbols/forecast_agrees",
    source="Sections 3 and 5 together",
    says=(
        "The samples that kernel regression with an architecture's random features needs rank tasks and architectures "
        "as the samples do that trained networks need."
    ),
    predict=_by_chance,
    observe=_ranks,
    compare=bounded("chance", high="most_chance"),
    expect_from="full",
    settings={
        "fast": {
            "tasks": ("same_different", "aba_abb"),
            "n": (8, 32),
            "architectures": (VANILLA, WITH_A, MLP, MLP_XX),
            "seeds": 2,
            "setting": "glance",
            "loss": 0.6,
        },
        "full": {
            "tasks": ("same_different", "aba_abb", "abab_aabb", "majority_4"),
            "n": (16, 64, 128, 256, 512, 1024, 2048),
            "architectures": (VANILLA, WITH_A, MLP, MLP_XX),
            "seeds": 3,
            "setting": "small",
            "loss": 0.5,
        },
        "paper": {
            "tasks": ("same_different", "aba_abb", "abab_aabb", "majority_2", "majority_4", "majority_6"),
            "n": (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192),
            "architectures": (VANILLA, WITH_A, MLP, MLP_XX),
            "seeds": 5,
            "setting": "base",
            "loss": 0.1,
        },
    },
    control=Control("every architecture has the prediction of another", {"shifted": True}),
)

CLAIMS = [forecast_agrees]
