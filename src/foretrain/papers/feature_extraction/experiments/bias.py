"""The bias in closed form: how strongly all tokens move together, against how strongly each moves by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
import xarray as xr
from pydantic import Field

from foretrain.core.trajectory import trajectory
from foretrain.kernels.tangent import Scales, mlp_kernel
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Positive, about

Activation = Literal["relu", "gelu", "silu", "tanh", "linear"]
NOT_EMPTY = Field(min_length=1)


def bias_share(
    sigmas: Annotated[Sequence[Positive], NOT_EMPTY, about("Standard deviations of the initial weights.")] = (
        0.01,
        0.03,
        0.1,
        0.2,
        0.3,
        0.45,
        0.6,
        0.8,
        1.0,
        1.4,
        2.0,
        3.0,
    ),
    activations: Annotated[Sequence[Activation], NOT_EMPTY, about("Activations of the MLP.")] = (
        "relu",
        "gelu",
        "silu",
        "tanh",
    ),
) -> xr.Dataset:
    """β/ρ in closed form: against the size of all initial weights, and against that of the readout alone."""
    ratios = np.zeros((2, len(activations), len(sigmas)))
    for i, activation in enumerate(activations):
        for j, sigma in enumerate(sigmas):
            for k, scales in enumerate((Scales(sigma, sigma, sigma), Scales(1.0, 1.0, sigma))):
                kernel = mlp_kernel(activation, scales)
                ratios[k, i, j] = kernel.shared / kernel.own
    return trajectory(
        {"share": (("varied", "activation", "sigma"), ratios)},
        {"varied": ["all weights", "readout only"], "activation": list(activations), "sigma": list(sigmas)},
    )


EXPERIMENTS = [
    Experiment(
        "feature_extraction/bias_share",
        "β/ρ against the size of the initial weights",
        bias_share,
        batched={"sigmas": "sigma"},
        settings={"fast": {"sigmas": (0.1, 1.0)}, "full": {}},
    ),
]
