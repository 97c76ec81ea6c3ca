"""Theorem 3: how fast distinct tokens grow relative to each other."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import xarray as xr
from numpy import ndarray as Array

from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import bounded, close_relative, slope
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.claims.attention import weak_correlations
from foretrain.papers.scan_snap.experiments import flows
from foretrain.papers.scan_snap.experiments.random_classes import RandomClasses
from foretrain.papers.scan_snap.tolerances import IDENTITY_ON_FLOW

PAIRS = ("time", "instance", "class", "token", "other")


@lru_cache(maxsize=4)
def _flow(task: RandomClasses, vocab: int, eta_y: float, eta_z: float, until: float) -> xr.Dataset:
    times = np.linspace(0, until, 41)
    return flows.attention_flow(task.probabilities, task.query, vocab=vocab, eta_y=eta_y, eta_z=eta_z, save_at=times)


@lru_cache(maxsize=4)
def _descent(task: RandomClasses, eta_y: float, eta_z: float, length: int, batch: int) -> xr.Dataset:
    """Training on `batch` sampled sequences of each class per step."""
    draw, P = stream("scan_snap/theorem3", "sequences"), task.probabilities[:, :, None]
    shape = (task.instances, task.classes, batch)
    return flows.joint_descent(
        lambda: draw.multinomial(length - 1, P, size=shape),
        task.query,
        vocab=40,
        eta_y=eta_y,
        eta_z=eta_z,
        steps=400,
        save_every=10,
    ).isel(head=0)


def _own(task: RandomClasses, values: Array) -> Array:
    """The values [..., class, token] at the distinct tokens of each class: [..., class, slot]."""
    return np.take_along_axis(values, np.broadcast_to(task.own, (*values.shape[:-2], *task.own.shape)), axis=-1)


def _square_ratios(task: RandomClasses, z: Array) -> Array:
    """r + 1 = (c̃_l/c̃_l')² of all pairs of distinct tokens of a class, from their logits [..., class, slot]."""
    scores = np.log(_own(task, task.probabilities)) + z
    return np.exp(2 * (scores[..., :, None] - scores[..., None, :]))


def _ratios_from_one_logit(
    task: RandomClasses, vocab: int, eta_y: float, eta_z: float, until: float, length: int | None = None, batch: int = 8
) -> xr.Dataset:
    """Eq. 11: the ratio of l to l' at any time, from the ratio at the start and the logit of l alone."""
    times, z = _logits(task, vocab, eta_y, eta_z, until, length, batch)
    start = _square_ratios(task, z[0]) - 1
    return trajectory({"ratio": (PAIRS, 1 + theory.relative_gain(start, (z - z[0])[..., None]))}, {"time": times})


def _ratios_measured(
    task: RandomClasses, vocab: int, eta_y: float, eta_z: float, until: float, length: int | None = None, batch: int = 8
) -> xr.Dataset:
    times, z = _logits(task, vocab, eta_y, eta_z, until, length, batch)
    return trajectory({"ratio": (PAIRS, _square_ratios(task, z))}, {"time": times})


def _logits(
    task: RandomClasses, vocab: int, eta_y: float, eta_z: float, until: float, length: int | None, batch: int
) -> tuple[Array, Array]:
    """Times and logits of the distinct tokens [time, instance, class, slot]: on the flow of eq. 10, or by training."""
    flow = _flow(task, vocab, eta_y, eta_z, until) if length is None else _descent(task, eta_y, eta_z, length, batch)
    return flow["time"].values, _own(task, flow["z"].values)


theorem3 = Claim(
    id="scan_snap/theorem3",
    source="Theorem 3, eq. 11",
    says="For two distinct tokens of a class, r = f_l²/f_l'² − 1 is r(0)·exp(2(z_l(t) − z_l(0))): "
    "the logit of l alone tells how far it leaves l' behind.",
    predict=_ratios_from_one_logit,
    observe=_ratios_measured,
    compare=close_relative("ratio", IDENTITY_ON_FLOW),
    settings={
        "fast": {"task": RandomClasses(), "vocab": 10**6, "eta_y": 0.5, "eta_z": 0.5, "until": 4000.0},
        "full": {
            "task": RandomClasses(instances=50, per_query=3, distinct=6, share=(0.03, 0.08)),
            "vocab": 10**8,
            "eta_y": 0.5,
            "eta_z": 0.5,
            "until": 1e5,
        },
    },
    control=Control(
        "decoder and attention train together at one rate, on sampled sequences: Assumption 1(c) excludes it",
        {"length": 128, "batch": 8},
    ),
)


def _growth_factor_bounds(
    task: RandomClasses, vocab: int, eta_y: float, eta_z: float, until: float, rank: int = -1
) -> xr.Dataset:
    flow = _flow(task, vocab, eta_y, eta_z, until).isel(time=slice(1, None))  # at t = 0 all three are 1
    f = _own(task, theory.features(task.probabilities, np.zeros_like(task.probabilities)))
    low, high = theory.growth_factor_bounds(flow["growth"].values, feature=np.sort(f, axis=-1)[..., rank])
    return trajectory({"low": (PAIRS[:3], low), "high": (PAIRS[:3], high)}, {"time": flow["time"].values})


def _growth_factor(
    task: RandomClasses, vocab: int, eta_y: float, eta_z: float, until: float, rank: int = -1
) -> xr.Dataset:
    """χ of the distinct token with this rank in P(l|n); the last one (rank −1) is dominant."""
    flow = _flow(task, vocab, eta_y, eta_z, until).isel(time=slice(1, None))
    z = _own(task, flow["z"].values)
    slot = np.argsort(_own(task, task.probabilities), axis=-1)[..., rank]
    gain = np.take_along_axis(z, np.broadcast_to(slot[..., None], (*z.shape[:-1], 1)), axis=-1)[..., 0]
    return trajectory({"growth_factor": (PAIRS[:3], theory.growth_factor(gain))}, {"time": flow["time"].values})


theorem3_bounds = Claim(
    id="scan_snap/theorem3_bounds",
    source="Theorem 3, eq. 12",
    says="The growth factor of the dominant distinct token lies between exp(2·f_{nl0}(0)²·B_n) and exp(2·B_n).",
    predict=_growth_factor_bounds,
    observe=_growth_factor,
    compare=bounded("growth_factor", low="low", high="high", slack=IDENTITY_ON_FLOW),
    settings=theorem3.settings,
    control=Control("a token that is not dominant", {"rank": 0}),
    assumes=(weak_correlations,),
)


def _defect_of_training(
    task: RandomClasses, vocab: int, eta_y: float, eta_z: tuple[float, ...], until: float
) -> xr.Dataset:
    """How far eq. 11 is off when decoder and attention train together, as a share of the growth itself."""
    defects = []
    for rate in eta_z:
        flow = flows.joint_flow(
            task.probabilities,
            task.query,
            vocab=vocab,
            eta_y=eta_y,
            eta_z=rate,
            save_at=np.array([0.0, until]),
            rtol=1e-10,
        )
        z = _own(task, flow["z"].values[-1, :, 0])
        start, end = _square_ratios(task, np.zeros_like(z)) - 1, _square_ratios(task, z) - 1
        off_diagonal = ~np.eye(task.distinct, dtype=bool)
        off = (end - theory.relative_gain(start, z[..., None]))[..., off_diagonal]
        defects.append(np.linalg.norm(off) / np.linalg.norm((end - start)[..., off_diagonal]))
    return trajectory({"defect": ("ratio", defects)}, {"ratio": np.array(eta_z) / eta_y})


theorem3_training = Claim(
    id="scan_snap/theorem3_training",
    source="Theorem 3, eq. 11, under eq. 7 and 94",
    says="When decoder and attention train together, eq. 11 is off by a share of the growth that falls in proportion "
    "to η_Z/η_Y: the decoder still remembers the features it was trained on (Assumption 1c).",
    predict=lambda: trajectory({"slope": ((), 1.0)}),
    observe=_defect_of_training,
    compare=slope("defect", "ratio", 1.0),
    settings={
        "fast": {
            "task": RandomClasses(queries=1, share=(0.2, 0.4)),
            "vocab": 30,
            "eta_y": 0.5,
            "eta_z": (0.001, 0.003, 0.01, 0.03),
            "until": 100.0,
        },
    },
    control=Control("attention learns as fast as the decoder, or faster", {"eta_z": (0.5, 1.5, 5.0)}),
)

CLAIMS = [theorem3, theorem3_bounds, theorem3_training]
