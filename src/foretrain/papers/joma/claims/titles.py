"""What readers call the quantities of JoMA's claims: the titles on the axes of their figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import wraps
from typing import Any

import xarray as xr

from foretrain.ledger.claim import Claim

TITLES = {
    # axes
    "time": "time t",
    "rate": "step of gradient descent",
    "epsilon": "largest inner product ε of two embeddings",
    "share": "time as a share of the blow-up time",
    "norm": "length ‖v‖",
    "r": "distance r to the hyperplane",
    "y": "y = θ₁(r)",
    "angle": "sum of the three angles A + B + C (degrees)",
    "rho": "correlation ρ with the parent",
    "ancestor": "layer of the common ancestor",
    "fast": "target μ of component j",
    "slow": "target μ of component k",
    "distance": "distance ‖x̄₊‖ of the two means",
    "seed": "seed",
    "cosine_of_embeddings": "cosine of two embeddings",
    # Theorem 1 and its layers
    "logits": "conserved combination of logits and weights",
    "drift": "drift of the conserved combination",
    "moved_from_zero": "movement from a zero start",
    "growth_of_logits": "growth of the logits z",
    "speed": "speed ż of the logits",
    "spare": "room below ε",
    "cosine": "centred cosine of ẑ and z",
    "cosine_first": "centred cosine of ½Σv² and z",
    "cosine_second": "centred cosine of −½Σ‖v‖²b̄ and z",
    "plain_cosine": "cosine of ẑ and z, not centred",
    "plain_cosine_first": "cosine of ½Σv² and z, not centred",
    "plain_cosine_second": "cosine of −½Σ‖v‖²b̄ and z, not centred",
    "slope_of_estimate": "slope of z on its estimate ẑ",
    "pull_size": "size of E[g x] over that at the start",
    "growing": "components that still grow at the end",
    "saturated": "share of components that have saturated",
    "order_by_pull": "rank correlation of |v| at the end and |Δ| at the start",
    "drop": "lowest stable rank over that at the start",
    "rebound": "last stable rank over the lowest",
    # Theorem 2
    "v": "weight v of a token",
    "loser_limit": "limit of a losing token's weight",
    "blow_up_time": "time at which the winner is infinite",
    "delta": "pull Δ of a token",
    "spread_of_invariant": "spread of erf(v/√2)/Δ over the tokens",
    "uneven_attention": "mean attention: largest over smallest",
    # isotropic inputs
    "moment": "E[xψ] and E[ψ]",
    "velocity": "speed of v and ξ",
    "F": "F(r) = θ₂(r) + rθ₁(r)",
    "slope_of_theta": "slope of θ₁ and θ₂",
    "theta1_step": "rise of θ₁ from one r to the next",
    "theta2": "θ₂(r)",
    "theta1_ends": "θ₁ far to the left and right",
    "F_step": "rise of F from one r to the next",
    "F_far": "F(r)/r far to the right",
    "F_left": "F(r) far to the left",
    "balance": "largest |Σ a F| at a stationary point",
    "points": "stationary points found",
    "G_slope": "slope of G(y)",
    "C": "entries of C(μ)",
    "stable": "whether μ is stable (1) or not (0)",
    "remainder_order": "power of the distance in the remainder",
    "across": "sign of C across μ, times s",
    "off_form": "part of C that is neither I nor μμᵀ",
    "weight_ratio": "ratio of weights a₋/a₊ at a critical point",
    "condition": "left side of eq. 58",
    "least_rise_of_ratio": "least rise of F/θ₁",
    "level_plus": "θ₁(r₊) − ½",
    "level_minus": "½ − θ₁(r₋)",
    "bias_below_zero": "−ξ* at a critical point",
    "median_growth": "‖(v, ξ)‖ at the end over that half way",
    # Theorem 4
    "value": "value of the function",
    "largest": "largest value",
    "log_inverse": "ln(1/δ)",
    "Lambda": "|Λ|",
    "lambda": "|λ|",
    "excess": "excess ρ(δ, μ)",
    "late_ratio": "ratio of the speeds of ln(1/δ) at the end",
    "entropy": "entropy of attention (nats)",
    "fall": "fall of the entropy (nats)",
    "comeback": "rise of the entropy after its lowest point (nats)",
    "lowest_at": "step of the lowest entropy",
    "order_of_learning": "rank correlation of salience and what is learned",
    "sure_order": "order of learning, less three standard errors",
    # section 5
    "chain": "entries of the product",
    "image": "entries of the image",
    "row_sum": "row sum",
    "cooccurrence": "P[y_l = 1 | y_m = 1]",
    "sampled": "P[y_l = 1 | y_m = 1], sampled",
    "order": "rank correlation of time and ancestor's layer",
    "order_of_error": "power of ε in the error of eq. 8",
    "half_time": "time at which a logit is half way",
    "rank_correlation": "rank correlation of time and ancestor's layer",
    "sure_lag": "steps per layer, less three standard errors",
    "most_lag": "steps per layer, plus three standard errors",
    "lag": "steps later per layer of the ancestor",
    "times": "step at which a token is attended",
    "sure_rise": "rise of NCorr, less three standard errors",
    "sure_lead": "lead of the lower layer in steps, less three standard errors",
    "ncorr": "NCorr",
    "sure_gain": "gain of NCorr by training, less three standard errors",
    "sure_lack": "shortfall of the gain, less three standard errors",
    "overall": "gain of NCorr by training",
    "gain": "gain of NCorr by training",
    # appendix A.4, section 7, multi-layer analysis
    "weights": "entries of w",
    "response_own": "output for a query with its own pattern",
    "response_other": "output for another or no pattern",
    "pair": "what the context has",
    "query": "query",
    "pair_cosine": "cosine of two synonyms' embeddings",
    "other_cosine": "cosine of other embeddings",
    "gap_in_plane": "C4 less its bound, in a plane",
    "sure_excess": "cosine of synonyms less that of others, less three standard errors",
    "unseen": "logit of a token that never occurred",
    "shared": "speed of the logits",
    "C4": "C4: correlation of the gradient with z_β",
    "whole": "correlation of the whole gradient with z_β",
}
SYMBOLS = {
    "share": "t over the blow-up time",
    "norm": "‖v‖",
    "rate": "step",
    "epsilon": "ε",
    "kind": "classes:",
    "fast": "μ of j",
    "slow": "μ of k",
    "distance": "‖x̄₊‖",
    "way": "computed by",
    "y": "y",
    "r": "r",
}  # what a sentence calls an axis
DENSITIES = {
    "gaussian": "Gaussian",
    "uniform_ball": "uniform ball",
    "student_t": "Student-t(3)",
    "student_t_1.5": "Student-t(1.5)",
    "laplace": "Laplace",
    "gaussian_mixture": "Gaussians of scales 1 and 10",
}  # what a reader calls them


def titled(claims: Iterable[Claim]) -> list[Claim]:
    """The claims, with a title on every quantity and axis they draw."""
    return [replace(c, predict=_with_titles(c.predict), observe=_with_titles(c.observe)) for c in claims]


def _with_titles(function: Callable[..., xr.Dataset]) -> Callable[..., xr.Dataset]:
    @wraps(function)
    def with_titles(**setting: Any) -> xr.Dataset:
        dataset = function(**setting).copy()
        if "density" in dataset.coords:
            dataset = dataset.assign_coords(density=[DENSITIES[str(name)] for name in dataset["density"].values])
        for name in dataset.variables:
            if (title := TITLES.get(str(name))) and "long_name" not in dataset[name].attrs:
                dataset[name].attrs["long_name"] = title
            if name in dataset.coords and (symbol := SYMBOLS.get(str(name))):
                dataset[name].attrs["symbol"] = symbol
        return dataset

    return with_titles
