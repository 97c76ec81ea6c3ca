"""Theorem 3 in training: where v goes on a mixture of two isotropic components, with uniform attention.

Under Assumption 1 and a homogeneous φ the flow of θ = (v, ξ) is the gradient of L(θ) = E[g·h], which has degree 1. So
d(½‖θ‖²)/dt = L by Euler's theorem, and L never falls: θ can only stop where L = 0.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from foretrain.core.errors import require_known
from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory

LOSSES = ("fixed", "squared")


def train_on_mixture(
    loss: str = "fixed",
    problems: int = 40,
    samples: int = 200,
    dimension: int = 3,
    distance: float = 2.0,
    steps: int = 4000,
    rate: float = 0.02,
) -> xr.Dataset:
    """Theorem 3 in training: gradient descent of one ReLU node on samples of two Gaussian components.

    "fixed": g is 1 in the component about x̄₊ and −a₋/a₊ in the one about 0, as Lemma 2 has it; the ratio goes from .4
    to 3 over the problems. "squared": g = y − h with y = 1 and 0. `size` is ‖(v, ξ)‖ at the start, half way and at the
    end, `growth` its last value over that half way, and `alive` whether the node is active in any sample at the end.
    """
    require_known("loss", loss, LOSSES)
    draw = stream("joma/mixture", problems, samples, dimension)
    plus = np.arange(samples) < samples // 2
    mean = draw.standard_normal((problems, 1, dimension))
    mean *= distance / np.linalg.norm(mean, axis=-1, keepdims=True)
    x = draw.standard_normal((problems, samples, dimension)) + plus[:, None] * mean
    f = np.concatenate([x, np.ones((problems, samples, 1))], axis=-1)  # the 1 stands for the query: its weight is ξ
    theta = 0.5 * draw.standard_normal((problems, dimension + 1))
    constant = np.where(plus, 1.0, -np.linspace(0.4, 3.0, problems)[:, None])
    sizes = [np.linalg.norm(theta, axis=1)]
    for step in range(1, steps + 1):
        h = np.maximum(np.einsum("pid,pd->pi", f, theta), 0)
        g = constant if loss == "fixed" else plus - h
        theta = theta + rate * np.einsum("pi,pid->pd", g * (h > 0), f) / samples
        if step in (steps // 2, steps):
            sizes.append(np.linalg.norm(theta, axis=1))
    alive = (np.einsum("pid,pd->pi", f, theta) > 0).any(axis=1)
    return trajectory(
        {
            "size": (("time", "problem"), np.array(sizes)),
            "growth": ("problem", sizes[-1] / sizes[1]),
            "alive": ("problem", alive),
        },
        {"time": [0, steps // 2, steps]},
        units={"time": "steps"},
    )
