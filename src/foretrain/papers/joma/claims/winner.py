"""Section 3.1: winner-take-all under a linear activation (Theorem 2, its footnote and its remark)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr

from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Assumption, Claim, Control, Erratum
from foretrain.ledger.comparators import bounded, close, every, same_mean
from foretrain.ledger.tolerances import FLOW
from foretrain.papers.joma import theory
from foretrain.papers.joma.tolerances import APART

SHARES = np.concatenate([np.linspace(0, 0.9, 10), [0.99, 0.999]])  # of the blow-up time


def _batch(problems: int, samples: int, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Token frequencies x [problem, sample, token] and back-propagated gradients g [problem, sample]."""
    draw = stream("joma/theorem2", problems, samples, tokens)
    x = draw.dirichlet(np.ones(tokens), size=(problems, samples))
    return x, draw.standard_normal((problems, samples))


def _delta(problems: int, samples: int, tokens: int) -> np.ndarray:
    """Δ_l = E[g·x_l] [problem, token]."""
    x, g = _batch(problems, samples, tokens)
    return np.einsum("ps,psl->pl", g, x) / samples


def _paths(delta: np.ndarray, v: np.ndarray, limits: np.ndarray, blow_up_time: np.ndarray) -> xr.Dataset:
    losers = np.argsort(np.abs(delta), axis=1)[:, :-1]
    return trajectory(
        {
            "v": (("problem", "share", "token"), v),
            "loser_limit": (("problem", "loser"), np.take_along_axis(limits, losers, axis=1)),
            "blow_up_time": ("problem", blow_up_time),
        },
        {"share": SHARES},
    )


def _on_paper(
    problems: int,
    samples: int,
    tokens: int,
    path: Callable[..., np.ndarray] = theory.winner_take_all,
    limits: Callable[..., np.ndarray] = theory.loser_limits,
) -> xr.Dataset:
    delta = _delta(problems, samples, tokens)
    times = theory.blow_up_time(delta)[:, None] * SHARES
    return _paths(delta, path(delta[:, None, :], times), limits(delta), theory.blow_up_time(delta))


