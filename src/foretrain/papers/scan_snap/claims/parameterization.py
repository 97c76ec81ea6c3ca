"""Section 3: standard LayerNorm in place of the ℓ2 norm, and (Y, Z) against embeddings U with W_Q, W_K, W_V."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy import ndarray as Array

from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import close
from foretrain.ledger.tolerances import EXACT, GRADIENT
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.simulations.random_classes import RandomClasses

if TYPE_CHECKING:
    from torch import Tensor


def _fates(task: RandomClasses) -> xr.Dataset:
    """Theorem 2 for the first class's query, which all classes share."""
    return trajectory({"moved": (("instance", "token"), theory.fates(task.probabilities, task.query)[:, 0])})


# Standard LayerNorm


def _fates_with_layer_norm(task: RandomClasses, vocab: int, eta_y: float, eta_z: float, steps: int) -> xr.Dataset:
    """Which logits rise and fall in training with f = (c − mean c)/‖c − mean c‖, by autograd on all of Y and z."""
    import torch  # loading torch takes seconds, which listing claims can do without

    P = torch.from_numpy(_padded(task.probabilities, vocab))
    classes = P.shape[1]
    Y = torch.zeros(len(P), vocab, vocab, dtype=torch.float64, requires_grad=True)
    z = torch.zeros(len(P), 1, vocab, dtype=torch.float64, requires_grad=True)
    right = torch.arange(classes)
    for _ in range(steps):
        c = P * torch.exp(z)
        c = c / c.sum(-1, keepdim=True)
        c = c - c.mean(-1, keepdim=True)
        f = c / c.norm(dim=-1, keepdim=True)
        score = torch.log_softmax(f @ Y, dim=-1)[:, right, right].mean(-1).sum()
        up_y, up_z = torch.autograd.grad(score, (Y, z))
        with torch.no_grad():
            Y += eta_y * up_y
            z += eta_z * up_z
    tokens = task.probabilities.shape[-1]
    return trajectory({"moved": (("instance", "token"), np.sign(z.detach().numpy()[:, 0, :tokens]))})


def _padded(P: Array, vocab: int) -> Array:
    """P with a column for every token of the vocabulary."""
    return np.concatenate([P, np.zeros((*P.shape[:-1], vocab - P.shape[-1]))], axis=-1)


_TASK = RandomClasses(instances=6, queries=1, per_query=3, share=(0.2, 0.4))

layernorm = Claim(
    id="scan_snap/layernorm",
    source="Section 3, ℓ2-normalization",
    says="With standard LayerNorm, which also subtracts the mean, Theorem 2 holds in training: distinct tokens gain "
    "attention and the common token loses it.",
    predict=_fates,
    observe=_fates_with_layer_norm,
    compare=close("moved", EXACT, relative=False, by="by Theorem 2", seen="in training"),
    settings={"fast": {"task": _TASK, "vocab": 30, "eta_y": 1.0, "eta_z": 0.01, "steps": 200}},
    control=Control(
        "several common tokens, with other probabilities in each class",
        {"task": RandomClasses(instances=6, queries=1, per_query=3, common=3, share=(0.4, 0.6), evenness=0.1)},
    ),
    whose="the paper's statement",
)


# Embeddings and projections


def _parameters(width: int, vocab: int, seed: int, orthogonal: bool) -> dict[str, Tensor]:
    """U with orthonormal rows, W_V = 0, and W_Q, W_K either orthogonal or with Gaussian entries of variance 1/d."""
    import torch

    draw = stream("scan_snap/parameters", width, vocab, seed)

    def matrix(unit: bool) -> Tensor:
        gaussian = draw.normal(0, 1, (width, width))
        return torch.from_numpy(np.linalg.qr(gaussian)[0] if unit else gaussian / width**0.5)

    U = matrix(unit=True)[:vocab]
    return {"U": U, "W_V": 0 * matrix(unit=True), "W_Q": matrix(orthogonal), "W_K": matrix(orthogonal)}


def _score(P: Tensor, parameters: dict[str, Tensor], query: int) -> tuple[Tensor, Tensor]:
    """Eq. 1 and 2 for infinitely long sequences of classes that share a query: mean log-likelihood, and row z of Z."""
    import torch

    U, d = parameters["U"], parameters["U"].shape[1]
    z = (U[query] @ parameters["W_Q"]) @ (U @ parameters["W_K"]).mT / d**0.5
    c = P * torch.exp(z)
    attended = (c / c.sum(-1, keepdim=True)) @ U
    attended = attended / attended.norm(dim=-1, keepdim=True)
    right = torch.arange(len(P))
    return torch.log_softmax(attended @ parameters["W_V"].mT @ U.mT, dim=-1)[right, right].mean(), z


