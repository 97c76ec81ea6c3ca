"""Sections 5 and 7: residual connection, positional bias and several heads."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy import ndarray as Array
from numpy.typing import ArrayLike
from scipy.special import softmax

from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory
from foretrain.data import SequenceClasses
from foretrain.data.sequence_classes import SequenceBatch
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import close, every, positive
from foretrain.ledger.tolerances import EXACT
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.claims.attention import decoder_first
from foretrain.papers.scan_snap.simulations import flows

if TYPE_CHECKING:
    from foretrain.models import Bilinear
    from foretrain.models.bilinear import Samples

State = dict[str, Array]

# Residual connection


@cache
def _crossed_task(instance: int, queries: int, per_query: int) -> tuple[SequenceClasses, SequenceBatch]:
    """The j-th class of every query has the same two tokens: shared between queries, distinct within each query.

    All classes also have one common token, and each has two tokens of its own. The batch has one sequence per class,
    whose tokens are exactly in proportion to P: with whole-number weights it stands for an infinitely long sequence.
    """
    classes, shared = queries * per_query, 1 + 2 * per_query
    context = shared + 2 * classes
    n = np.arange(classes)
    weights = np.zeros((classes, context + queries + classes), dtype=np.int64)
    draw = stream("scan_snap/residual", instance, queries, per_query)
    weights[:, 0] = draw.integers(400, 800, classes)
    for first in (1 + 2 * (n % per_query), shared + 2 * n):
        weights[n[:, None], first[:, None] + [0, 1]] = draw.integers(150, 300, (classes, 2))
    task = SequenceClasses(
        weights / weights.sum(axis=1, keepdims=True), context + n // per_query, context + queries + n
    )
    return task, SequenceBatch(task, n, np.take_along_axis(weights, task.support, axis=1))


def _local_fates(instances: int, queries: int, per_query: int) -> xr.Dataset:
    tasks = [_crossed_task(i, queries, per_query)[0] for i in range(instances)]
    fate = np.stack([theory.fates(task.probabilities, task.query, local=True) for task in tasks])
    return trajectory({"fate": (("instance", "class", "token"), fate)})


def _fates_with_residual(
    instances: int, queries: int, per_query: int, eta_y: float, eta_z: float, until: float, residual: bool = True
) -> xr.Dataset:
    """The signs of all logits' velocities, and by how much β within a query exceeds β between queries."""
    import torch  # only the residual claim trains a model; loading torch takes seconds

    from foretrain.dynamics.flow import integrate
    from foretrain.models import Bilinear

    times, fate, contrast = np.linspace(0, until, 11), [], []
    for i in range(instances):
        task, batch = _crossed_task(i, queries, per_query)
        model = Bilinear(task, residual=residual, dtype=torch.float64)
        samples = model.prepare([batch])

        def field(_: float, state: State, model: Bilinear = model, samples: Samples = samples) -> State:
            blocks = {name: torch.from_numpy(value)[None, None] for name, value in state.items()}
            gradient = model.gradient(blocks, samples, queries * per_query)
            return {name: -(eta_y if name[0] == "Y" else eta_z) * g[0, 0].numpy() for name, g in gradient.items()}

        start = {name: block[0].numpy() for name, block in model.start([("scan_snap/residual", 0, "start")]).items()}
        flow = integrate(field, start, until=until, save_at=times, rtol=1e-8, atol=1e-10)
        states = [{str(name): flow[name].values[t] for name in flow.data_vars} for t in range(1, len(times))]
        fate.append([np.sign(_matrices(model, field(0.0, state))[1][task.query]) for state in states])
        contrast.append([_contrast(model, state) for state in states])
    axes = ("instance", "time", "class")
    variables = {"fate": ((*axes, "token"), np.array(fate)), "contrast": (axes, np.array(contrast))}
    return trajectory(variables, {"time": times[1:]})


def _matrices(model: Bilinear, state: State) -> tuple[Array, Array]:
    """Y and Z as full matrices."""
    import torch

    Y, Z = model.full({name: torch.from_numpy(value) for name, value in state.items()})
    return Y.numpy(), Z.numpy()