def _integrated(problems: int, samples: int, tokens: int, attention_rate: float = 1.0) -> xr.Dataset:
    """Eq. 2 for one linear node and exp attention with the residual query: v and z together.

    The first run measures time in shares of the blow-up time. The second takes |v_winner| as its variable, so it can go
    on to the blow-up, whose time its `clock` gives. `attention_rate` 0 keeps the attention uniform.
    """
    from foretrain.dynamics.flow import integrate  # loads scipy's solvers, which listing claims can do without

    x, g = _batch(problems, samples, tokens)
    delta = _delta(problems, samples, tokens)
    unit = theory.blow_up_time(delta)[:, None]
    winner = np.argmax(np.abs(delta), axis=1)[:, None]

    def push(z: np.ndarray) -> np.ndarray:
        """E[g·h′·b] with h′ = 1 and b = e^z∘x (A = 1)."""
        return np.einsum("ps,psl->pl", g, x * np.exp(z)[:, None, :]) / samples

    start = {"v": np.zeros_like(delta), "z": np.zeros_like(delta)}
    flow = integrate(
        lambda _, s: {"v": push(s["z"]) * unit, "z": attention_rate * push(s["z"]) * s["v"] * unit},
        start,
        until=float(SHARES[-1]),
        save_at=SHARES,
    )

    def by_winner(_: float, s: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        speed = np.abs(np.take_along_axis(push(s["z"]), winner, axis=1))
        step = push(s["z"]) / speed
        return {"v": step, "z": attention_rate * step * s["v"], "clock": 1 / speed[:, 0]}

    end = integrate(by_winner, {**start, "clock": np.zeros(problems)}, until=8.0, save_at=[8.0])
    return _paths(delta, flow["v"].values.transpose(1, 0, 2), end["v"].values[-1], end["clock"].values[-1])


def _clear_winner(problems: int, samples: int, tokens: int) -> tuple[bool, str]:
    sizes = np.sort(np.abs(_delta(problems, samples, tokens)), axis=1)
    nearest = float((sizes[:, -2] / sizes[:, -1]).max())
    return nearest < 1, f"the second largest |Δ| is at most {nearest:.4f} of the largest"


theorem2 = Claim(
    id="joma/theorem2",
    whose="the paper's statement",
    source="Theorem 2, eq. 4, and its remark",
    says="With a linear activation and exp attention from zero, erf(v_l/√2)/Δ_l is the same for all tokens: the token "
    "with the largest |Δ| grows without bound (at the finite time √(π/2)·A/max|Δ|), the others end at "
    "√2·erf⁻¹(Δ_l/max|Δ|).",
    predict=_on_paper,
    observe=_integrated,
    compare=every(
        *(
            close(name, FLOW, by="by the formula", seen="along the flow")
            for name in ("v", "loser_limit", "blow_up_time")
        )
    ),
    settings={
        "fast": {"problems": 20, "samples": 16, "tokens": 5},
        "full": {"problems": 500, "samples": 64, "tokens": 20},
    },
    control=Control("attention does not learn", {"attention_rate": 0.0}),
    assumes=(Assumption("one token has the largest |Δ|", _clear_winner),),
    erratum=Erratum(
        changes={"path": theory.winner_take_all_printed, "limits": theory.loser_limits_printed},
        prints="With a linear activation and exp attention from zero, erf(v_l/2)/Δ_l is the same for all tokens.",
        says="Eq. 4 prints erf(v/2)/Δ; integrating eq. 20 gives erf(v/√2)/Δ. For Δ = (1, .6) at t = 1.2 the printed "
        "invariant is .848 and .711 for the two tokens, the corrected one .957461 for both; the loser ends at .8416, "
        "not 1.1902, and the winner is infinite at t = 1.2533, not only in the limit.",
        formulas=(
            r"\frac{\operatorname{erf}(v_l/2)}{\Delta_l}=\frac{\operatorname{erf}(v_{l'}/2)}{\Delta_{l'}}",
            r"\frac{\operatorname{erf}(v_l/\sqrt2)}{\Delta_l}=\frac{\operatorname{erf}(v_{l'}/\sqrt2)}{\Delta_{l'}}",
        ),
        consequence="The losing tokens keep less weight than printed (a factor √2 in v), and the winner takes all "
        "within a finite time.",
    ),
)


def _delta_on_paper(samples: int, tokens: int) -> xr.Dataset:
    """Δ_l as discriminancy times frequency."""
    x, g = _batch(1, samples, tokens)
    discriminancy, frequency = theory.token_pull(x[0], g[0])
    product = discriminancy * frequency
    return trajectory({"delta": ("token", product), "delta_std": ("token", 0 * product), "delta_seeds": 1})


def _delta_from_tokens(samples: int, tokens: int, batches: int, drawn: int, by: str = "frequency") -> xr.Dataset:
    """E[g·1(token = l)] over tokens drawn from samples: by their `frequency` x, or for the control `evenly`."""
    x, g = (part[0] for part in _batch(1, samples, tokens))
    draw = stream("joma/theorem2", "tokens", samples, tokens)
    chances = x if by == "frequency" else np.full_like(x, 1 / tokens)
    edges = np.cumsum(chances, axis=1)[:, :-1]
    values = np.empty((batches, tokens))
    for batch in range(batches):
        sample = draw.integers(samples, size=drawn)
        token = (draw.random(drawn)[:, None] > edges[sample]).sum(1)
        values[batch] = np.bincount(token, weights=g[sample], minlength=tokens) / drawn
    return trajectory({"delta": (("seed", "token"), values)})


delta = Claim(
    id="joma/theorem2_delta",
    source='Section 3.1, "Beyond distinct/common tokens", and footnote 1 to Theorem 2',
    whose="the paper's statement",
    says="The pull Δ_l = E[g x_l] of a token is its discriminancy E[g | l] times its frequency P(l): the mean of g "
    "over tokens drawn from the samples, counted where the token is l.",
    predict=_delta_on_paper,
    observe=_delta_from_tokens,
    compare=same_mean("delta"),
    settings={
        "fast": {"samples": 12, "tokens": 5, "batches": 30, "drawn": 4000},
        "full": {"samples": 64, "tokens": 20, "batches": 100, "drawn": 40_000},
    },
    control=Control("tokens are drawn evenly, not by their frequency", {"by": "evenly"}),
)


def _softmax_flow(problems: int, tokens: int, reach: float, attention: str) -> xr.Dataset:
    """Eq. 2 for one linear node until its winner has |v| = `reach`: how far the tokens' erf(v/√2)/Δ lie apart.

    The samples of a problem are all cyclic shifts of one, so that at the start A is the same for all samples and b̄ for
    all tokens, as the remark asks.
    """
    from foretrain.dynamics.flow import integrate

    draw = stream("joma/theorem2_softmax", problems, tokens)
    base = draw.dirichlet(np.full(tokens, 2.0), problems)
    x = np.stack([np.roll(base, shift, axis=1) for shift in range(tokens)], axis=1)
    g = draw.standard_normal((problems, tokens))
    pull = np.einsum("ps,psl->pl", g, x) / tokens
    winner = np.argmax(np.abs(pull), axis=1)[:, None]

    def scores(z: np.ndarray) -> np.ndarray:
        b = x * np.exp(z)[:, None, :]
        return b / b.sum(-1, keepdims=True) if attention == "softmax" else b

    def field(_: float, s: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Both move in units of the winner's own speed, so that its |v| is the time."""
        b = scores(s["z"])
        moved = b * s["v"][:, None, :]
        if attention == "softmax":
            moved = moved - b * moved.sum(-1, keepdims=True)
        v, z = (np.einsum("ps,psl->pl", g, part) / tokens for part in (b, moved))
        speed = np.abs(np.take_along_axis(v, winner, axis=1))
        return {"v": v / speed, "z": z / speed}

    start = {name: np.zeros_like(pull) for name in ("v", "z")}
    flow = integrate(field, start, until=reach, save_at=[reach])
    invariant = theory.winner_invariant(flow["v"].values[-1], pull)
    mean = scores(flow["z"].values[-1]).mean(1)
    return trajectory(
        {
            "spread_of_invariant": float(np.median(np.ptp(invariant, axis=1) / np.abs(invariant).max(axis=1))),
            "uneven_attention": float(np.median(mean.max(1) / mean.min(1))),
        }
    )


softmax = Claim(
    id="joma/theorem2_softmax",
    source="Remark on Theorem 2, softmax attention",
    whose="our own expectation",
    says="The remark extends Theorem 2 to softmax attention while A is the same for all samples and b̄ for all tokens. "
    "These conditions can hold only at the start: once the winner's weight is 2, erf(v/√2)/Δ differs between tokens by "
    "more than a tenth (median over random layers).",
    observe=_softmax_flow,
    compare=bounded("spread_of_invariant", low=APART),
    settings={
        "fast": {"problems": 20, "tokens": 5, "reach": 2.0, "attention": "softmax"},
        "full": {"problems": 200, "tokens": 5, "reach": 2.0, "attention": "softmax"},
    },
    control=Control("exp attention in place of softmax attention", {"attention": "exp"}),
    finding="Theorem 2's extension to softmax attention asks that b̄ be the same for all tokens, which the winner's own "
    "growth destroys. In 200 random layers (medians) the invariant differs by 2 % between tokens when the winner's "
    "weight is .5, by 8 % at 1 and by 24 % at 2, where the most attended token has 2.1 times as much as the least.",
)

CLAIMS = [theorem2, delta, softmax]