def _fates_of_projections(
    task: RandomClasses, vocab: int, width: int, eta_y: float, eta_z: float, steps: int, orthogonal: bool = True
) -> xr.Dataset:
    """Which logits rise and fall in training of W_Q, W_K and W_V, with embeddings that stand still."""
    import torch

    fates = []
    for seed, P in enumerate(torch.from_numpy(_padded(task.probabilities, vocab))):
        parameters = _parameters(width, vocab, seed, orthogonal)
        rates = {"W_V": eta_y, "W_Q": eta_z, "W_K": eta_z}
        start = _score(P, parameters, vocab - 1)[1]
        for name in rates:
            parameters[name].requires_grad_()
        for _ in range(steps):
            up = torch.autograd.grad(_score(P, parameters, vocab - 1)[0], [parameters[name] for name in rates])
            with torch.no_grad():
                for (name, rate), step in zip(rates.items(), up, strict=True):
                    parameters[name] += rate * step
        moved = (_score(P, parameters, vocab - 1)[1] - start).detach().numpy()
        fates.append(np.sign(moved[: task.probabilities.shape[-1]]))
    return trajectory({"moved": (("instance", "token"), np.array(fates))})


parameters = Claim(
    id="scan_snap/parameters",
    source="Section 3.1, reparameterization",
    says="Trained in W_Q, W_K and W_V on orthonormal embeddings U instead of in Y and Z, attention logits have the "
    "signs of Theorem 2, if W_Q and W_K start as orthogonal matrices.",
    predict=_fates,
    observe=_fates_of_projections,
    compare=close("moved", EXACT, relative=False, by="by Theorem 2", seen="in training"),
    settings={
        "fast": {"task": _TASK, "vocab": 30, "width": 32, "eta_y": 1.0, "eta_z": 0.02, "steps": 150},
        "full": {"task": _TASK, "vocab": 30, "width": 128, "eta_y": 1.0, "eta_z": 0.05, "steps": 300},
    },
    control=Control("W_Q and W_K start with Gaussian entries, as is usual", {"orthogonal": False}),
    whose="our own expectation",
    finding="In the usual parameters Theorem 2 needs orthogonal W_Q and W_K. With a Gaussian start one token in six "
    "moves the wrong way at width 32: Z then moves by its gradient mixed with the Gram matrices of W_Q and W_K, and "
    "the large pull on the common token spills over to the others.",
)


def _velocities(vocab: int, width: int, seeds: int, direct: bool, orthonormal: bool = True) -> xr.Dataset:
    """Ẏ = G_Y and Ż = (G_Z·U W_K W_Kᵀ Uᵀ + U W_Q W_Qᵀ Uᵀ·G_Z)/d, with G_Y and G_Z the gradients in Y and Z.

    With `direct` from small changes of W_V, W_Q and W_K along their own gradients.
    """
    import torch

    both = []
    for seed in range(seeds):
        draw = stream("scan_snap/parameters", seed, "velocity")
        given: dict[str, Any] = _parameters(width, vocab, seed, orthogonal=False)
        given["W_V"] = torch.from_numpy(draw.normal(0, 1, (width, width)) / width**0.5)
        if not orthonormal:
            given["U"] = torch.from_numpy(draw.normal(0, 1, (vocab, width)) / width**0.5)
        P = torch.from_numpy(draw.dirichlet(np.ones(vocab), 3))
        U, W_V, W_Q, W_K = (given[name].requires_grad_() for name in ("U", "W_V", "W_Q", "W_K"))
        Y, Z = U @ W_V.mT @ U.mT, U @ W_Q @ W_K.mT @ U.mT / width**0.5
        c = P * torch.exp(Z[vocab - 1])
        f = c / c.norm(dim=-1, keepdim=True)
        score = torch.log_softmax(f @ Y, dim=-1)[range(3), range(3)].mean()
        g_y, g_z = torch.autograd.grad(score, (Y, Z), retain_graph=True)
        if direct:
            v, q, k = torch.autograd.grad(score, (W_V, W_Q, W_K))
            moved = U @ v.mT @ U.mT, U @ (q @ W_K.mT + W_Q @ k.mT) @ U.mT / width**0.5
        else:
            gram_q, gram_k = (U @ W @ W.mT @ U.mT for W in (W_Q, W_K))
            moved = g_y, (g_z @ gram_k + gram_q @ g_z) / width
        both.append(np.stack([part.detach().numpy() for part in moved]))
    return trajectory(
        {"matrix_velocity": (("seed", "matrix", "row", "column"), np.array(both))}, {"matrix": ["Y", "Z"]}
    )


parameters_velocity = Claim(
    id="scan_snap/parameters_velocity",
    source="Section 3.1, reparameterization",
    says="With orthonormal embeddings, training W_V moves Y by its own gradient (eq. 3), and training W_Q and W_K "
    "moves Z by (G·U W_K W_Kᵀ Uᵀ + U W_Q W_Qᵀ Uᵀ·G)/d, where G is the gradient in Z. So (Y, Z) stand for the usual "
    "parameters only as long as W_Q and W_K are orthogonal.",
    predict=lambda vocab, width, seeds, orthonormal=True: _velocities(vocab, width, seeds, False, orthonormal),
    observe=lambda vocab, width, seeds, orthonormal=True: _velocities(vocab, width, seeds, True, orthonormal),
    compare=close("matrix_velocity", GRADIENT, by="by the formula", seen="by autograd"),
    settings={"fast": {"vocab": 12, "width": 16, "seeds": 3}},
    control=Control("embeddings that are not orthonormal", {"orthonormal": False}),
    whose="our own expectation",
    finding="Y and Z are not independent of how they are made: embeddings and projections give Z a gradient of their "
    "own.",
)

CLAIMS = [layernorm, parameters_velocity, parameters]
