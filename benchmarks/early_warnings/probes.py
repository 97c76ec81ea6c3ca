"""What the rules of others look at, and the monitor does not record: measured here, without a trace in the training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

NEAR_UNIT = (0.90, 1.05)  # arXiv 2602.22988, after Definition 1
RIDGE = 1e-6  # of the covariance, relative to its mean eigenvalue
PASSES = 9  # arXiv 2601.16979: fewer than ten


@torch.no_grad()
def activations(model: nn.Module, inputs: Tensor) -> dict[str, Any]:
    """One forward pass: what each block sends on, and how the inputs of each matrix lie to its principal direction."""
    with _seen(model, (nn.Linear,), ("up",)) as linear, _seen(model, (), ("blocks",)) as blocks:
        model(inputs)
    return {
        "activations": {name: _block(linear[f"{name}.up"][1], output) for name, (_, output) in blocks.items()},
        "one_sided": {
            name: _one_sided(model.get_parameter(f"{name}.weight"), read)
            for name, (read, _) in linear.items()
            if name.startswith("blocks")
        },
    }


def _block(hidden: Tensor, output: Tensor) -> dict[str, float]:
    return {
        "residual_norm": float(output.norm(dim=-1).mean()),
        "massive": float(output.abs().max() / output.abs().median()),
        "dead_units": float((hidden <= 0).flatten(0, -2).all(0).float().mean()),  # units that no token switches on
    }


def _one_sided(W: Tensor, read: Tensor) -> float:
    """Which share of the inputs lies on the commoner side of the matrix's first right singular vector: .5 to 1.

    Spectral alignment (arXiv 2510.04202) is the cosine of the two, and its sign diversity collapses before a loss
    explodes.
    """
    if not W.isfinite().all():
        return float("nan")
    if W.shape[0] < W.shape[1]:  # the smaller of the two products has the same eigenvalues
        direction = W.mT @ torch.linalg.eigh(W @ W.mT).eigenvectors[:, -1]
    else:
        direction = torch.linalg.eigh(W.mT @ W).eigenvectors[:, -1]
    share = float((read @ direction > 0).float().mean())
    return max(share, 1 - share)


@contextmanager
def _seen(model: nn.Module, kinds: tuple[type, ...], names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """What modules of these kinds, or directly inside these lists, read and return in the next forward pass."""
    seen: dict[str, Any] = {}
    modules = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, kinds) or name.rpartition(".")[0] in names
    }

    def keeping(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, read: tuple[Tensor, ...], output: Tensor) -> None:
            seen[name] = (read[0], output)

        return hook

    handles = [module.register_forward_hook(keeping(name)) for name, module in modules.items()]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def near_unit_mass(model: nn.Module, inputs: Tensor) -> float:
    """Residual Koopman spectral profiling (arXiv 2602.22988, equations 7 to 12): which share of the eigenvalues of a
    linear map from one block's input to its output is close to 1 in size, where inputs are whitened. A mean over
    blocks, without the paper's filter of unreliable eigenvalues."""
    masses = []
    with _seen(model, (), ("blocks",)) as blocks:
        model(inputs)
    for read, output in blocks.values():
        X, Y = (states.flatten(0, -2).double() for states in (read, output))
        X, Y = X - X.mean(0), Y - Y.mean(0)
        values, vectors = torch.linalg.eigh(X.mT @ X / (len(X) - 1))
        values = values.clamp(min=0) + RIDGE * values.mean()
        whiten = vectors * values.rsqrt() @ vectors.mT
        X, Y = X @ whiten, Y @ whiten
        sizes = torch.linalg.eigvals(torch.linalg.lstsq(X, Y).solution).abs()
        masses.append(float(((sizes >= NEAR_UNIT[0]) & (sizes <= NEAR_UNIT[1])).float().mean()))
    return sum(masses) / len(masses)


@torch.no_grad()
def critical_multiple(
    loss: Callable[[], Tensor], parameters: Sequence[Tensor], before: list[Tensor], guess: float
) -> float:
    """How many times its length the last update could be before it no longer lowers the loss of its own batch.

    Critical sharpness (arXiv 2601.16979) is 2 over the rate at which this happens; here that rate is given in units of
    the rate that was used. The multiple is doubled or halved from `guess` until the loss crosses where it began, and
    then the interval is halved, all in at most nine forward passes: it is known to a factor of 2, or better.
    """
    after = [p.clone() for p in parameters]
    moved = torch._foreach_sub(after, before)

    def rises(multiple: float) -> bool:
        for p, start, step in zip(parameters, before, moved, strict=True):
            p.copy_(start + multiple * step)
        return not float(loss()) < start_loss

    for p, start in zip(parameters, before, strict=True):
        p.copy_(start)
    start_loss = float(loss())
    low, high, multiple = 0.0, float("inf"), guess
    for _ in range(PASSES - 1):
        if rises(multiple):
            high = multiple
            multiple = multiple / 2 if low == 0 else (low * high) ** 0.5
        else:
            low = multiple
            multiple = multiple * 2 if high == float("inf") else (low * high) ** 0.5
    for p, end in zip(parameters, after, strict=True):
        p.copy_(end)
    return multiple
