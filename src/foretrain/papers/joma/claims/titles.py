"""What readers call the quantities of JoMA's claims: the titles on the axes of their figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import wraps
from typing import Any

import xarray as xr

from foretrain.ledger.claim import Claim

TITLES = {
    "time": "time t",
    "rate": "step of gradient descent",
    "epsilon": "largest inner product ε",
    "share": "time over the blow-up time",
    "norm": "length ‖v‖",
    "r": "distance r to the hyperplane",
    "middle": "distance r to the hyperplane",
    "y": "y = θ₁(r)",
    "rho": "correlation ρ with the parent",
    "ancestor": "layer of the common ancestor",
    "fast": "target μ of j",
    "slow": "target μ of k",
    "distance": "distance ‖x̄₊‖ of the means",
    "seed": "seed",
    "kind": "classes",
    "density": "density",
    "psi": "ψ",
    "side": "to the",
    "activation_from_zero": "activation",
    "target": "μ =",
    "point": "critical point",
    "argument": "y",
    "log_inverse": "ln(1/δ)",
    "pair": "what the context has",
    "query": "query",
    "way": "computed by",
    "s": "layer",
    "logits": "conserved quantity",
    "drift": "drift of the invariant",
    "moved_from_zero": "movement from zero",
    "growth_of_logits": "growth of z",
    "speed": "speed ż",
    "spare": "room below ε",
    "cosine": "centred cosine of ẑ, z",
    "cosine_first": "centred cosine of ½Σv², z",
    "cosine_second": "centred cosine of −½Σ‖v‖²b̄, z",
    "plain_cosine": "cosine of ẑ and z",
    "plain_cosine_first": "cosine of ½Σv² and z",
    "plain_cosine_second": "cosine of −½Σ‖v‖²b̄ and z",
    "slope_of_estimate": "slope of z on ẑ",
    "pull_size": "E[g x] over its start",
    "growing": "growing components",
    "saturated": "saturated components",
    "order_by_pull": "order by |Δ| (rank corr.)",
    "drop": "drop of the rank",
    "rebound": "rebound of the rank",
    "v": "weight v",
    "loser_limit": "a loser's last weight",
    "blow_up_time": "blow-up time",
    "delta": "pull Δ",
    "spread_of_invariant": "spread of erf(v/√2)/Δ",
    "uneven_attention": "attention: most/least",
    "moment": "E[xψ], E[ψ]",
    "velocity": "speed of v and ξ",
    "F": "F(r)",
    "slope_of_theta": "slope of θ",
    "theta1_step": "rise of θ₁",
    "theta2": "θ₂(r)",
    "theta1_ends": "θ₁ far out",
    "F_step": "rise of F",
    "F_far": "F(r)/r far right",
    "F_left": "F(r) far left",
    "balance": "Σ aF",
    "points": "points found",
    "G_slope": "slope of G",
    "C": "entries of C(μ)",
    "stable": "μ stable (1) or not (0)",
    "remainder_order": "power of ‖v − μ‖ in λ",
    "across": "β₁",
    "off_form": "C beyond I and μμᵀ",
    "weight_ratio": "ratio a₋/a₊",
    "condition": "eq. 58, left side",
    "least_rise_of_ratio": "least rise of F/θ₁",
    "level_plus": "y₊ − ½",
    "level_minus": "½ − y₋",
    "bias_below_zero": "−ξ*",
    "median_growth": "size at the end over half way",
    "value": "value",
    "largest": "largest value",
    "Lambda": "|Λ|",
    "lambda": "|λ|",
    "excess": "ρ(δ, μ)",
    "late_ratio": "ratio of late speeds",
    "entropy": "entropy (nats)",
    "fall": "fall (nats)",
    "comeback": "comeback (nats)",
    "lowest_at": "step of the lowest entropy",
    "order_of_learning": "salient first (rank corr.)",
    "chain": "entries of the product",
    "image": "entries of the image",
    "row_sum": "row sum",
    "cooccurrence": "P[l | m]",
    "sampled": "P[l | m], sampled",
    "order": "rank correlation",
    "order_of_error": "power of ε",
    "half_time": "half-way time",
    "rank_correlation": "rank correlation",
    "lag": "lag (steps per layer)",
    "times": "step when attended",
    "rise": "rise of NCorr",
    "lead": "lead (steps)",
    "ncorr": "NCorr",
    "logit": "logit",
    "lower_rise": "rise of NCorr",
    "shortfall": "shortfall of the gain",
    "overall": "gain of NCorr",
    "gain": "gain of NCorr",
    "weights": "entries of w",
    "response_own": "output, own pattern",
    "response_other": "output, other or none",
    "pair_cosine": "cosine of synonyms",
    "other_cosine": "cosine of other pairs",
    "gap_in_plane": "C₄ less its bound",
    "cosine_excess": "excess of the cosine",
    "unseen": "logit of an unseen token",
    "shared": "speed of the logits",
    "C4": "C₄",
    "whole": "corr(z, g)",
    "angle": "A + B + C (degrees)",
}  # short: they stand beside a small figure
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
    "middle": "r",
    "psi": "ψ:",
    "argument": "y",
    "activation_from_zero": "activation",
    "s": "s",
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
            dataset = dataset.assign_coords(
                density=[DENSITIES.get(str(name), str(name)) for name in dataset["density"].values]
            )
        if dataset.sizes.get("time") and dataset["time"].attrs.get("units") == "steps":
            dataset["time"].attrs["long_name"] = "training"  # its unit, steps, stands behind it
        for name in dataset.variables:
            if (title := TITLES.get(str(name))) and "long_name" not in dataset[name].attrs:
                dataset[name].attrs["long_name"] = title
            if name in dataset.coords and (symbol := SYMBOLS.get(str(name))):
                dataset[name].attrs["symbol"] = symbol
        return dataset

    return with_titles
