"""Section 3 and appendices C, H: the gradients of one sequence, and their limit for long ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy import ndarray as Array

from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory
from foretrain.data import SequenceClasses
from foretrain.data.sequence_classes import SequenceBatch
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import bounded, close, every, slope
from foretrain.ledger.tolerances import GRADIENT
from foretrain.papers.scan_snap import theory

if TYPE_CHECKING:
    import torch

    from foretrain.models import Bilinear

STRENGTH = 5.0  # Y and Z are this many times their usual start, so that attention and output are far from even


def _instance(seed: int, vocab: int, classes: int, length: int) -> tuple[Bilinear, dict[str, torch.Tensor]]:
    """A model of a random task with common, distinct and unused tokens, and random parameters."""
    import torch  # only Lemma 1 needs a model; loading torch takes seconds

    from foretrain.models import Bilinear

    draw = stream("scan_snap/lemma1", seed, "task")
    occurs = (draw.random((classes, vocab)) < 0.35) | np.eye(classes, vocab, dtype=bool)
    P = draw.dirichlet(np.ones(vocab), classes) * occurs
    task = SequenceClasses(
        P / P.sum(axis=1, keepdims=True),
        query=draw.integers(0, vocab, classes),
        label=draw.permutation(vocab)[:classes],
        length=length,
    )
    model = Bilinear(task, start="uniform", dtype=torch.float64)
    start = model.start([("scan_snap/lemma1", seed, "start")])
    return model, {name: STRENGTH * block[None] for name, block in start.items()}


def _batch(model: Bilinear, seed: int, samples: int) -> tuple[SequenceBatch, Array]:
    """A batch, and its contexts as one-hot rows [sample, position, vocab]."""
    batch = model.task.sample(samples, stream("scan_snap/lemma1", seed, "data"), sequences=True)
    assert batch.sequences is not None
    return batch, np.eye(model.task.vocab)[batch.sequences]


def _gradients_by_formula(
    seeds: int, vocab: int, classes: int, length: int, samples: int, project: bool = True
) -> xr.Dataset:
    """Eq. 3 on each sequence, and the gradient of `Bilinear` on their counts."""
    gradients = []
    for seed in range(seeds):
        model, parameters = _instance(seed, vocab, classes, length)
        batch, X = _batch(model, seed, samples)
        Y, Z = (matrix[0, 0].numpy() for matrix in model.full(parameters))
        each = [
            theory.loss_gradients(x, Y, Z, query=int(q), label=int(n), project=project)
            for x, q, n in zip(X, batch.queries, batch.labels, strict=True)
        ]
        by_counts = model.full(model.gradient(parameters, model.prepare([batch]), samples))
        gradients.append([np.mean(each, axis=0), -np.stack([matrix[0, 0].numpy() for matrix in by_counts])])
    return _matrices(np.array(gradients), ("seed", "route"), {"route": ["eq. 3", "Bilinear"]})


def _gradients_by_autograd(seeds: int, vocab: int, classes: int, length: int, samples: int) -> xr.Dataset:
    """The model of eq. 1 and 2 on one-hot sequences, differentiated by torch."""
    import torch

    gradients = []
    for seed in range(seeds):
        model, parameters = _instance(seed, vocab, classes, length)
        batch, one_hot = _batch(model, seed, samples)
        Y, Z = (matrix[0, 0].clone().requires_grad_() for matrix in model.full(parameters))
        X = torch.from_numpy(one_hot)
        b = torch.softmax((X @ Z[batch.queries].unsqueeze(-1)).squeeze(-1), dim=-1)
        f = torch.nn.functional.normalize((X * b.unsqueeze(-1)).sum(1), dim=-1)
        log_likelihood = torch.log_softmax(f @ Y, dim=-1)[range(samples), batch.labels].mean()
        gradients.append(np.stack([g.numpy() for g in torch.autograd.grad(log_likelihood, (Y, Z))]))
    return _matrices(np.array(gradients), ("seed",), {})


def _matrices(gradients: Array, lead: tuple[str, ...], coords: dict[str, list[str]]) -> xr.Dataset:
    axes = (*lead, "matrix", "row", "column")
    return trajectory({"gradient": (axes, gradients)}, {**coords, "matrix": ["Y", "Z"]})


lemma1 = Claim(
    id="scan_snap/lemma1",
    source="Lemma 1, eq. 3 and 4",
    says="The gradient of the log-likelihood is LN(Xᵀb)(x_{T+1} − α)ᵀ for Y, and for the query's row of Z it is "
    "Xᵀdiag(b)X·P⊥/‖Xᵀb‖·Y(x_{T+1} − α).",
    predict=_gradients_by_formula,
    observe=_gradients_by_autograd,
    compare=close("gradient", GRADIENT, by="by Lemma 1", seen="by autograd"),
    settings={
        "fast": {"seeds": 5, "vocab": 14, "classes": 4, "length": 12, "samples": 6},
        "full": {"seeds": 50, "vocab": 30, "classes": 6, "length": 64, "samples": 16},
    },
    control=Control("the projection P⊥ is left out", {"project": False}),
    whose="the paper's statement",
)


def _attention_of_sequences(lengths: tuple[int, ...], draws: int, failure: float, repeated: int = 1) -> xr.Dataset:
    """Distance of Xᵀb from its limit, and coverage of the token shares, over drawn sequences.

    For the control, each drawn token is `repeated` this many times in a row.
    """
    P = np.array([[0.5, 0.3, 0.15, 0.05, 0.0], [0.1, 0.4, 0.0, 0.2, 0.3]])  # Hoeffding's band is tightest near 1/2
    z = stream("scan_snap/lemma2", "logits").normal(0, 1, P.shape)
    limit = theory.attention_limit(P, z)
    draw = stream("scan_snap/lemma2", draws)
    distance, coverage = [], []
    for length in lengths:
        task = SequenceClasses(P, query=(0, 1), length=(length - 1) // repeated + 1)
        batch = task.sample(draws, draw)
        n, counts = batch.classes, repeated * batch.counts
        c = counts * np.exp(z[n])
        c /= c.sum(axis=1, keepdims=True)
        distance.append(abs(c - limit[n]).max(axis=1).mean())
        inside = abs(counts / (length - 1) - P[n]) <= theory.frequency_radius(length=length, failure=failure)
        coverage.append([inside[n == label].mean(axis=0) for label in range(task.classes)])
    return trajectory(
        {"distance": ("length", np.array(distance)), "coverage": (("length", "class", "token"), np.array(coverage))},
        {"length": list(lengths)},
    )


LENGTHS = tuple(2**k + 1 for k in range(6, 15))  # the query, and a context whose length the control's repeats divide

lemma2 = Claim(
    id="scan_snap/lemma2",
    source="Lemma 2, eq. 6; Lemma 18, eq. 136",
    says="As T grows, Xᵀb tends to c_n and Xᵀdiag(b)X to diag(c_n), at the rate T^(−1/2); the share of each token is "
    "within √(ln(2/δ)/(2(T−1))) of P(l|n) with probability 1 − δ at least.",
    predict=lambda failure: trajectory({"coverage_low": 1 - failure}),
    observe=_attention_of_sequences,
    compare=every(slope("distance", "length", -0.5), bounded("coverage", low="coverage_low")),
    settings={
        "fast": {"lengths": LENGTHS, "draws": 1000, "failure": 0.2},
        "full": {"lengths": LENGTHS, "draws": 20_000, "failure": 0.2},
    },
    control=Control("tokens are not independent: each one drawn stands 32 times in a row", {"repeated": 32}),
    whose="the paper's statement",
)

CLAIMS = [lemma1, lemma2]
