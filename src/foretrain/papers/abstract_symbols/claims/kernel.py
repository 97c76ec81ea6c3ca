"""Section 3.1 and Claim E.2: the kernel as a limit of networks, its scores, a Gaussian integral, and eq. 5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.kernels.activations import Cosine
from foretrain.kernels.attention import attention_matrix
from foretrain.ledger.claim import Claim, Control, Erratum
from foretrain.ledger.comparators import close, converges
from foretrain.ledger.tolerances import EXACT, FLOW, SLOPE
from foretrain.papers.abstract_symbols import theory
from foretrain.papers.abstract_symbols.experiments.kernel import LAYERS, STRINGS, network_kernels
from foretrain.papers.abstract_symbols.tolerances import NETWORK_KERNEL, SAMPLED_KERNEL

OTHER_BETA = 4.0  # of the networks in the control


def _exact_kernel(strings: Sequence[str], beta: float, gamma: float) -> xr.Dataset:
    attention = attention_matrix(strings, strings, beta=beta, gamma=gamma).values
    of_one = np.diag(attention)
    transformer = Cosine().expectation(of_one[:, None], of_one[None, :], attention)
    return trajectory(
        {"kernel": (("layer", "x", "y"), np.stack([attention, transformer]))},
        {"layer": list(LAYERS), "x": list(strings), "y": list(strings)},
    )


def _networks(
    strings: Sequence[str],
    beta: float,
    gamma: float,
    widths: Sequence[int],
    seeds: int,
    network_beta: float | None = None,
) -> xr.Dataset:
    measured = network_kernels(tuple(strings), (beta, OTHER_BETA), gamma, tuple(widths), seeds)
    return measured.sel(beta=beta if network_beta is None else network_beta, drop=True)


kernel = Claim(
    id="abstract_symbols/kernel",
    source="eq. 4, appendix H.1–H.3",
    whose="the paper's statement",
    says="K_attn and K_trans are the limits of a transformer's random features as all its widths grow. (The distance "
    "falls as width^(−1/2).)",
    predict=_exact_kernel,
    observe=_networks,
    compare=converges("kernel", "width", SLOPE, NETWORK_KERNEL),
    settings={
        "fast": {"strings": STRINGS, "beta": 1.5, "gamma": 0.7, "widths": (12, 24, 48, 96), "seeds": 40},
        "full": {"strings": STRINGS, "beta": 1.5, "gamma": 0.7, "widths": (12, 24, 48, 96, 192), "seeds": 100},
        "paper": {"strings": STRINGS, "beta": 1.5, "gamma": 0.7, "widths": (16, 32, 64, 128, 256), "seeds": 200},
    },
    control=Control("the networks' softmax has another temperature than the kernel's", {"network_beta": OTHER_BETA}),
)


def _sampled(strings: Sequence[str], beta: float, gamma: float, log2: int, same_scores: bool = True) -> xr.Dataset:
    """K_attn by sampling, with the same scores ζ for both strings or with independent ones."""
    values = [
        [
            theory.attention_expectation(x, y, beta=beta, gamma=gamma, same_scores=same_scores, log2=log2)
            for y in strings
        ]
        for x in strings
    ]
    return _attention(strings, np.array(values))


def _attention(strings: Sequence[str], values: np.ndarray) -> xr.Dataset:
    return trajectory({"kernel": (("x", "y"), values)}, {"x": list(strings), "y": list(strings)})


def _by_quadrature(strings: Sequence[str], beta: float, gamma: float, other_beta: float | None = None) -> xr.Dataset:
    """Eq. 4 itself, whose covariance XYᵀ + γ²I between m(X) and m(Y) says which scores are shared."""
    beta = beta if other_beta is None else other_beta
    return _attention(strings, attention_matrix(strings, strings, beta=beta, gamma=gamma).values)


kernel_scores = Claim(
    id="abstract_symbols/kernel_scores",
    source="appendix G.1, proof of Lemma G.1",
    whose="a step of the paper's proof",
    says="The logits of eq. 4 are m(X) = Xζ + γp and m(X̃) = X̃ζ + γp, with the same Gaussian ζ.",
    predict=_sampled,
    observe=_by_quadrature,
    compare=close("kernel", SAMPLED_KERNEL, by="with these logits", seen="by eq. 4", relative=False),
    settings={
        "fast": {"strings": STRINGS, "beta": 1.5, "gamma": 0.7, "log2": 14},
        "full": {"strings": STRINGS, "beta": 1.5, "gamma": 0.7, "log2": 18},
    },
    control=Control("eq. 4 at another temperature", {"other_beta": OTHER_BETA}),
    erratum=Erratum(
        changes={"same_scores": False},
        prints="The logits of eq. 4 are m(X) = Xζ + γp and m(X̃) = X̃ζ̃ + γp with independent Gaussians ζ and ζ̃.",
        says="Eq. 4 gives m(X) and m(X̃) the covariance XX̃ᵀ + γ²I; with independent ζ and ζ̃ it would be γ²I. At β = "
        "1.5 and γ = .7, K_attn(AB*, AB*) is .929 by eq. 4, which networks of finite width approach, and .618 with "
        "independent scores.",
        formulas=(
            r"m(\tilde X) = \tilde X \tilde\zeta + \gamma p, \quad \tilde\zeta \text{ independent of } \zeta",
            r"m(\tilde X) = \tilde X \zeta + \gamma p",
        ),
        consequence="Appendix G bounds the derivatives of another function than eq. 4's. Its bounds hold for both.",
    ),
)


def _closed_cosine(cases: int) -> xr.Dataset:
    arguments = _cosine_cases(cases)
    a, b, rho, k, c = arguments
    return _expectation(theory.cosine_expectation(a, b, rho, k=k, c=c))


def _integrated_cosine(cases: int, sign: float = 1.0) -> xr.Dataset:
    """Gauss–Hermite over U = √a·s, V = ρ/√a·s + √(b − ρ²/a)·t; `sign` = −1 flips the correlation."""
    a, b, rho, k, c = (v[:, None, None] for v in _cosine_cases(cases))
    rho = sign * rho
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    s, t = nodes[None, :, None], nodes[None, None, :]
    product = np.cos(k * np.sqrt(a) * s + c) * np.cos(k * (rho / np.sqrt(a) * s + np.sqrt(b - rho**2 / a) * t) + c)
    weights = weights / weights.sum()
    return _expectation(np.einsum("nst,s,t->n", product, weights, weights))


def _expectation(values: np.ndarray) -> xr.Dataset:
    return trajectory({"expectation": ("case", values)})


def _cosine_cases(cases: int) -> tuple[np.ndarray, ...]:
    """Variances up to 2, any correlation, k up to 1.5, any phase; every third case has c = π/4, as in Lemma E.1."""
    draw = np.random.default_rng(5)
    a, b = draw.uniform(0.1, 2.0, size=(2, cases))
    rho = np.sqrt(a * b) * draw.uniform(-0.99, 0.99, size=cases)
    c = np.where(np.arange(cases) % 3 == 0, np.pi / 4, draw.uniform(0, 2 * np.pi, size=cases))
    return a, b, rho, draw.uniform(0.2, 1.5, size=cases), c


claimE2 = Claim(
    id="abstract_symbols/claimE2",
    source="Claim E.2",
    whose="the paper's statement",
    says="E[cos(kU + c)cos(kV + c)] = ½e^{−k²(a+b)/2}(e^{−k²ρ}cos 2c + e^{k²ρ}).",
    predict=_closed_cosine,
    observe=_integrated_cosine,
    compare=close("expectation", EXACT, relative=False, by="by formula", seen="by quadrature"),
    settings={"fast": {"cases": 60}, "full": {"cases": 600}},
    control=Control("the integral has the opposite correlation", {"sign": -1.0}),
)


def _last_layer(**arguments: Any) -> xr.Dataset:
    from foretrain.papers.abstract_symbols.experiments.last_layer import EXPERIMENTS  # torch is slow to load

    return EXPERIMENTS[0].run(**arguments)


def _eq_5(samples: int, width: int, ridge: float, time: float, seeds: int) -> xr.Dataset:
    run = _last_layer(samples=samples, width=width, ridge=ridge, time=time, seeds=seeds)
    return xr.Dataset({"output": run.eq5})


def _descended(
    samples: int, width: int, ridge: float, time: float, seeds: int, decay: float | None = None
) -> xr.Dataset:
    """The outputs after training; `decay` is another weight decay than λ, for the control."""
    run = _last_layer(samples=samples, width=width, ridge=ridge, time=time, seeds=seeds, decay=decay)
    return xr.Dataset({"output": run.output.isel(time=-1, drop=True)})


proposition3_1 = Claim(
    id="abstract_symbols/proposition3_1",
    source="Proposition 3.1, eq. 5",
    whose="the paper's statement",
    says=(
        "A transformer whose last layer is trained by gradient flow on the squared loss with weight decay λ converges "
        "to kernel ridge regression: f̂(x) = yᵀ(K̂ + λI)⁻¹k(x), on unseen strings too. (Trained by gradient descent "
        "for a time of 25/λ; λ belongs to the sum over samples, not to their mean.)"
    ),
    predict=_eq_5,
    observe=_descended,
    compare=close("output", FLOW, by="by eq. 5", seen="after training"),
    settings={
        "fast": {"samples": 16, "width": 16, "ridge": 2.0, "time": 25.0, "seeds": 3},
        "full": {"samples": 60, "width": 64, "ridge": 2.0, "time": 25.0, "seeds": 10},
    },
    control=Control("training without weight decay", {"decay": 0.0}),
)

CLAIMS = [kernel, kernel_scores, claimE2, proposition3_1]
