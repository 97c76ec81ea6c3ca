"""Figures 4 and 9, and phase portraits: the theory, drawn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, get_args

import numpy as np
import xarray as xr
from pydantic import Field
from scipy.special import softmax

from foretrain.core.errors import require, require_at_least, require_known, require_positive
from foretrain.core.trajectory import trajectory
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, Positive, about
from foretrain.papers.joma import theory
from foretrain.papers.joma.experiments.parameters import Density, Variant
from foretrain.papers.joma.simulations.cdag import cdag

# Fig 4: ten targets drawn uniformly from 1 to 4 (those of the published figure).
FIG4_TARGETS = (1.265432, 1.396091, 1.922268, 2.366884, 2.470280, 2.488770, 2.896919, 2.902236, 3.304665, 3.689334)

# How v moves: towards μ (nonlinear activation) or along Δ = μ (linear); attention exp(v²/T), normalised or not.
VARIANTS: dict[Variant, Mapping[str, Any]] = {
    # the published figure: T = 3, and attention is normalised
    "published": {"temperature": 3.0, "normalised": True, "start": 0.05, "rate": 0.02},
    # eq. 6 as written. With steps of this size the fastest component overshoots: the entropy falls to .137 (.149 with
    # steps of .001, .150 in the flow). But with smaller ones, 5000 steps would not show how it rises again
    "eq. 6": {"temperature": 2.0, "normalised": False, "start": 0.0, "rate": 0.002},
    # a linear activation: Δ pulls at v forever
    "linear": {"temperature": 3.0, "normalised": True, "start": 0.05, "rate": 0.02, "linear": True},
}


def attention_steps(
    targets: Sequence[float] = FIG4_TARGETS,
    *,
    steps: int,
    rate: float,
    start: float,
    temperature: float = 2.0,
    normalised: bool = False,
    linear: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Steps of eq. 6, v ← v + rate·(μ − v)∘exp(v²/T): v [step, component] and the entropy of softmax(v²/T) [step].

    If the steps are too long for a target, v overflows; from there on both are nan.
    """
    from foretrain.measures import entropy  # its package loads torch, which takes seconds

    mu = np.asarray(targets, dtype=np.float64)
    good = mu.ndim == 1 and mu.size >= 1 and bool(np.all(np.isfinite(mu) & (mu != 0)))
    require(
        good, f"targets must be at least one finite number, none of them 0 (leave those out); got {tuple(targets)}."
    )
    v = np.full((steps + 1, mu.size), np.nan)
    v[0], done = start, 0
    with np.errstate(over="ignore", invalid="ignore"):
        while done < steps:
            scale = softmax(v[done] ** 2 / temperature) if normalised else np.exp(v[done] ** 2 / temperature)
            after = v[done] + rate * (mu - (0 if linear else v[done])) * scale
            if not np.isfinite(after**2).all():
                break
            done += 1
            v[done] = after
    spread = np.full(steps + 1, np.nan)
    spread[: done + 1] = entropy(softmax(v[: done + 1] ** 2 / temperature, axis=-1))
    return v, spread


def fig4(
    targets: Annotated[
        Sequence[float], Field(min_length=1), about("Targets μ that the components of v move to; none of them 0.")
    ] = FIG4_TARGETS,
    variants: Annotated[
        Sequence[Variant], Field(min_length=1), about("How v moves: as in the published figure, by eq. 6, or linearly.")
    ] = get_args(Variant),
    steps: Annotated[Count, about("How many steps v makes.", unit="steps")] = 5000,
) -> xr.Dataset:
    """Fig 4: the components of v, and the entropy of attention, which falls and then rises again.

    A variant whose steps are too long for a target diverges: it is nan from then on, and `diverged_at` has the step.
    """
    require_at_least("steps", steps, 1)
    require(len(variants) >= 1, f"variants must name at least one of {', '.join(VARIANTS)}; got none.")
    for variant in variants:
        require_known("variant", variant, VARIANTS)
    runs = [attention_steps(targets, steps=steps, **VARIANTS[variant]) for variant in variants]
    lasted = np.array([np.isfinite(h).sum() for _, h in runs])
    for variant, step in zip(variants, lasted, strict=True):
        if step <= steps:
            warnings.warn(
                f"{variant} diverged at step {step}: steps of {VARIANTS[variant]['rate']:g} are too long for a target "
                f"of {max(targets, key=abs):g}, where attention grows as exp(v²); give smaller targets.",
                stacklevel=2,
            )
    return trajectory(
        {
            "v": (("variant", "time", "component"), np.stack([v for v, _ in runs])),
            "entropy": (("variant", "time"), np.stack([h for _, h in runs])),
            "target": ("component", np.asarray(targets)),
            "diverged_at": ("variant", np.where(lasted <= steps, lasted, np.nan)),
        },
        {"variant": list(variants), "time": np.arange(steps + 1)},
        units={"entropy": "nats", "time": "steps", "diverged_at": "steps"},
        settings={variant: dict(VARIANTS[variant]) for variant in variants},
    )


FIG9_DENSITIES: dict[Density, theory.RadialDensity] = {
    "Gaussian": theory.gaussian(),
    "uniform": theory.uniform_ball(),
    "Laplace": theory.laplace(),
    "Student-t(3)": theory.student_t(),
    "Student-t(1.5)": theory.student_t(freedom=1.5),
    "Gaussian of scales 1 and 10": theory.gaussian_mixture(),
}


