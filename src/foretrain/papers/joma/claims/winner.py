"""Section 3.1: winner-take-all under a linear activation (Theorem 2)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr

from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Assumption, Claim, Control, erratum_pair
from foretrain.ledger.comparators import close, every
from foretrain.ledger.tolerances import FLOW
from foretrain.papers.joma import theory

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


def _paths(delta: np.ndarray, v: np.ndarray, limits: np.ndarray) -> xr.Dataset:
    losers = np.argsort(np.abs(delta), axis=1)[:, :-1]
    return trajectory(
        {
            "v": (("problem", "share", "token"), v),
            "loser_limit": (("problem", "loser"), np.take_along_axis(limits, losers, axis=1)),
        },
        {"share": SHARES},
    )


def _on_paper(path: Callable[..., np.ndarray], limits: Callable[..., np.ndarray]) -> Callable[..., xr.Dataset]:
    def predict(problems: int, samples: int, tokens: int) -> xr.Dataset:
        delta = _delta(problems, samples, tokens)
        times = theory.blow_up_time(delta)[:, None] * SHARES
        dataset = _paths(delta, path(delta[:, None, :], times), limits(delta))
        return dataset.assign(blow_up_time=("problem", theory.blow_up_time(delta)))

    return predict


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
    dataset = _paths(delta, flow["v"].values.transpose(1, 0, 2), end["v"].values[-1])
    return dataset.assign(blow_up_time=("problem", end["clock"].values[-1]))


def _clear_winner(problems: int, samples: int, tokens: int) -> tuple[bool, str]:
    sizes = np.sort(np.abs(_delta(problems, samples, tokens)), axis=1)
    nearest = float((sizes[:, -2] / sizes[:, -1]).max())
    return nearest < 1, f"the second largest |Δ| is at most {nearest:.4f} of the largest"


theorem2 = erratum_pair(
    printed=_on_paper(theory.winner_take_all_printed, theory.loser_limits_printed),
    corrected=_on_paper(theory.winner_take_all, theory.loser_limits),
    id="joma/theorem2",
    prints="With a linear activation and exp attention from zero, erf(v_l/2)/Δ_l is the same for all tokens.",
    source="Theorem 2, eq. 4",
    says="With a linear activation and exp attention from zero, erf(v_l/√2)/Δ_l is the same for all tokens: the token "
    "with the largest |Δ| grows without bound (at the finite time √(π/2)·A/max|Δ|), the others end at "
    "√2·erf⁻¹(Δ_l/max|Δ|).",
    observe=_integrated,
    compare=every(close("v", FLOW), close("loser_limit", FLOW), close("blow_up_time", FLOW)),
    settings={
        "fast": {"problems": 20, "samples": 16, "tokens": 5},
        "full": {"problems": 500, "samples": 64, "tokens": 20},
    },
    control=Control("attention does not learn", {"attention_rate": 0.0}),
    assumes=(Assumption("one token has the largest |Δ|", _clear_winner),),
    erratum="Eq. 4 prints erf(v/2)/Δ; integrating eq. 20 gives erf(v/√2)/Δ. For Δ = (1, .6) at t = 1.2 the printed "
    "invariant is .848 and .711 for the two tokens, the corrected one .957461 for both; the loser ends at .8416, "
    "not 1.1902, and the winner is infinite at t = 1.2533, not only in the limit.",
)

CLAIMS: list[Claim] = [*theorem2]
