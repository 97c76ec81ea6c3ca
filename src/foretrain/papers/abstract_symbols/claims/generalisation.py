"""Theorem 3.4 and Lemma C.3: kernel ridge regression generalises to unseen symbols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from foretrain.core.trajectory import trajectory
from foretrain.data.template_examples import same_different
from foretrain.data.template_task import TemplateTask
from foretrain.kernels.architectures import MLP, MLP_XX, TRANSFORMER, TRANSFORMER_AI
from foretrain.kernels.regression import measured_errors, targets
from foretrain.kernels.template_matrix import TemplateMatrix, template_matrix
from foretrain.ledger.claim import Assumption, Claim, Control
from foretrain.ledger.comparators import covered, every, ranked
from foretrain.papers.abstract_symbols.experiments.tasks import KERNEL_ACCURACY
from foretrain.papers.abstract_symbols.setting import KernelSetting
from foretrain.papers.abstract_symbols.theory import generalisation as theory

Array = NDArray[np.float64]
DELTA = 0.05  # δ of the theorem: the share of draws in which its bound may fail, 1 in 20
Kernel = tuple[str, float, float]  # architecture, β and γ
# β = γ = 4 conditions N well; β = γ = 1 is what forecasts use.
CONSTANTS: tuple[Kernel, ...] = ((TRANSFORMER, 4.0, 4.0), (TRANSFORMER, 1.0, 1.0), (TRANSFORMER, 2.0, 0.5))
REGRESSION = {"ridge": 0.01, "noise": 0.2}


def noisy_task(noise: float) -> TemplateTask:
    """Same/different, with label noise and [CLS]."""
    return replace(same_different(), noise=noise).with_cls()


def matrix_of(architecture: str, noise: float, beta: float = 4.0, gamma: float = 4.0) -> TemplateMatrix:
    """N of same/different for one architecture."""
    kernel = KernelSetting(architecture, beta=beta, gamma=gamma).kernel
    return template_matrix(noisy_task(noise), kernel, accuracy=KERNEL_ACCURACY)


def kernel_name(kernel: Kernel) -> str:
    """An architecture with its constants, if it has any."""
    architecture, beta, gamma = kernel
    return architecture if architecture in (MLP, MLP_XX) else f"{architecture}, β = {beta:g}, γ = {gamma:g}"


def _constant(matrix: TemplateMatrix, n: int, ridge: float) -> float:
    """The C of Theorem 3.4: the corrected bound of Lemma D.6 at n samples, over √(log(1/δ)/n).

    That bound falls like 1/n and 1/√n, so C·√(log(1/δ)/n) stays above it for all larger n.
    """
    weights = np.asarray(matrix.task.weights)
    bound = theory.disjoint_error_bound(
        matrix.N,
        n * weights,
        targets(matrix.task)[:, 0],
        ridge + matrix.own - np.diag(matrix.N),
        noise=matrix.task.noise,
        delta=DELTA,
    )
    return float(bound.max() / theory.error_rate(n, np.inf, DELTA))


def _probability(samples: Sequence[int]) -> xr.Dataset:
    """The theorem's 1 − δ − e^{−cn}, at its smallest n, with c = μ/8 from Chernoff for two equal templates."""
    return trajectory({"probability": 1 - DELTA - 2 * float(np.exp(-min(samples) / 16))})


def _within_bound(
    kernels: Sequence[Kernel],
    samples: Sequence[int],
    alphabets: Sequence[int],
    ridge: float,
    noise: float,
    seeds: int,
    replaced_by: str | None = None,
) -> xr.Dataset:
    """Errors on unseen symbols, and whether each is within C(√(log(1/δ)/n) + √(1/ρ)).

    C is that of the kernel; `replaced_by` measures another architecture instead, for the control.
    """
    parts = []
    for name, beta, gamma in kernels:
        measured = measured_errors(
            noisy_task(noise),
            KernelSetting(replaced_by or name, beta=beta, gamma=gamma).kernel,
            samples=samples,
            alphabets=alphabets,
            ridge=ridge,
            seeds=seeds,
        )
        constant = _constant(matrix_of(name, noise, beta, gamma), min(samples), ridge)
        rate = theory.error_rate(measured.n.values[:, None], measured.diversity.values, DELTA)
        error = abs(measured.error).isel(output=0, drop=True)
        bound = xr.DataArray(constant * rate, dims=("n", "alphabet"))
        parts.append(xr.Dataset({"error": error, "bound": bound, "within": error <= bound}))
    joined = xr.concat(parts, xr.Variable("kernel", [kernel_name(kernel) for kernel in kernels]))
    joined["largest_error"] = joined.error.max("template").mean(("alphabet", "kernel"))
    return joined


COMPARE = every(covered("within", "probability"), ranked("largest_error", "n", rising=False))

theorem3_4 = Claim(
    id="abstract_symbols/theorem3_4",
    source="Theorem 3.4",
    whose="the paper's statement",
    says=(
        "With probability 1 − δ − e^{−cn}, ridge regression with the transformer's kernel and a fixed λ has an error "
        "of at most C√(log(1/δ)/n) + C√(1/ρ) on strings of unseen symbols. (The theorem does not give C. Ours is that "
        "of Lemma D.6, corrected, at the smallest n, for three choices of β and γ. It is loose: to guess 0 errs by 1, "
        "and the bound is above 1 in places.)"
    ),
    predict=_probability,
    observe=_within_bound,
    compare=COMPARE,
    settings={
        "fast": {"kernels": CONSTANTS[:2], "samples": (256, 1024), "alphabets": (512, 8192), **REGRESSION, "seeds": 3},
        "full": {
            "kernels": CONSTANTS,
            "samples": (256, 512, 1024, 2048),
            "alphabets": (128, 512, 2048, 8192),
            **REGRESSION,
            "seeds": 10,
        },
    },
    control=Control("the kernel of an MLP, whose N is singular", {"replaced_by": MLP}),
)


def _nonsingular(kernels: Sequence[Kernel], noise: float) -> tuple[bool, str]:
    norms = [matrix_of(name, noise, beta, gamma).inverse_norm for name, beta, gamma in kernels]
    words = ", ".join(f"‖N⁻¹‖ = {norm:.3g} ({kernel_name(k)})" for norm, k in zip(norms, kernels, strict=True))
    return bool(np.isfinite(norms).all()), words


OTHERS: tuple[Kernel, ...] = ((MLP_XX, 4.0, 4.0), (TRANSFORMER_AI, 4.0, 4.0))

lemmaC3 = Claim(
    id="abstract_symbols/lemmaC3",
    source="Lemma C.3 (Lemma 3.5)",
    whose="the paper's statement",
    says="The same holds for every token-symmetric kernel whose N is nonsingular: an MLP that is given XXᵀ, and two "
    "transformer layers with a·XXᵀ in the attention logits.",
    predict=_probability,
    observe=_within_bound,
    compare=COMPARE,
    assumes=(Assumption("N is nonsingular", _nonsingular),),
    settings={
        "fast": {"kernels": OTHERS, "samples": (256, 1024), "alphabets": (2048, 8192), **REGRESSION, "seeds": 4},
        "full": {
            "kernels": (*OTHERS, CONSTANTS[0]),
            "samples": (256, 512, 1024),
            "alphabets": (512, 2048, 8192),
            **REGRESSION,
            "seeds": 20,
        },
    },
    control=Control("a token-symmetric kernel with singular N: an MLP", {"replaced_by": MLP}),
)

CLAIMS = [theorem3_4, lemmaC3]
