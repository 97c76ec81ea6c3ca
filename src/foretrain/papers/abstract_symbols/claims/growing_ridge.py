"""Lemmas D.1 and D.6: what a ridge that grows with n does to the estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from foretrain.core.looping import over
from foretrain.core.streams import seed_list, stream
from foretrain.core.trajectory import trajectory
from foretrain.kernels.architectures import MLP, MLP_XX, TRANSFORMER, TRANSFORMER_AI
from foretrain.kernels.regression import measured_errors, ridge_coefficients, sample_targets, targets, unseen_strings
from foretrain.kernels.template_matrix import TemplateMatrix
from foretrain.ledger.claim import Claim, Control, Erratum
from foretrain.ledger.comparators import bounded
from foretrain.papers.abstract_symbols.claims.generalisation import DELTA, matrix_of, noisy_task
from foretrain.papers.abstract_symbols.setting import KernelSetting
from foretrain.papers.abstract_symbols.theory import generalisation as theory


def _proportional(ratios: Sequence[float], samples: Sequence[int], noise: float, printed: bool = False) -> xr.Dataset:
    """Where f̂ lies on each template if λ = ratio·n: a centre, and a band of C(√(log(1/δ)/n) + √(1/ρ)) around it.

    The printed lemma centres the band at f*; ρ = n/w. C is twice the smallest that covers f* ± its bias at the first n.
    """
    matrix = matrix_of(MLP_XX, noise)
    labels, weights = targets(matrix.task)[:, 0], np.asarray(matrix.task.weights)
    limits = np.array([theory.proportional_ridge_limit(matrix.N, weights, labels, ratio) for ratio in ratios])
    centre = np.broadcast_to(labels, limits.shape) if printed else limits
    rate = theory.error_rate(np.asarray(samples), np.asarray(samples) / matrix.task.wildcard_count, DELTA)
    constant = 2 * abs(limits - labels).max(axis=1) / rate[0]
    band = constant[:, None] * rate
    dims = ("ratio", "n", "template")
    return trajectory(
        {"low": (dims, centre[:, None, :] - band[..., None]), "high": (dims, centre[:, None, :] + band[..., None])},
        {"ratio": list(ratios), "n": list(samples), "template": [str(t) for t in matrix.task.templates]},
    )


def _proportional_measured(
    ratios: Sequence[float], samples: Sequence[int], noise: float, seeds: int, fixed_ridge: float | None = None
) -> xr.Dataset:
    """f̂ on unseen strings, n tokens for n samples, λ = ratio·n; `fixed_ridge` is one λ for all n (control)."""
    task, kernel = noisy_task(noise), KernelSetting(MLP_XX).kernel
    parts = []
    for ratio in ratios:
        ridge = (lambda n, _, ratio=ratio: ratio * n) if fixed_ridge is None else fixed_ridge
        measured = measured_errors(task, kernel, samples=samples, ridge=ridge, seeds=seeds)
        parts.append(measured.error.isel(output=0, drop=True) + xr.DataArray(targets(task)[:, 0], dims="template"))
    estimate = xr.concat(parts, xr.Variable("ratio", list(ratios)))
    return xr.Dataset({"estimate": estimate})


lemmaD1 = Claim(
    id="abstract_symbols/lemmaD1",
    source="Lemma D.1, Claim D.4",
    whose="the paper's statement",
    says="With λ = c'n the estimator is within C√(log(1/δ)/n) + C√(1/ρ) of N(N + c'·diag(1/μ))⁻¹f*, which is not f*.",
    predict=_proportional,
    observe=_proportional_measured,
    compare=bounded("estimate", low="low", high="high"),
    settings={
        "fast": {"ratios": (0.05, 0.2), "samples": (64, 1024), "noise": 0.2, "seeds": 3},
        "full": {"ratios": (0.02, 0.05, 0.2), "samples": (64, 256, 1024, 4000), "noise": 0.2, "seeds": 10},
    },
    control=Control(
        "λ stays at 0.01 while n grows: the estimator goes to f* and leaves the shrunken limit", {"fixed_ridge": 0.01}
    ),
    erratum=Erratum(
        changes={"printed": True},
        prints="For every λ between c'n and C'n the estimator's error is at most C√(log(1/δ)/n) + C√(1/ρ).",
        says="A λ that grows with n shrinks the estimator for ever. For same/different and MLP + XXᵀ it tends to .42 "
        "instead of 1 at λ = .05n, and to .15 at λ = .2n. The proof of Claim D.4 multiplies ‖1/|ℐ_a| − w‖ = O(1/√n) "
        "by nothing where ‖y‖ = Θ(√n) belongs.",
        formulas=(
            r"\lambda \in [c'n, C'n]: \quad |\hat f - f_*| \le C\sqrt{\tfrac{\log(1/\delta)}{n}} + C\sqrt{\tfrac1\rho}",
            r"\lambda = c'n: \quad \hat f \to N\left(N + c'\,\mathrm{diag}(1/\mu)\right)^{-1} f_*",
        ),
        consequence="Regularise with a λ that does not grow with n, as in Theorem 3.4 and Lemma C.3: that does "
        "generalise. (λ here belongs to the sum over samples; a fixed weight decay on their mean is a λ that grows "
        "with n.)",
        headline=True,
    ),
)


def _apart_bounds(
    architectures: Sequence[str], samples: Sequence[int], shares: Sequence[float], noise: float, printed: bool = False
) -> xr.Dataset:
    """Bounds on the error when no two samples share a token, at λ = share·n/‖N⁻¹‖, or λ = .01 if the share is 0.

    With probability 1 − e^{−cn} each template has at least nμ/2 samples, so the bound is taken there.
    """
    if printed:
        return _apart_printed(architectures, samples, shares, noise)

    def bound(architecture: str, n: int, scaled_ridge: float) -> dict[str, float]:
        matrix = matrix_of(architecture, noise)
        counts, labels = n * np.asarray(matrix.task.weights) / 2, targets(matrix.task)[:, 0]
        shift = _ridge(matrix, n, scaled_ridge) + matrix.own - np.diag(matrix.N)
        bounds = theory.disjoint_error_bound(matrix.N, counts, labels, shift, noise=noise, delta=DELTA)
        return {"bound": bounds.max()}

    return over(bound, {"architecture": architectures, "n": samples, "scaled_ridge": shares}, {})


def _apart_printed(
    architectures: Sequence[str], samples: Sequence[int], shares: Sequence[float], noise: float
) -> xr.Dataset:
    """C(√(log(1/δ)/n) + ‖N⁻¹‖/n) at every λ, with C large enough to cover the corrected bound at λ = .01."""
    inverse = np.array([[matrix_of(name, noise).inverse_norm] for name in architectures])
    rate = theory.inverse_norm_rate(np.asarray(samples), inverse, DELTA)
    fixed_ridge = _apart_bounds(architectures, samples, (0.0,), noise).bound.values[..., 0]
    bound = (fixed_ridge / rate).max() * rate
    return trajectory(
        {"bound": (("architecture", "n", "scaled_ridge"), np.repeat(bound[..., None], len(shares), axis=2))},
        {"architecture": list(architectures), "n": list(samples), "scaled_ridge": list(shares)},
    )


def _ridge(matrix: TemplateMatrix, n: int, share: float) -> float:
    return share * n / matrix.inverse_norm if share else 0.01


def _apart_measured(
    architectures: Sequence[str],
    samples: Sequence[int],
    shares: Sequence[float],
    noise: float,
    seeds: int,
    replaced_by: str | None = None,
) -> xr.Dataset:
    """Errors of ridge regression if no two samples share a token (ρ = ∞)."""
    task, wanted = noisy_task(noise), targets(noisy_task(noise))

    def errors(architecture: str, n: int, seed: int) -> dict[str, Any]:
        kernel = KernelSetting(replaced_by or architecture).kernel
        train = task.sample_apart(n, stream("lemma D.6", seed, n))
        gram = kernel(train.tokens, train.tokens)
        cross = kernel(unseen_strings(task, n * task.wildcard_count), train.tokens)
        ridges = [_ridge(matrix_of(architecture, noise), n, share) for share in shares]
        fitted = [cross @ ridge_coefficients(gram, sample_targets(train), ridge) for ridge in ridges]
        return {"error": (("scaled_ridge", "template"), abs(np.array(fitted) - wanted)[..., 0])}

    runs = over(errors, {"architecture": architectures, "n": samples, "seed": seed_list(seeds)}, {})
    return runs.assign_coords(scaled_ridge=list(shares))


D6 = Claim(
    id="abstract_symbols/D6",
    source="Lemma D.6",
    whose="the paper's statement",
    says="If ρ = ∞, the error is at most C√(log(1/δ)/n) + C(λ + ‖K‖)‖N⁻¹‖/n, with C independent of the kernel's N.",
    predict=_apart_bounds,
    observe=_apart_measured,
    compare=bounded("error", high="bound"),
    settings={
        "fast": {
            "architectures": (MLP_XX, TRANSFORMER),
            "samples": (64, 512),
            "shares": (0.0, 1.0),
            "noise": 0.2,
            "seeds": 2,
        },
        "full": {
            "architectures": (MLP_XX, TRANSFORMER_AI, TRANSFORMER),
            "samples": (64, 256, 1024, 4000),
            "shares": (0.0, 0.25, 1.0),
            "noise": 0.2,
            "seeds": 10,
        },
    },
    control=Control("a kernel with singular N: an MLP", {"replaced_by": MLP}),
    erratum=Erratum(
        changes={"printed": True},
        prints="If ρ = ∞ and λ lies between c'n/‖N⁻¹‖ and C'n/‖N⁻¹‖, the error is at most C√(log(1/δ)/n) + C‖N⁻¹‖/n, "
        "with C independent of the kernel's N.",
        says="With λ = c'n/‖N⁻¹‖ the directions that N sees least are shrunk by a share that does not fall with n: at "
        "c' = 1 an error of 2/3 stays (same/different, MLP + XXᵀ).",
        formulas=(
            r"\lambda \in \left[\tfrac{c'n}{\|N^{-1}\|}, \tfrac{C'n}{\|N^{-1}\|}\right]: \quad |\hat f - f_*| \le "
            r"C\sqrt{\tfrac{\log(1/\delta)}{n}} + C\,\frac{\|N^{-1}\|}{n}",
            r"|\hat f - f_*| \le C\sqrt{\tfrac{\log(1/\delta)}{n}} + C\,\frac{(\lambda + \|K\|)\,\|N^{-1}\|}{n}",
        ),
        consequence="The printed bound is right for a λ that does not grow with n.",
    ),
)

CLAIMS = [lemmaD1, D6]