def _contrast(model: Bilinear, state: State) -> Array:
    """For each class, its smallest β_nn' with a class of the same query minus its largest with one of another query.

    −β_nn' is the coefficient of f_n' when g_n = Y(e_n − α_n) is written in the basis of the features.
    """
    task, (Y, Z) = model.task, _matrices(model, state)
    f = theory.features(task.probabilities, Z[task.query])
    if model.residual:
        f = (f + np.eye(task.vocab)[task.query]) / 2**0.5
    error = np.eye(task.vocab)[task.label] - softmax(f @ Y, axis=-1)
    beta = -np.linalg.lstsq(f.T, Y @ error.T, rcond=None)[0].T
    same = task.query[:, None] == task.query[None, :]
    within = np.where(same & ~np.eye(task.classes, dtype=bool), beta, np.inf).min(axis=1)
    return within - np.where(same, -np.inf, beta).max(axis=1)


residual = Claim(
    id="scan_snap/residual",
    source="Section 7, residual connection",
    says="With a residual connection β_nn' is larger for classes of the same query than for any other, and Theorem 2 "
    "holds within each query: a token distinct among its classes gains attention even if classes of other queries "
    "have it too.",
    predict=_local_fates,
    observe=_fates_with_residual,
    compare=every(
        close("fate", EXACT, relative=False, by="within each query", seen="in training"), positive("contrast")
    ),
    whose="the paper's statement",
    settings={
        "fast": {"instances": 2, "queries": 2, "per_query": 2, "eta_y": 1.0, "eta_z": 0.01, "until": 200.0},
        "full": {"instances": 10, "queries": 3, "per_query": 3, "eta_y": 1.0, "eta_z": 0.01, "until": 400.0},
    },
    control=Control("no residual connection", {"residual": False}),
    assumes=(decoder_first,),
)


# Positional bias

HALF_WEIGHTS = np.array([[0.50, 0.30, 0.20], [0.45, 0.33, 0.22]])  # distinct tokens of the first and second half


def _bias(length: int, slope: float) -> Array:
    """z0 at each of the T − 1 context positions: linear in the distance to the query, as in ALiBi."""
    return -slope * np.arange(length - 1, 0, -1)


