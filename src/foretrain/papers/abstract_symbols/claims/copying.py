"""Theorems 4.1 and 4.2 (J.2, J.3): attention alone does not learn to copy unseen symbols; with b·I it does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import xarray as xr

from foretrain.core.looping import over
from foretrain.core.streams import torch_stream
from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Comparator, Control, Drawn, Erratum, Outcome
from foretrain.ledger.comparators import bounded, close_relative, every, same_mean
from foretrain.ledger.quantities import Quantities
from foretrain.ledger.tolerances import THREE_ERRORS, Tolerance
from foretrain.models.finite_transformer import CopyingAttention, Widths
from foretrain.papers.abstract_symbols import theory
from foretrain.papers.abstract_symbols.experiments.unseen import EXPERIMENTS, SAMPLES, copying_velocities
from foretrain.papers.abstract_symbols.tolerances import LIMIT_VELOCITY

RUNS = {experiment.id: experiment.run for experiment in EXPERIMENTS}


def _limits(embeddings: Sequence[int], test: float, train: float) -> xr.Dataset:
    """A prediction that has no spread and is the same at every width."""
    shape = len(embeddings)
    variables: dict[str, Any] = {}
    for name, value in (("test", test), ("train", train)):
        variables |= {
            name: ("embedding", np.full(shape, value)),
            f"{name}_std": ("embedding", np.zeros(shape)),
            f"{name}_seeds": ("embedding", np.ones(shape)),
        }
    return trajectory(variables, {"embedding": list(embeddings)})


def _limit_velocities(embedding: Sequence[int], gamma: float, tokens: int, rises: bool = True) -> xr.Dataset:
    """dL_test/dt → C/m with C = 4γ² at unit rates; as printed it vanishes."""
    test = theory.unseen_velocity(gamma, tokens, dict.fromkeys("VOPE", True)) if rises else 0.0
    return _limits(embedding, test, theory.train_velocity(gamma, tokens, SAMPLES))


def _measured(
    embedding: Sequence[int], heads: int, head: int, gamma: float, tokens: int, seeds: int, trained: str = "weights"
) -> xr.Dataset:
    sizes = {"heads": heads, "head": head, "gamma": gamma, "tokens": tokens, "seeds": seeds}
    run = RUNS["abstract_symbols/copying_velocity"](embedding=embedding, trained=(trained,), **sizes)
    return run.isel(trained=0, drop=True)


WIDE = {"embedding": (2048, 4096), "heads": 4, "head": 64, "gamma": 1.0, "tokens": 8}

theorem4_1 = Claim(
    id="abstract_symbols/theorem4_1",
    source="Theorems 4.1 and J.2",
    whose="the paper's statement",
    says=(
        "Attention alone does not learn to copy an unseen token at early time: with learning rates that keep "
        "dL_train/dt of order 1, dL_test/dt tends to C/m ≥ 0."
    ),
    predict=_limit_velocities,
    observe=_measured,
    compare=every(same_mean("test", THREE_ERRORS), same_mean("train", THREE_ERRORS)),
    settings={
        "fast": {**WIDE, "seeds": 8},
        "full": {**WIDE, "embedding": (4096, 8192), "heads": 8, "seeds": 16},
        "paper": {**WIDE, "embedding": (8192, 16384), "heads": 16, "head": 128, "seeds": 32},
    },
    control=Control("every head has b·I and trains it", {"trained": "all"}),
    erratum=Erratum(
        changes={"rises": False},
        prints="Attention alone does not learn to copy an unseen token at early time: with learning rates that keep "
        "dL_train/dt of order 1, dL_test/dt tends to 0.",
        says="The proof itself ends with C/m ≥ 0, which is 0 only if γ = 0 or the alphabet grows. At γ = 1, m = 8 and "
        "unit rates it is .5: the loss on the unseen token rises.",
        formulas=(
            r"\frac{\partial L_{test}}{\partial t} \to 0",
            r"\frac{\partial L_{test}}{\partial t} \to \frac{C}{m}, \quad C = 4\gamma^2 \text{ at unit rates}",
        ),
        consequence="The theorem's message is even stronger: the loss on an unseen token does not fall, it rises.",
    ),
)


PARTS = ("V", "P", "E")


def _parts(heads: Sequence[int], gamma: float, tokens: int, rule: str = "unit") -> xr.Dataset:
    """What each of W_V, P and W_E adds to dL_train/dt at a rate of 1/K: the same for every H.

    The rule `printed` has η_V = d_emb/d_head and η_P = η_E = 1, and `unit` another 1/H in all three.
    """
    off = (SAMPLES - 1) / tokens
    same_token = 1 - 1 / tokens
    shared = (same_token - off) * gamma**2
    value = {"V": same_token + shared, "P": shared, "E": 2 * same_token + shared}
    return trajectory(
        {"velocity": (("part", "heads"), [[-value[p] / SAMPLES] * len(heads) for p in PARTS])},
        {"part": list(PARTS), "heads": list(heads), "rule": rule},
    )


def _measured_parts(
    heads: Sequence[int], gamma: float, tokens: int, embedding: int, head: int, seeds: int, per_head: bool = True
) -> xr.Dataset:
    """Means over seeds under both rules; without `per_head` the second rule has no 1/H either."""
    printed = _parts_by_network(tuple(heads), gamma, tokens, embedding, head, seeds)
    unit = printed / np.array(heads) if per_head else printed
    return trajectory(
        {"velocity": (("rule", "part", "heads"), np.stack([printed, unit]))},
        {"rule": ["printed", "unit"], "part": list(PARTS), "heads": list(heads)},
    )


@lru_cache(maxsize=2)
def _parts_by_network(
    heads: tuple[int, ...], gamma: float, tokens: int, embedding: int, head: int, seeds: int
) -> np.ndarray:
    """What each of W_V, P and W_E adds to dL_train/dt at the rates d_emb/d_head, 1 and 1: [part, heads]."""
    rates = theory.unit_rates(1, embedding, head)

    def velocities(heads: int, seed: int) -> dict[str, Any]:
        generator = torch_stream("abstract_symbols/rates", heads, seed)
        net = CopyingAttention(tokens, Widths(heads, embedding, head, 1), gamma=gamma, generator=generator)
        return {"velocity": ("part", [copying_velocities(net, tokens, {part: rates[part]})[0] for part in PARTS])}

    runs = over(velocities, {"heads": heads, "seed": range(seeds)}, {})
    return runs.velocity.mean("seed").transpose("part", "heads").values


def _under_its_rule(prediction: xr.Dataset, observation: xr.Dataset, quantities: Quantities) -> Outcome:
    chosen = observation.sel(rule=str(prediction.rule.values))
    said = close_relative("velocity", LIMIT_VELOCITY, by="in the limit", seen="here")
    return said(prediction, chosen, quantities)


theorem4_1_rates = Claim(
    id="abstract_symbols/theorem4_1_rates",
    source="Theorem J.2, learning rates of its proof",
    whose="a step of the paper's proof",
    says="With another 1/H in η_V, η_P and η_E, what W_V, P and W_E add to dL_train/dt stays bounded as H grows.",
    predict=_parts,
    observe=_measured_parts,
    compare=Comparator(_under_its_rule, (Drawn("velocity", "velocity"),)),
    settings={
        "fast": {"heads": (1, 4, 16), "gamma": 1.0, "tokens": 8, "embedding": 2048, "head": 32, "seeds": 8},
        "full": {"heads": (1, 4, 16, 64), "gamma": 1.0, "tokens": 8, "embedding": 16384, "head": 64, "seeds": 8},
    },
    control=Control("no 1/H in the rates", {"per_head": False}),
    erratum=Erratum(
        changes={"rule": "printed"},
        prints="With η_V = O(d_emb/d_head), η_P = O(1) and η_E = O(1), what W_V, P and W_E add to dL_train/dt stays "
        "bounded as H grows.",
        says="The kernels tend to K_V → (H·d_head/d_emb)δ_ij(δ + γ²), K_P → Hγ²δ_ij (the proof leaves out Σ W_OᵀW_V) "
        "and K_E → Hδ_ij(2δ + γ²). From H = 1 to 16 the printed rates speed the train loss up 16 times. By the same "
        "count the output's variance is O(H/d_emb), not O(1/d_emb).",
        formulas=(
            r"\eta_V = O(d_{emb}/d_{head}), \quad \eta_P = O(1), \quad \eta_E = O(1)",
            r"\eta_V = O\left(\frac{d_{emb}}{H\,d_{head}}\right), \quad \eta_P = O(1/H), \quad \eta_E = O(1/H)",
        ),
        consequence="With the printed rates the train loss does not move at a bounded speed, as the theorem assumes.",
    ),
)


def _identity_velocity(heads: Sequence[int], tokens: int, rule: str = "1/H") -> xr.Dataset:
    """What keeps dL_train/dt of order 1: η_b = 1/H, and as printed η_b = Ω(H)."""
    value = theory.identity_velocity(tokens)
    return trajectory(
        {"train": ("heads", np.full(len(heads), value)), "test": ("heads", np.full(len(heads), value))},
        {"heads": list(heads), "rule": rule},
    )


def _identity_measured(
    heads: Sequence[int], tokens: int, embedding: int, head: int, gamma: float, seeds: int, frozen: bool = False
) -> xr.Dataset:
    """Mean velocities when only the b_h are trained, at rates 1/H and H; `frozen` keeps them at 0."""

    def velocities(heads: int, seed: int) -> dict[str, float]:
        generator = torch_stream("abstract_symbols/identity", heads, seed)
        net = CopyingAttention(tokens, Widths(heads, embedding, head, 1), gamma=gamma, generator=generator)
        train, test = copying_velocities(net, tokens, {"b": 0.0 if frozen else 1 / heads})
        return {"train": train, "test": test}

    slow = over(velocities, {"heads": heads, "seed": range(seeds)}, {}).mean("seed")
    return xr.concat([slow, slow * slow.heads.astype(float) ** 2], xr.Variable("rule", ["1/H", "H"]))


def _identity_under_its_rule(prediction: xr.Dataset, observation: xr.Dataset, quantities: Quantities) -> Outcome:
    chosen = observation.sel(rule=str(prediction.rule.values))
    both = every(
        close_relative("train", LIMIT_VELOCITY, by="in the limit", seen="here"),
        close_relative("test", LIMIT_VELOCITY, by="in the limit", seen="here"),
    )
    return both(prediction, chosen, quantities)


IDENTITY = {
    "fast": {"heads": (1, 4, 16), "tokens": 8, "embedding": 4096, "head": 16, "gamma": 1.0, "seeds": 6},
    "full": {"heads": (1, 4, 16, 64), "tokens": 8, "embedding": 16384, "head": 16, "gamma": 1.0, "seeds": 16},
}


def _identity_alone(
    heads: Sequence[int], tokens: int, embedding: int, head: int, gamma: float, seeds: int, frozen: bool = False
) -> xr.Dataset:
    """The velocities at the rate 1/H."""
    measured = _identity_measured(heads, tokens, embedding, head, gamma, seeds, frozen)
    return measured.sel(rule="1/H", drop=True)


FASTEST = Tolerance(-2.0, "dL_train/dt = O(1): our reading, for H from 1 to 16")
SLOWEST = Tolerance(-0.25, "−dL_test/dt = Ω(1): our reading, for H from 1 to 16")

theorem4_2 = Claim(
    id="abstract_symbols/theorem4_2",
    source="Theorems 4.2 and J.3",
    whose="the paper's statement",
    says=(
        "With one trained b·I per head there are learning rates with which dL_train/dt = O(1) and −dL_test/dt = Ω(1), "
        "as the width grows. (For H from 1 to 16 and η_b = 1/H both lie between −2 and −1/4.)"
    ),
    observe=_identity_alone,
    compare=every(bounded("train", low=FASTEST), bounded("test", high=SLOWEST)),
    settings={**IDENTITY, "fast": {**IDENTITY["fast"], "embedding": 1024}},
    control=Control("b stays at 0", {"frozen": True}),
)

theorem4_2_rate = Claim(
    id="abstract_symbols/theorem4_2_rate",
    source="Theorem J.3, end of its proof",
    whose="a step of the paper's proof",
    says="For η_b = Θ(1/H), dL_train/dt = O(1) and −dL_test/dt = Ω(1).",
    predict=_identity_velocity,
    observe=_identity_measured,
    compare=Comparator(_identity_under_its_rule, (Drawn("train", "train"), Drawn("test", "test"))),
    settings=IDENTITY,
    control=Control("b stays at 0", {"frozen": True}),
    erratum=Erratum(
        changes={"rule": "H"},
        prints="For η_b = Ω(H), dL_train/dt = O(1) and −dL_test/dt = Ω(1).",
        says="Both losses move at the speed −Hη_b(1 − 1/m)². At m = 8 and H = 16 that is −.77 for η_b = 1/H, and −196 "
        "for η_b = H. The proof itself has Θ(1/H) four lines before.",
        formulas=(r"\eta_b = \Omega(H)", r"\eta_b = \Theta(1/H)"),
        consequence="None for the theorem; whoever sets the rate of b by the last line makes it H² times too large.",
    ),
)

CLAIMS = [theorem4_1, theorem4_1_rates, theorem4_2, theorem4_2_rate]
