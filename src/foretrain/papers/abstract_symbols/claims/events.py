"""Claim D.2, its proof: how often every template is represented, and how often samples share a token."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory
from foretrain.data.template_examples import same_different
from foretrain.ledger.claim import Claim, Comparator, Control, Drawn, Erratum, Outcome
from foretrain.ledger.comparators import covered
from foretrain.ledger.margins import number
from foretrain.ledger.quantities import Quantities, Quantity
from foretrain.papers.abstract_symbols.theory import generalisation as theory


def _event_probability(samples: int, least_share: float = 0.5) -> xr.Dataset:
    """With which probability every template has at least `least_share`·nμ samples."""
    weights = np.asarray(same_different().weights)
    return trajectory({"least_share": least_share, "probability": theory.all_represented_probability(samples, weights)})


def _least_counts(samples: int, draws: int, weight: float = 0.5) -> xr.Dataset:
    """The least |ℐ_j|/(nμ_j) over templates, in every draw; `weight` is how often αα is drawn, for the control."""
    task = same_different()
    counts = stream("represented", samples).multinomial(samples, (weight, 1 - weight), size=draws)
    least = (counts / (samples * np.asarray(task.weights))).min(axis=1)
    return trajectory({"represented": ("draw", least)})


def _represented(prediction: xr.Dataset, observation: xr.Dataset, quantities: Quantities) -> Outcome:
    """Event E1, with the predicted share of nμ."""
    event = observation.assign(all_represented=observation.represented >= prediction.least_share)
    much = "as many" if prediction.least_share == 1 else "half as many"
    words = Quantity("all_represented", f"every template has at least {much} samples as expected")
    return covered("all_represented", "probability")(prediction, event, quantities.extended(words))


claimsD_event = Claim(
    id="abstract_symbols/claimsD_event",
    source="Claim D.2, event E1 of its proof",
    whose="a step of the paper's proof",
    says="But for probability Σe^{−nμ/8}, every template has at least nμ/2 samples.",
    predict=_event_probability,
    observe=_least_counts,
    compare=Comparator(_represented, (Drawn("represented", low="least_share"),)),
    settings={"fast": {"samples": 64, "draws": 2000}, "full": {"samples": 64, "draws": 100_000}},
    control=Control("one template is drawn one time in ten", {"weight": 0.1}),
    erratum=Erratum(
        changes={"least_share": 1.0},
        prints="But for probability e^{−cn}, every template has at least nμ samples.",
        says="|ℐ_j| ≥ nμ_j for all j forces equality, since both sides sum to n: at n = 64 it holds in 10 % of draws, "
        "and ever less often as n grows. The proof needs half of it, which fails with probability at most "
        "Σe^{−nμ_j/8}.",
        formulas=(r"|\mathcal{I}_j| \ge n\mu_j \text{ for all } j", r"|\mathcal{I}_j| \ge n\mu_j/2 \text{ for all } j"),
        consequence="None: this is a slip of the pen. Half of the samples change only the constants, and the proof of "
        "Claim D.4 has nμ/2.",
    ),
)


def _overlap_limits(samples: int, per_sample: float, delta: float, printed: bool = False) -> xr.Dataset:
    """How many of n samples may share a token with a seen string x, and with what probability.

    Printed: P2 ≤ Cn/ρ except with probability e^{−cn}; we take C = 2k, twice its expectation, and c = 1/8. Corrected:
    P2 is binomial, so P2 ≤ 2E[P2] + 3·log(1/δ) except with probability δ (Chernoff).
    """
    task = same_different()
    expected = 2 * task.length * samples / task.diversity(int(per_sample * samples))
    return trajectory(
        {
            "most": expected if printed else expected + 3 * math.log(1 / delta),
            "probability": 1 - math.exp(-samples / 8) if printed else 1 - delta,
        }
    )


def _overlaps(samples: int, per_sample: float, draws: int, common_token: bool = False) -> xr.Dataset:
    """P2 in every draw: the samples that share a substituted token with a string of the training alphabet.

    `common_token` gives every second sample a token of that string, for the control.
    """
    task, alphabet = same_different(), int(per_sample * samples)
    train = task.sample(samples * draws, stream("overlaps", samples, draws), alphabet=alphabet)
    hit = (train.tokens < 2).any(axis=1).reshape(draws, samples)  # x holds the tokens 0 and 1
    if common_token:
        hit[:, ::2] = True
    return trajectory({"sharing": ("draw", hit.sum(axis=1))})


def _few_overlaps(prediction: xr.Dataset, observation: xr.Dataset, quantities: Quantities) -> Outcome:
    """The part P2 of event E2, with the predicted limit."""
    event = observation.assign(few_overlaps=observation.sharing <= prediction.most)
    words = Quantity("few_overlaps", f"at most {number(float(prediction.most))} samples share a token")
    return covered("few_overlaps", "probability")(prediction, event, quantities.extended(words))


claimD2_overlaps = Claim(
    id="abstract_symbols/claimD2_overlaps",
    source="Claim D.2, event E2 of its proof",
    whose="a step of the paper's proof",
    says="But for probability δ, at most 2E + 3·log(1/δ) of the samples share a substituted token with a given string, "
    "where E is their expected number.",
    predict=_overlap_limits,
    observe=_overlaps,
    compare=Comparator(_few_overlaps, (Drawn("sharing", high="most"),)),
    settings={
        "fast": {"samples": 200, "per_sample": 50.0, "delta": 0.01, "draws": 2000},
        "full": {"samples": 1000, "per_sample": 50.0, "delta": 0.01, "draws": 20_000},
    },
    control=Control("every second sample is given a token of the string", {"common_token": True}),
    erratum=Erratum(
        changes={"printed": True},
        prints="But for probability e^{−cn}, at most Cn/ρ of the samples share a substituted token with a given "
        "string.",
        says="If ρ is well above n, Cn/ρ is below 1, yet some sample shares a token with probability about kn/ρ, "
        "however large n is: in 6 % of draws at n = 200 and ρ = 25n. Hoeffding's inequality gives e^{−cn/ρ²}.",
        formulas=(
            r"P_2 \le \frac{Cn}{\rho} \text{ with probability } 1 - e^{-cn}",
            r"P_2 \le 2\,\mathbb{E}[P_2] + 3\log\tfrac1\delta \text{ with probability } 1 - \delta",
        ),
        consequence="Theorem 3.4 keeps its form, as its noise term already has log(1/δ).",
    ),
)

CLAIMS = [claimsD_event, claimD2_overlaps]
