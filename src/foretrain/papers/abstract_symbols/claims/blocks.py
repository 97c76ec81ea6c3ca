"""Fig 4: the kernel matrix takes the block structure of N."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import xarray as xr

from foretrain.core.streams import seed_list
from foretrain.core.trajectory import trajectory
from foretrain.kernels.architectures import MLP, TRANSFORMER
from foretrain.kernels.template_matrix import template_matrix
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import bounded, every, ranked
from foretrain.papers.abstract_symbols.experiments import tasks
from foretrain.papers.abstract_symbols.setting import KernelSetting
from foretrain.papers.abstract_symbols.theory import generalisation as theory


def _sine_bounds(samples: Sequence[int], per_sample: float, seeds: int) -> xr.Dataset:
    """Davis and Kahan: sin θ ≤ 2‖K̂ − K̂₀‖/gap, where the top of K̂₀ = K̂_ideal + diag(K(x,x) − N) is the "
    "indicators."""
    kernel, listed = KernelSetting(TRANSFORMER).kernel, seed_list(seeds)
    bounds = []
    for n, seed in itertools.product(samples, listed):
        train = tasks.block_sample("same_different", n, per_sample, seed)
        matrix = template_matrix(train.task, kernel, accuracy=tasks.KERNEL_ACCURACY)
        extra = matrix.own - np.diag(matrix.N)
        blocks = matrix.N[np.ix_(train.template, train.template)] + np.diag(extra[train.template])
        root = np.sqrt(np.bincount(train.template, minlength=len(matrix.N)))
        gap = np.linalg.eigvalsh(root[:, None] * matrix.N * root + np.diag(extra))[0] - extra.max()
        moved = theory.spectral_norm(kernel(train.tokens, train.tokens) - blocks)
        bounds.append(min(1.0, 2 * moved / gap) if gap > 0 else 1.0)
    return trajectory(
        {"bound": (("n", "seed"), np.reshape(bounds, (len(samples), len(listed))))},
        {"n": list(samples), "seed": listed},
    )


def _sines(samples: Sequence[int], per_sample: float, seeds: int, architecture: str = TRANSFORMER) -> xr.Dataset:
    """Sine of the largest principal angle between the top eigenspace of K̂ and the template indicators."""
    angle = tasks.fig4(samples, per_sample, architecture, seeds=seeds).angle
    return xr.Dataset({"angle": angle, "sine": np.sin(np.radians(angle))})


fig4 = Claim(
    id="abstract_symbols/fig4",
    source="Fig 4",
    whose="the paper's statement",
    says=(
        "As n and ρ grow, K̂ takes the block structure of N, and its top eigenspace turns towards the span of the "
        "templates' indicators. (At least as fast as Davis and Kahan's theorem promises for the blocks.)"
    ),
    predict=_sine_bounds,
    observe=_sines,
    compare=every(bounded("sine", high="bound"), ranked("angle", "n", rising=False)),
    settings={
        "fast": {"samples": (128, 512, 1024), "per_sample": 16.0, "seeds": 1},
        "full": {"samples": (128, 256, 512, 1024, 2048), "per_sample": 16.0, "seeds": 10},
    },
    control=Control("the kernel of an MLP, which sees no template", {"architecture": MLP}),
)

CLAIMS = [fig4]
