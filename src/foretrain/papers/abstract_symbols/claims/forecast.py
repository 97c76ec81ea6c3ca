"""Does kernel regression at initialisation rank tasks and architectures as training does?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from scipy import stats

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
    """Kendall's τ between predicted and measured need over all cells, and its chance if they had nothing in common.

    Needs beyond the grid or beyond what the kernel resolves are infinite and tie. `shifted` gives every architecture
    the prediction of the one before it.
    """
    measured = data_need(tasks, n, architectures, seeds, setting, loss).n_needed
    predicted = np.array([[predicted_need(task, name, loss) for name in architectures] for task in tasks])
    if shifted:
        predicted = np.roll(predicted, 1, axis=1)
    found = stats.kendalltau(predicted.ravel(), measured.transpose("task", "architecture").values.ravel())
    one_sided = found.pvalue / 2 if found.statistic > 0 else 1 - found.pvalue / 2
    return trajectory(
        {
            "chance": one_sided,
            "rank_correlation": found.statistic,
            "predicted_need": (("task", "architecture"), predicted),
            "measured_need": (("task", "architecture"), measured.transpose("task", "architecture").values),
        },
        {"task": list(tasks), "architecture": list(architectures)},
    )


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
    settings={
        "fast": {
            "tasks": ("same_different", "aba_abb"),
            "n": (16, 64),
            "architectures": (VANILLA, WITH_A, MLP, MLP_XX),
            "seeds": 3,
            "setting": "tiny",
            "loss": 0.6,
        },
        "full": {
            "tasks": ("same_different", "aba_abb", "abab_aabb", "majority_4"),
            "n": (16, 64, 256, 512),
            "architectures": (VANILLA, WITH_A, MLP, MLP_XX),
            "seeds": 3,
            "setting": "small",
            "loss": 0.1,
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
