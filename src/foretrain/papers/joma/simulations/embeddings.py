"""Section 7 in training: embeddings that are trained too, and attention logits computed from embeddings."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory
from foretrain.papers.joma.setting import Synonyms

SYNONYMS = Synonyms()


def _synonym_data(synonyms: bool, seed: int, setting: Synonyms) -> tuple[np.ndarray, np.ndarray]:
    """Token frequencies x [sample, token] and labels. A class draws concepts, and a concept one of its two tokens.

    Without `synonyms` every token is a concept by itself, so that a pair of tokens has nothing in common.
    """
    draw = stream("joma/synonyms", seed, "data")
    tokens = 2 * setting.concepts
    concepts = setting.concepts if synonyms else tokens
    chances = draw.dirichlet(np.full(concepts, 0.5), setting.classes)
    labels = draw.integers(setting.classes, size=setting.samples)
    x = np.zeros((setting.samples, tokens))
    for sample, label in enumerate(labels):
        drawn = draw.choice(concepts, setting.length, p=chances[label])
        words = 2 * drawn + draw.integers(2, size=setting.length) if synonyms else drawn
        np.add.at(x[sample], words, 1 / setting.length)
    return x, labels


@lru_cache(maxsize=8)
def train_embeddings(
    seeds: tuple[int, ...] = (1, 2, 3), steps: int = SYNONYMS.steps, synonyms: bool = True, trained: bool = True
) -> xr.Dataset:
    """Section 7, "Training embedding vectors": W, Z and the embeddings U of a layer with linear φ learn the class.

    Embeddings start orthonormal. `pair_cosine` is the mean cosine at the end of the two tokens of a concept (the same
    pairs of columns if there are no synonyms), `other_cosine` that of all other pairs.
    """
    setting = SYNONYMS
    data = [_synonym_data(synonyms, seed, setting) for seed in seeds]
    x, labels = (torch.from_numpy(np.stack(part)) for part in zip(*data, strict=True))
    runs, samples, tokens = x.shape
    starts = [stream("joma/synonyms", seed, "start").standard_normal((setting.classes, tokens + 1)) for seed in seeds]
    W = torch.from_numpy(0.1 * np.stack(starts)).requires_grad_()
    z = torch.zeros(runs, 1, tokens, dtype=torch.float64, requires_grad=True)
    U = torch.eye(tokens + 1, dtype=torch.float64).repeat(runs, 1, 1).requires_grad_(trained)  # the query is last
    optimizer = torch.optim.SGD([p for p in (W, z, U) if p.requires_grad], lr=setting.rate)
    losses = torch.zeros(runs)
    for _ in range(steps):
        optimizer.zero_grad()
        b = x * torch.exp(z)
        f = (b / b.sum(-1, keepdim=True)) @ U[:, :-1] + U[:, -1:]
        each = torch.nn.functional.cross_entropy((f @ W.mT).flatten(0, 1), labels.flatten(), reduction="none")
        losses = each.reshape(runs, samples).mean(1)
        losses.sum().backward()
        optimizer.step()
    u = torch.nn.functional.normalize(U.detach()[:, :-1], dim=-1)
    cosines, first = (u @ u.mT).numpy(), np.arange(0, tokens, 2)
    paired = np.eye(tokens, dtype=bool)
    paired[first, first + 1] = paired[first + 1, first] = True
    return trajectory(
        {
            "pair_cosine": ("seed", cosines[:, first, first + 1].mean(1)),
            "other_cosine": ("seed", cosines[:, ~paired].mean(1)),
            "loss": ("seed", losses.detach().numpy()),
        },
        {"seed": list(seeds)},
        units={"loss": "nats"},
    )


def train_shared_attention(
    cosine: float = 0.8, steps: int = 200, rate: float = 0.2, free: bool = False, seed: int = 1
) -> xr.Dataset:
    """Section 7, "Self-attention computed from embedding": Z = U_QᵀAU_C, and A is trained with W (`free`: Z itself is).

    The last context token never occurs. Its embedding has the given `cosine` with that of token 0 and is orthogonal to
    all others. Gives its logit z and that of token 0 along training; A (or Z) starts at 0.
    """
    draw = stream("joma/shared_attention", seed)
    contexts, classes, samples = 6, 3, 30
    U = np.eye(contexts + 1)
    U[0, contexts - 1], U[contexts - 1, contexts - 1] = cosine, np.sqrt(1 - cosine**2)  # columns are embeddings
    x = draw.dirichlet(np.ones(contexts), samples)
    x[:, -1] = 0
    labels = draw.integers(classes, size=samples)
    x[:, 0] += labels == 0  # token 0 tells the first class
    frequencies = torch.from_numpy(x / x.sum(axis=1, keepdims=True))
    embeddings, target = torch.from_numpy(U), torch.from_numpy(labels)
    W = torch.from_numpy(0.3 * draw.standard_normal((classes, contexts + 1))).requires_grad_()
    shape = contexts if free else (contexts + 1, contexts + 1)
    A = torch.zeros(shape, dtype=torch.float64, requires_grad=True)

    def logits() -> Tensor:
        return A if free else embeddings[:, -1] @ A @ embeddings[:, :-1]

    optimizer, saved = torch.optim.SGD([W, A], lr=rate), []
    for _ in range(steps + 1):
        saved.append(logits().detach().numpy()[[0, -1]].copy())
        optimizer.zero_grad()
        b = frequencies * torch.exp(logits())
        f = (b / b.sum(-1, keepdim=True)) @ embeddings[:, :-1].T + embeddings[:, -1]
        torch.nn.functional.cross_entropy(f @ W.T, target).backward()
        optimizer.step()
    z = np.array(saved)
    return trajectory(
        {"seen": ("time", z[:, 0]), "unseen": ("time", z[:, 1])},
        {"time": np.arange(steps + 1)},
        units={"time": "steps"},
    )


def shared_speeds(cosine: float = 0.6, queries: int = 3, contexts: int = 6, problems: int = 4) -> xr.Dataset:
    """Section 7: the first speed of Z = U_QᵀAU_C by autograd through A, and that of a free Z at the same logits.

    All pairs of context embeddings have this inner product, and so do all pairs of query embeddings.
    """

    def columns(count: int, first: int) -> np.ndarray:
        gram = np.full((count, count), cosine) + (1 - cosine) * np.eye(count)
        block = np.zeros((queries + contexts, count))
        block[first : first + count] = np.linalg.cholesky(gram).T
        return block

    U_C, U_Q = columns(contexts, 0), columns(queries, contexts)
    shared, free = [], []
    for problem in range(problems):
        draw = stream("joma/shared_speeds", problem)
        x = torch.from_numpy(draw.dirichlet(np.ones(contexts), 20))
        query, labels = (torch.from_numpy(draw.integers(n, size=20)) for n in (queries, 3))
        W = torch.from_numpy(draw.standard_normal((3, queries + contexts)))
        A = torch.from_numpy(draw.standard_normal((queries + contexts, queries + contexts))).requires_grad_()
        U, V = torch.from_numpy(U_C), torch.from_numpy(U_Q)
        Z = V.T @ A @ U
        Z.retain_grad()
        b = x * torch.exp(Z[query])
        f = (b / b.sum(-1, keepdim=True)) @ U.T + V.T[query]
        torch.nn.functional.cross_entropy(f @ W.T, labels).backward()
        assert A.grad is not None
        assert Z.grad is not None
        shared.append((-V.T @ A.grad @ U).detach().numpy())
        free.append(-Z.grad.numpy())
    axes = ("problem", "query", "context")
    return trajectory(
        {
            "shared": (axes, np.array(shared)),
            "free": (axes, np.array(free)),
            "query_embeddings": (("dimension", "query"), U_Q),
            "context_embeddings": (("dimension", "context"), U_C),
        }
    )
