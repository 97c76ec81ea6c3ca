"""The exact kernel: how networks approach it, how far its Taylor polynomials reach, how well it conditions a task."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated

import numpy as np
import xarray as xr
from pydantic import Field

from foretrain.core.errors import require
from foretrain.core.streams import seed_list, torch_stream
from foretrain.core.trajectory import trajectory
from foretrain.data.template_examples import same_different
from foretrain.kernels.activations import Cosine
from foretrain.kernels.attention import attention_kernel, attention_matrix
from foretrain.kernels.template_matrix import template_matrix
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import WholeNumber, about
from foretrain.papers.abstract_symbols import theory
from foretrain.papers.abstract_symbols.experiments.parameters import NOT_EMPTY, Beta, Gamma, NetworkSeeds, NetworkWidth
from foretrain.papers.abstract_symbols.setting import KernelSetting

LAYERS = ("attention", "transformer")
STRINGS = ("AB*", "BA*", "AA*", "CD*")
Text = Annotated[str, Field(min_length=1)]


@lru_cache(maxsize=4)
def network_kernels(
    strings: tuple[str, ...],
    betas: tuple[float, ...],
    gamma: float,
    widths: tuple[int, ...],
    seeds: int | tuple[int, ...],
) -> xr.Dataset:
    """K̂_attn and K̂_trans of networks of finite width (appendix H.1), whose four widths are equal.

    Every β uses the same networks, because drawing their weights takes longest.
    """
    import torch  # slow to load, and the closed forms do not need it

    from foretrain.models.finite_transformer import FiniteTransformer, Widths

    tokens = sorted({t for s in strings for t in s})
    codes = torch.tensor([[tokens.index(t) for t in s] for s in strings])
    numbers = seed_list(seeds)
    values = np.zeros((len(betas), len(widths), len(numbers), 2, len(strings), len(strings)))
    for (i, width), (j, seed) in itertools.product(enumerate(widths), enumerate(numbers)):
        generator = torch_stream("abstract_symbols/kernel", width, seed)
        net = FiniteTransformer(
            len(tokens), codes.shape[1], Widths.all(width), beta=betas[0], gamma=gamma, generator=generator
        )
        for b, net.beta in enumerate(betas):
            values[b, i, j] = [kernel.numpy() for kernel in net.kernels(codes)]
    return trajectory(
        {"kernel": (("beta", "width", "seed", "layer", "x", "y"), values)},
        {
            "beta": list(betas),
            "width": list(widths),
            "seed": numbers,
            "layer": list(LAYERS),
            "x": list(strings),
            "y": list(strings),
        },
    )


@lru_cache(maxsize=4)
def independent_scores(strings: tuple[str, ...], beta: float, gamma: float) -> np.ndarray:
    """K_attn where the scores ζ of one string are independent of the other's ζ̃, as appendix G.1 writes it."""
    values = np.array(
        [
            [theory.attention_expectation(x, y, beta=beta, gamma=gamma, same_scores=False, log2=13) for y in strings]
            for x in strings
        ]
    )
    return (values + values.T) / 2


def kernel_width(
    width: NetworkWidth = 256,
    strings: Annotated[
        Sequence[Text], NOT_EMPTY, about("Strings of equal length, one letter for each token.")
    ] = STRINGS,
    beta: Beta = 1.5,
    gamma: Gamma = 0.7,
    seeds: NetworkSeeds = 40,
) -> xr.Dataset:
    """Distance of random features from the kernel with the same scores (eq. 4) and with independent ones (G.1)."""
    features = network_kernels(tuple(strings), (beta,), gamma, (width,), seeds).kernel.isel(beta=0, width=0).values
    kernels = {
        "same": attention_matrix(strings, strings, beta=beta, gamma=gamma).values,
        "independent": independent_scores(tuple(strings), beta, gamma),
    }
    distances = []
    for attention in kernels.values():
        variances = np.diag(attention)
        limit = np.stack([attention, Cosine().expectation(variances[:, None], variances[None, :], attention)])
        square = ((features - limit) ** 2).sum(axis=(2, 3)).mean(axis=0)
        distances.append(np.sqrt(square / (limit**2).sum(axis=(1, 2))))
    return xr.Dataset(
        {"distance": (("layer", "scores"), np.stack(distances, axis=1), {"units": "of the kernel matrix's norm"})},
        {"layer": list(LAYERS), "scores": list(kernels)},
    )


def kernel_taylor(
    beta: Beta = 1.0,
    orders: Annotated[Sequence[WholeNumber], NOT_EMPTY, about("Orders in β of the Taylor polynomials.")] = (2, 4, 6),
    x: Annotated[Text, about("The first string, one letter for each token.")] = "AAB*",
    y: Annotated[Text, about("The second string, of the same length.")] = "CAC*",
    gamma: Gamma = 0.7,
) -> xr.Dataset:
    """Lemma G.1: K_attn and its Taylor polynomials in β at 0, from the exact derivatives of appendix F."""
    require(len(x) == len(y), f"x and y must have the same length; got {len(x)} and {len(y)} tokens.")
    terms = {
        (i, j): float(theory.derivative_value(i, j, x, y)) / (math.factorial(i) * math.factorial(j))
        for i in range(0, max(orders) + 1, 2)
        for j in range(0, max(orders) + 3, 2)
    }
    polynomials = [sum(c * beta**i * gamma**j for (i, j), c in terms.items() if i <= order) for order in orders]
    exact = attention_kernel(x, y, beta=beta, gamma=gamma, tolerance=1e-11)
    return xr.Dataset({"exact": exact, "taylor": ("order", polynomials)}, {"order": list(orders)})


def conditioning(beta: Beta = 1.0, gamma: Gamma = 1.0) -> dict[str, float]:
    """Lemma 3.6: the condition number of N_trans for same/different; nonsingular N has a finite one."""
    matrix = template_matrix(same_different().with_cls(), KernelSetting(beta=beta, gamma=gamma).kernel)
    return {"condition": matrix.condition}


EXPERIMENTS = [
    Experiment(
        "abstract_symbols/kernel_width",
        "Distance of finite transformers from the kernel against width",
        kernel_width,
        {"width": (16, 32, 64, 128, 256)},
        settings={"fast": {"width": (8, 16, 32), "seeds": 10}, "full": {}},
    ),
    Experiment(
        "abstract_symbols/kernel_taylor",
        "The kernel against β and its Taylor polynomials at 0, which do not converge",
        kernel_taylor,
        {"beta": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0)},
        settings={"fast": {"beta": (0.25, 0.5, 1.0), "orders": (2, 4)}, "full": {}},
    ),
    Experiment(
        "abstract_symbols/conditioning",
        "Condition number of the template matrix of same/different over β and γ",
        conditioning,
        {"beta": (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0), "gamma": (0.0, 0.5, 1.0, 2.0, 4.0)},
        settings={"fast": {"beta": (1.0, 2.0), "gamma": (0.5, 1.0)}, "full": {}},
    ),
]
