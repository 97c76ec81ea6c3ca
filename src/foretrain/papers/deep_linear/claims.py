"""What the paper says about linear networks, held against gradient descent."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

from foretrain.core.streams import seed_list
from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import bounded, close, conserved, every, ranked, slope
from foretrain.ledger.tolerances import FLOW
from foretrain.papers.deep_linear import experiments, theory
from foretrain.papers.deep_linear.tolerances import ALMOST_NO_TIME, DRIFT, FIRST_ORDER, INVERSE, RANDOM_START, STEPS

STRENGTHS = experiments.STRENGTHS
FIG6 = next(experiment for experiment in experiments.EXPERIMENTS if experiment.cell is experiments.depth)
MODES = {"mode": [1, 2, 3, 4]}


def _curves(start: float, until: float) -> xr.Dataset:
    time = np.linspace(0, until, 101)
    values = theory.learned(time[:, None], np.array(STRENGTHS), np.array(start))
    return trajectory({"learned": (("time", "mode"), values)}, {"time": time, **MODES})


def _integrated(start: float, until: float, uneven: float = 1.0) -> xr.Dataset:
    """Both weights of every mode by themselves (eq. 5): da/dt = b(s − ab), db/dt = a(s − ab)."""
    time = np.linspace(0, until, 101)
    begin = np.sqrt(start) * np.array([uneven, 1 / uneven])
    solved = [
        solve_ivp(lambda _, ab, s=s: ab[::-1] * (s - ab.prod()), (0, until), begin, t_eval=time, rtol=1e-11, atol=1e-13)
        for s in STRENGTHS
    ]
    values = np.stack([solution.y.prod(axis=0) for solution in solved], axis=1)
    return trajectory({"learned": (("time", "mode"), values)}, {"time": time, **MODES})


eq8 = Claim(
    id="deep_linear/eq8",
    source="Section 1.1, eq. 8",
    whose="the paper's statement",
    says="A mode that starts with equal weights on both sides of the hidden layer is learned along an S-shaped curve.",
    predict=_curves,
    observe=_integrated,
    compare=close("learned", FLOW, by="by eq. 8", seen="by integration"),
    settings={"fast": {"start": 1e-3, "until": 6.0}},
    control=Control("the weights on one side are nine times as large as on the other", {"uneven": 3.0}),
)


def _trained_shares(size: float, rate: float, steps: int, correlated: float = 0.0) -> xr.Dataset:
    run = experiments.modes(STRENGTHS, 1, "aligned", size, 3, rate, steps, correlated)
    share = (run.learned / run.strength).isel(seed=0).transpose("time", "mode")
    return trajectory({"share": (("time", "mode"), share.values)}, {"time": run.time.values, **MODES})


def _aligned_shares(size: float, rate: float, steps: int) -> xr.Dataset:
    time = rate * np.arange(0, steps + 1, max(1, steps // 200))
    values = theory.learned(time[:, None], np.array(STRENGTHS), np.array(size**2)) / np.array(STRENGTHS)
    return trajectory({"share": (("time", "mode"), values)}, {"time": time, **MODES})


modes_aligned = Claim(
    id="deep_linear/modes_aligned",
    source="Section 1.1, eq. 8 and Fig 3",
    whose="the paper's statement",
    says="Gradient descent on whitened inputs, from weights in line with the data, learns each mode along its curve.",
    predict=_aligned_shares,
    observe=_trained_shares,
    compare=close("share", STEPS, relative=False, by="by eq. 8", seen="in training"),
    settings={
        "fast": {"size": 0.05, "rate": 0.002, "steps": 3000},
        "full": {"size": 0.001, "rate": 0.0005, "steps": 24000},
    },
    control=Control("inputs are correlated instead of whitened", {"correlated": 2.0}),
)  # fmt: skip


def _starts(size: float, seeds: int, next_mode: bool = False) -> xr.Dataset:
    """What the weights before training say: ln u_0 of every mode; `next_mode` takes that of the next one."""
    listed = seed_list(seeds)
    data = [experiments.Data(STRENGTHS, seed) for seed in listed]
    weights = experiments.starts("random", listed, size, experiments.units_of(3))
    begin = experiments.modes_at_start(weights, data, len(STRENGTHS)).T
    begin = np.roll(begin, -1, axis=0) if next_mode else begin
    return trajectory({"start": (("mode", "seed"), np.log(begin))}, {"seed": listed, **MODES})


def _starts_by_times(size: float, rate: float, steps: int, seeds: int) -> xr.Dataset:
    """The ln u_0 from which a mode takes as long to its half as training does (eq. 7)."""
    half = _half_times(size, rate, steps, seeds).half
    s = np.array(STRENGTHS)[:, None]
    start = np.log(s / (1 + np.exp(2 * s * half.values)))
    return trajectory({"start": (("mode", "seed"), start)}, {"seed": seed_list(seeds), **MODES})


modes_random = Claim(
    id="deep_linear/modes_random",
    source="Section 1.1, Fig 3; the start that counts is derived here",
    whose="our own expectation",
    says=(
        "From small random weights modes follow the same curves, each from a start that can be computed before "
        "training: the squared mean of the weights into and out of the hidden layer along that mode."
    ),
    finding=(
        "The paper derives its curves for starts in line with the data and finds that random ones behave alike. With "
        "the start computed this way, half of each mode is learned within 1 % of the predicted time (64 hidden units, "
        "steps of .002), and which seed is early or late is predicted too: ln u_0 differs by .15 between seeds, and "
        "training agrees with it to .03 (correlation .99). With 8 hidden units weak modes come up to 10 % later, "
        "because modes share units."
    ),
    predict=_starts,
    observe=_starts_by_times,
    compare=close(
        "start", RANDOM_START, relative=False, by="by the weights before training",
        seen="by the time to half"
    ),
    settings={
        "fast": {"size": 0.001, "rate": 0.002, "steps": 6000, "seeds": 3},
        "full": {"size": 0.001, "rate": 0.0005, "steps": 24000, "seeds": 10},
    },
    control=Control("each mode has the start of the next one", {"next_mode": True}),
)  # fmt: skip


def _half_times(size: float, rate: float, steps: int, seeds: int, hidden: bool = True) -> xr.Dataset:
    run = experiments.modes(STRENGTHS, seeds, "random", size, 3 if hidden else 2, rate, steps)
    halves = experiments.half_times(run.learned, run.strength).transpose("mode", "seed")
    return trajectory(
        {"half": (("mode", "seed"), halves.values), "mean": ("strength", halves.mean("seed").values)},
        {**MODES, "strength": list(STRENGTHS)},
    )


strong_first = Claim(
    id="deep_linear/strong_first",
    source="Section 1.1, eq. 7",
    whose="the paper's statement",
    says=(
        "A network with a hidden layer learns strong modes first: the time falls as 1/s. Without a hidden layer all "
        "modes are learned at the same time."
    ),
    observe=_half_times,
    compare=every(slope("mean", "strength", -1.0, INVERSE), ranked("half", "mode", rising=True)),
    settings={
        "fast": {"size": 0.001, "rate": 0.01, "steps": 1200, "seeds": 5},
        "full": {"size": 0.001, "rate": 0.002, "steps": 6000, "seeds": 20},
    },
    control=Control("a network without a hidden layer", {"hidden": False}),
)


def _balance(rate: float, steps: int, seeds: int, decay: float = 0.0) -> xr.Dataset:
    """W₂ᵀW₂ − W₁W₁ᵀ relative to its own size at the start, over training from weights of size 1."""
    states, _ = experiments.train("random", STRENGTHS, seed_list(seeds), 1.0, 3, rate, steps, decay=decay)
    kept = [
        after.mT @ after - before @ before.mT for before, after in (states[k] for k in range(0, steps + 1, steps // 20))
    ]
    size = kept[0].square().sum((1, 2)).sqrt()
    left = np.array([((difference * kept[0]).sum((1, 2)) / size**2).numpy() for difference in kept])
    time = rate * np.arange(0, steps + 1, steps // 20)
    return trajectory({"balance": (("time", "seed"), left)}, {"time": time})


balance = Claim(
    id="deep_linear/balance",
    source="Section 1.1, below eq. 6",
    whose="the paper's statement",
    says="Training keeps what the weights out of the hidden layer have more than those into it: W₂ᵀW₂ − W₁W₁ᵀ.",
    observe=_balance,
    compare=conserved("balance", DRIFT),
    settings={
        "fast": {"rate": 0.0005, "steps": 2000, "seeds": 2},
        "full": {"rate": 0.0002, "steps": 10000, "seeds": 5},
    },
    control=Control("weight decay", {"decay": 0.1}),
)  # fmt: skip


def _deep_shares(layers: int, size: float, rate: float, steps: int) -> xr.Dataset:
    time = rate * np.arange(0, steps + 1, max(1, steps // 200))
    values = [theory.deep_learned(time, s, size ** (layers - 1), layers) / s for s in STRENGTHS]
    return trajectory({"share": (("time", "mode"), np.stack(values, 1))}, {"time": time, **MODES})


def _deep_training(layers: int, size: float, rate: float, steps: int, uneven: float = 1.0) -> xr.Dataset:
    states, data = experiments.train("aligned", STRENGTHS, [1], size, layers, rate, steps, uneven=uneven)
    every_ = range(0, steps + 1, max(1, steps // 200))
    seen = experiments.learned_modes([states[k] for k in every_], data, 4)[:, 0] / np.array(STRENGTHS)
    return trajectory({"share": (("time", "mode"), seen)}, {"time": rate * np.array(every_), **MODES})


deeper = Claim(
    id="deep_linear/deeper",
    source="Section 2, eq. 17",
    whose="the paper's statement",
    says=(
        "With more layers u grows by (N_l − 1)·(s − u) times u to the power 2 − 2/(N_l − 1) per unit of time: a longer "
        "wait, then a steeper rise."
    ),
    predict=_deep_shares,
    observe=_deep_training,
    compare=close("share", STEPS, relative=False, by="by eq. 17", seen="in training"),
    settings={
        "fast": {"layers": 5, "size": 0.5, "rate": 0.0005, "steps": 4000},
        "full": {"layers": 9, "size": 0.7, "rate": 0.00005, "steps": 30000},
    },
    control=Control("the first layer starts at half the size of the others", {"uneven": 0.5}),
)  # fmt: skip


def _limit_error(depths: tuple[int, ...], start: float, end: float, last_terms: bool = True) -> xr.Dataset:
    limit = theory.infinitely_deep_time(1.0, start, end, last_terms)
    errors = [abs(depth * theory.deep_time(1.0, start, end, depth) / limit - 1) for depth in depths]
    return trajectory({"error": ("layers", errors)}, {"layers": list(depths)})


infinite_depth = Claim(
    id="deep_linear/infinite_depth",
    source="Section 2, eq. 18",
    whose="the paper's statement",
    says="N_l times the time that N_l layers take has a limit for infinite depth, which is reached as 1/N_l.",
    observe=_limit_error,
    compare=slope("error", "layers", -1.0, FIRST_ORDER),
    settings={"fast": {"depths": (64, 256, 1024, 4096), "start": 0.5, "end": 0.9}},
    control=Control("the formula without its last two terms", {"last_terms": False}),
)


def _steps(layers: tuple[int, ...], kind: str, rates: tuple[float, ...], seeds: int, steps: int) -> xr.Dataset:
    setting = {"rates": rates, "seeds": seeds, "steps": steps, "loss_left": 0.01}
    run = FIG6.run(start=(kind,), layers=layers, **setting)
    needed = run.steps.isel(start=0, drop=True).fillna(steps)
    growth = float(needed.isel(layers=-1).mean() / needed.isel(layers=0).mean())
    return trajectory({"steps": (("layers", "seed"), needed.values), "growth": growth}, {"layers": list(layers)})


orthogonal_start = Claim(
    id="deep_linear/orthogonal_start",
    source="Section 3, Fig 6",
    whose="the paper's statement",
    says=(
        "From orthogonal matrices, depth costs almost no time: with its best learning rate a network of 33 layers "
        "takes at most three times as many steps as one of 3. From random matrices it takes many times as many. (Three "
        "is our reading of almost none.)"
    ),
    observe=_steps,
    compare=bounded("growth", high=ALMOST_NO_TIME),
    settings={
        "fast": {"layers": (3, 17), "kind": "orthogonal", "rates": (0.1, 0.2, 0.4, 0.8), "seeds": 5, "steps": 300},
        "full": {"layers": (3, 33), "kind": "orthogonal", "rates": (0.1, 0.2, 0.4, 0.8), "seeds": 20, "steps": 600},
    },
    control=Control("random matrices in place of orthogonal ones", {"kind": "random"}),
)  # fmt: skip

CLAIMS = [eq8, modes_aligned, modes_random, strong_first, balance, deeper, infinite_depth, orthogonal_start]
