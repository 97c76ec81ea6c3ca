"""The settings of the paper's experiments, and the numbers published for them in its result files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from foretrain.core.trajectory import trajectory


@dataclass(frozen=True)
class Training:
    """How Syn-Small and Syn-Medium are trained (section 8)."""

    batch: int = 128
    length: int = 128  # T: the query and 127 context tokens
    steps: int = 100
    momentum: float = 0.9


@dataclass(frozen=True)
class Transition:
    """The setting of Fig 3 and Fig 9."""

    classes: int = 10  # K
    vocab: int = 1000  # M
    eta_z: float = 0.5
    common: float = 0.2  # P(common token | class): the paper gives no data, from which C0 = ρ0⁴/K follows


TRAINING, TRANSITION = Training(), Transition()

QUERIES, ETA_Z, RATIO = (1, 3, 5, 10), (0.5, 1.0, 2.0, 3.0), (1.0, 2.0, 5.0, 10.0)  # the grid of Fig 6

# Fig 6: mean and standard deviation over 10 seeds of the entropy, by (queries, η_Z), at η_Y/η_Z = 1, 2, 5, 10.
_FIG6 = {
    (1, 0.5): ((1.971, 2.007, 2.066, 2.092), (0.028, 0.032, 0.017, 0.016)),
    (1, 1.0): ((1.871, 1.937, 2.022, 2.053), (0.052, 0.052, 0.036, 0.030)),
    (1, 3.0): ((1.551, 1.708, 1.786, 1.825), (0.155, 0.152, 0.170, 0.331)),
    (3, 0.5): ((2.019, 1.988, 2.031, 2.063), (0.010, 0.012, 0.007, 0.005)),
    (3, 2.0): ((1.842, 1.809, 1.899, 1.955), (0.024, 0.027, 0.018, 0.020)),
    (5, 1.0): ((1.995, 1.931, 1.971, 2.014), (0.007, 0.011, 0.010, 0.009)),
    (5, 3.0): ((1.817, 1.718, 1.802, 1.831), (0.021, 0.032, 0.033, 0.050)),
    (10, 0.5): ((2.033, 2.012, 2.018, 2.051), (0.004, 0.004, 0.004, 0.003)),
    (10, 2.0): ((1.990, 1.888, 1.899, 1.947), (0.005, 0.009, 0.013, 0.015)),
}
PUBLISHED_SEEDS = 10

# Fig 4: one run each, by η_Y and class: attention on all distinct tokens, on the top one, and entropy.
_FIG4 = {1.0: ((0.641, 0.2015, 1.906), (0.584, 0.1577, 1.976)), 10.0: ((0.433, 0.094, 2.094), (0.452, 0.097, 2.087))}


def published_fig6() -> xr.Dataset:
    """Fig 6 as published; cells for which no number is published are nan."""
    axes = ("queries", "eta_z", "ratio")
    table = np.full((2, len(QUERIES), len(ETA_Z), len(RATIO)), np.nan)
    for (queries, eta_z), cells in _FIG6.items():
        table[:, QUERIES.index(queries), ETA_Z.index(eta_z)] = cells
    return trajectory(
        {"entropy": (axes, table[0]), "entropy_std": (axes, table[1]), "entropy_seeds": PUBLISHED_SEEDS},
        dict(zip(axes, map(list, (QUERIES, ETA_Z, RATIO)), strict=True)),
    )


def published_fig4() -> xr.Dataset:
    """Fig 4 as published: the values at the end of training."""
    table = np.array(list(_FIG4.values()))
    names = ("mass", "top", "entropy")
    return trajectory(
        {name: (("eta_y", "class"), table[..., i]) for i, name in enumerate(names)},
        {"eta_y": list(_FIG4), "class": [1, 2]},
    )