def _half_of(length: int) -> Array:
    """Which half of the sequence each context position is in: 0 or 1."""
    return (2 * np.arange(length - 1) // (length - 1)).astype(int)


def _ranks_by_prior(length: int, slope: float) -> xr.Dataset:
    """Ranks of P(l|n)·exp(z0): the tokens of a half get the mean of exp(z0) over its positions."""
    half = _half_of(length)
    prior = [weights * np.exp(_bias(length, slope))[half == h].mean() for h, weights in enumerate(HALF_WEIGHTS)]
    return trajectory({"rank": ("token", _ranks(prior))})


def _ranks(values: ArrayLike) -> Array:
    from scipy.stats import rankdata  # 0.4 s to load, and only the claim on positions ranks

    return rankdata(values, axis=None)


def _ranks_by_training(
    length: int, slope: float, seeds: int, batch: int, steps: int, eta_y: float, eta_z: float, applied: bool = True
) -> xr.Dataset:
    """Ranks of the attention that distinct tokens gained in training on sequences with positions.

    There are two classes of one query. Token 0 is common; tokens 1–6 belong to the first class and 7–12 to the second.
    Three of each occur in the first half of a sequence, three in the second.
    """
    draw, common, half = stream("scan_snap/positional_bias", seeds, batch), 0.3, _half_of(length)
    weight = np.exp(_bias(length, slope)) if applied else np.ones(length - 1)
    shape = (seeds, 2, batch, length - 1)
    edges = common + (1 - common) * np.cumsum(HALF_WEIGHTS, axis=1)[:, :2]  # [half, 2]
    rows = np.arange(seeds * 2 * batch).reshape(seeds, 2, batch, 1)

    def draw_counts() -> Array:
        u = draw.random(shape)
        slot = (u[..., None] > edges[half]).sum(axis=-1)
        token = np.where(u < common, 0, 1 + 6 * np.arange(2)[:, None, None] + 3 * half + slot)
        weights = np.broadcast_to(weight, shape).ravel()
        return np.bincount((13 * rows + token).ravel(), weights, minlength=13 * rows.size).reshape(*shape[:3], 13)

    trained = flows.joint_descent(
        draw_counts, np.zeros(2, int), vocab=20, eta_y=eta_y, eta_z=eta_z, steps=steps, save_every=steps
    )
    gained = trained["z"].values[-1, :, 0, 0, 1:].mean(axis=0).reshape(2, 6).mean(axis=0)  # both classes are alike
    return trajectory({"rank": ("token", _ranks(gained))})


positional_bias = Claim(
    id="scan_snap/positional_bias",
    source="Section 7, positional encoding",
    says="A bias z0 added to the attention logits by position acts as a prior: distinct tokens gain attention in the "
    "order of P(l|n)·exp(z0), not of P(l|n). The sequences must be long: with 64 tokens rare ones lose their rank.",
    predict=_ranks_by_prior,
    observe=_ranks_by_training,
    compare=close("rank", EXACT, relative=False, by="by the prior", seen="in training"),
    whose="the paper's statement",
    settings={
        "fast": {"length": 1025, "slope": 0.003, "seeds": 4, "batch": 2, "steps": 200, "eta_y": 1.0, "eta_z": 0.05},
        "full": {"length": 1025, "slope": 0.003, "seeds": 10, "batch": 8, "steps": 1000, "eta_y": 1.0, "eta_z": 0.05},
    },
    control=Control("training without the bias", {"applied": False}),
)


# Heads


def _head_starts(heads: int, classes: int, distinct: int, spread: float) -> tuple[Array, Array]:
    """P [1, class, token] with equally frequent distinct tokens, and z(0) [1, head, class, token]: one row per head."""
    tokens = 1 + classes * distinct
    P = np.hstack([np.full((classes, 1), 0.3), np.kron(np.eye(classes), np.full(distinct, 0.7 / distinct))])
    z = stream("scan_snap/heads", heads, classes, distinct).normal(0, spread, (1, heads, 1, tokens))
    return P[None], np.broadcast_to(z, (1, heads, classes, tokens))


def _winners(scores: Array, classes: int, distinct: int) -> xr.Dataset:
    """From scores [head, class, token]: the best distinct token of each class in each head, and how many differ."""
    by_class = np.stack([scores[:, n, 1 + n * distinct : 1 + (n + 1) * distinct] for n in range(classes)], axis=1)
    winner = by_class.argmax(axis=-1)
    different = [len(set(column)) for column in winner.T.tolist()]
    return trajectory({"winner": (("head", "class"), winner), "further_winners": ("class", np.array(different) - 1.0)})


def _winners_by_prior(heads: int, classes: int, distinct: int, spread: float, shift: int = 0) -> xr.Dataset:
    """The winners by P(l|n)·exp(z(0)); with a `shift`, every head is compared with the prior of another one."""
    P, z = _head_starts(heads, classes, distinct, spread)
    return _winners(P * np.exp(np.roll(z[0], shift, axis=0)), classes, distinct)


def _winners_by_training(
    heads: int, classes: int, distinct: int, spread: float, eta_y: float, eta_z: float, until: float
) -> xr.Dataset:
    """The distinct token that gained most in each head. All heads train together, and their outputs are added."""
    P, z = _head_starts(heads, classes, distinct, spread)
    rates, times = {"eta_y": eta_y, "eta_z": eta_z}, np.array([0.0, until])
    flow = flows.joint_flow(P, np.zeros(classes, int), vocab=30, **rates, save_at=times, start=z, rtol=1e-9)
    return _winners(flow["z"].values[-1, 0] - z[0], classes, distinct)


heads = Claim(
    id="scan_snap/heads",
    source="Section 5, initial value as prior information",
    says="Heads that start at different z(0) end on different tokens: in each head the distinct token with the largest "
    "P(l|n)·exp(z(0)) gains most.",
    predict=_winners_by_prior,
    observe=_winners_by_training,
    compare=every(
        close("winner", EXACT, relative=False, by="by z(0)", seen="in training"), positive("further_winners")
    ),
    whose="the paper's statement",
    settings={
        "fast": {"heads": 4, "classes": 3, "distinct": 6, "spread": 0.5, "eta_y": 1.0, "eta_z": 0.2, "until": 400.0},
        "full": {"heads": 16, "classes": 5, "distinct": 10, "spread": 0.5, "eta_y": 1.0, "eta_z": 0.2, "until": 1000.0},
    },
    control=Control("every head is held to the prior of the next one", {"shift": 1}),
)

CLAIMS = [residual, positional_bias, heads]