def fig9(
    densities: Annotated[
        Sequence[Density], Field(min_length=1), about("Isotropic densities of the inputs, in one dimension.")
    ] = get_args(Density),
    points: Annotated[Count, about("How many values of y, evenly between 0 and 1.")] = 199,
    distance: Annotated[Positive, about("Distance of the two means, in units of θ2(0)·√(2π).")] = 2.0,
) -> xr.Dataset:
    """Fig 9: G(y) and G(y)/y of Lemma 4; a value that G(y)/y takes twice makes a critical point.

    G is divided by its value at ½, so that the scale of the density cancels. `condition` is the left side of eq. 58,
    and `critical_points` counts the critical points for means that are `distance` apart. The unit of `distance` is
    θ2(0)·√(2π), which is 1 for the standard normal distribution.
    """
    require_at_least("points", points, 1)
    require_positive("distance", distance)
    require(len(densities) >= 1, f"densities must name at least one of {', '.join(FIG9_DENSITIES)}; got none.")
    for name in densities:
        require_known("density of Fig 9", name, FIG9_DENSITIES)
    shapes = [FIG9_DENSITIES[name] for name in densities]
    y = np.arange(1, points + 1) / (points + 1)
    G = np.stack([theory.critical_function(y, s) / theory.critical_function(0.5, s) for s in shapes])
    spread = [float(theory.theta2(0.0, s)) * np.sqrt(2 * np.pi) for s in shapes]
    critical = [theory.critical_points(distance * u, s, reach=30 * u) for u, s in zip(spread, shapes, strict=True)]
    return trajectory(
        {
            "G": (("density", "y"), G),
            "G_over_y": (("density", "y"), G / (2 * y)),
            "condition": ("density", [theory.critical_condition(s) for s in shapes]),
            "critical_points": ("density", [sum(point.sign > 0 for point in row) for row in critical]),
        },
        {"density": list(densities), "y": y},
    )


# v̇ over Σ exp(v²/2), from v and μ
PORTRAITS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "uniform attention: μ − v": lambda v, mu: (mu - v) / v.shape[-1],
    "eq. 6: (μ − v)∘exp(v²/2)": lambda v, mu: (mu - v) * softmax(v**2 / 2, axis=-1),
    "linear, eq. 3: Δ∘exp(v²/2)": lambda v, mu: mu * softmax(v**2 / 2, axis=-1),
}


def phase(
    targets: Annotated[tuple[Positive, Positive], about("Targets μ of the two components of v.")] = (3.0, 2.0),
    starts: Annotated[
        int, Field(ge=2, le=10**9), about("How many paths, from points on a small quarter circle around 0.")
    ] = 4,
    grid: Annotated[int, Field(ge=2, le=10**9), about("Points along each axis at which the velocity is drawn.")] = 17,
) -> xr.Dataset:
    """Phase portraits of eq. 6 for two components, beside uniform attention and a linear activation.

    All fields are divided by Σ exp(v²/2), which changes the speed but not the paths. Paths start on a small quarter
    circle around 0, from one axis to the other.
    """
    from foretrain.dynamics.flow import integrate  # loads scipy's solvers, which listing claims can do without

    mu = np.asarray(targets, dtype=np.float64)
    require(mu.shape == (2,) and bool(np.all(mu > 0)), f"targets must be two numbers above 0; got {targets}.")
    require_at_least("starts", starts, 2)
    require_at_least("grid", grid, 2)
    reach = 1.25 * mu.max()
    axis = np.linspace(0, reach, grid)
    positions = np.stack(np.meshgrid(axis, axis), -1)  # [v2, v1, component]
    angles = np.linspace(0, np.pi / 2, starts)
    first = 0.15 * np.stack([np.cos(angles), np.sin(angles)], -1)
    times = np.concatenate([[0.0], np.geomspace(0.01, 2e3, 160)])
    fields, paths = [], []
    for field in PORTRAITS.values():

        def move(_: float, state: dict[str, np.ndarray], field: Any = field) -> dict[str, np.ndarray]:
            return {"v": field(state["v"], mu)}

        fields.append(field(positions, mu))
        flow = integrate(
            move,
            {"v": xr.DataArray(first, dims=("start", "component"))},
            until=times[-1],
            save_at=times,
            method="LSODA",
            rtol=1e-9,
            atol=1e-11,
        )
        paths.append(flow["v"].values)
    return trajectory(
        {
            "velocity": (("portrait", "v2", "v1", "component"), np.stack(fields)),
            "path": (("portrait", "time", "start", "component"), np.stack(paths)),
            "target": ("component", mu),
        },
        {"portrait": list(PORTRAITS), "v1": axis, "v2": axis, "time": times},
        units={"time": "rescaled time"},
    )


EXPERIMENTS: list[Experiment] = [
    Experiment(
        "joma/fig4",
        "Components of v on the way to their targets, and the entropy of attention, which falls and then rises again",
        fig4,
        settings={"fast": {"steps": 1200}, "full": {}},
    ),
    Experiment(
        "joma/fig9",
        "G(y) and G(y)/y of Lemma 4 for several densities, and how many critical points each has",
        fig9,
        settings={"fast": {"points": 39}, "full": {}},
    ),
    Experiment(
        "joma/phase",
        "Phase portraits of eq. 6 for two components, beside uniform attention and a linear activation",
        phase,
        settings={"fast": {"grid": 9}, "full": {}},
    ),
    Experiment(
        "joma/cdag",
        "Share of edges in random graphs whose gradient correlates with a latent, by threshold, training and angle",
        cdag,
        batched={"seeds": "seed"},
        settings={"fast": {"seeds": 2, "graphs": 10, "steps": (0, 10), "samples": 128}, "full": {}},
    ),
]
