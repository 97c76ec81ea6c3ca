"""Gradient descent of linear networks on whitened data: how modes are learned, and what depth and start do to it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from foretrain.core.errors import require
from foretrain.core.streams import seed_list, stream
from foretrain.core.trajectory import trajectory
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, Positive, Seeds, about
from foretrain.papers.deep_linear import theory

UNITS = 8  # inputs and outputs
HIDDEN = 64  # in a hidden layer of `modes`; the more there are, the less modes disturb each other
DEEP, OUTPUTS = 16, 3  # units in every layer of `depth`, and its outputs
Strengths = Annotated[Sequence[Positive], about("Strengths of the modes, the largest first.")]
Rate = Annotated[Positive, about("Learning rate.")]
STRENGTHS = (4.0, 2.5, 1.5, 1.0)


class Data:
    """Inputs and outputs whose correlation has given strengths; the inputs are whitened, unless they are not to be."""

    def __init__(self, strengths: Sequence[float], seed: int, correlated: float = 0.0) -> None:
        draw = stream("deep_linear", seed, "data")
        self.out, self.into = (np.linalg.qr(draw.normal(size=(UNITS, UNITS)))[0] for _ in range(2))
        diagonal = np.zeros(UNITS)
        diagonal[: len(strengths)] = strengths
        self.correlation = self.out * diagonal @ self.into.T
        inputs = np.linalg.qr(draw.normal(size=(4 * UNITS, UNITS)))[0].T * np.sqrt(4 * UNITS)  # XXᵀ/P = 1
        mixing = np.eye(UNITS) + correlated * np.ones((UNITS, UNITS)) / UNITS
        self.inputs = mixing @ inputs
        self.outputs = self.correlation @ np.linalg.inv(mixing) @ inputs  # so that the correlation stays the same


def descend(
    weights: list[Tensor], inputs: Tensor, outputs: Tensor, *, rate: Tensor | float, steps: int, decay: float = 0.0
) -> Sequence[list[Tensor]]:
    """The weights [run, units, units] of every layer after each step, by autograd on the mean squared error."""
    samples = inputs.shape[-1]
    parts = [part.clone().requires_grad_() for part in weights]
    states = [[part.detach().clone() for part in parts]]
    for _ in range(steps):
        product = inputs
        for part in parts:
            product = part @ product
        loss = (outputs - product).square().sum() / (2 * samples)
        gradients = torch.autograd.grad(loss, parts)
        with torch.no_grad():
            for part, gradient in zip(parts, gradients, strict=True):
                part -= rate * (gradient + decay * part)
        states.append([part.detach().clone() for part in parts])
    return states


def learned_modes(states: Sequence[list[Tensor]], data: Sequence[Data], modes: int) -> np.ndarray:
    """How much of each mode is learned, [time, run, mode]: the diagonal of the network in the data's own axes."""
    out = torch.tensor(np.stack([d.out[:, :modes] for d in data]))
    into = torch.tensor(np.stack([d.into[:, :modes] for d in data]))
    whole = []
    for state in states:
        product = state[0]
        for part in state[1:]:
            product = part @ product
        whole.append(torch.einsum("rom,roi,rim->rm", out, product, into).numpy())
    return np.array(whole)


def starts(kind: str, seeds: Sequence[int], size: float, units: Sequence[int]) -> list[Tensor]:
    """Weights before training, [run, out, in] per layer: Gaussian ("random"), or orthogonal."""
    matrices = []
    for layer, (into, out) in enumerate(itertools.pairwise(units)):
        drawn = [stream("deep_linear", seed, "start", layer).normal(size=(out, into)) for seed in seeds]
        drawn_matrices = [_orthogonal(d) if kind == "orthogonal" else d / np.sqrt(into) for d in drawn]
        matrices.append(size * torch.tensor(np.stack(drawn_matrices)))
    return matrices


def _orthogonal(drawn: np.ndarray) -> np.ndarray:
    """The nearest matrix with orthonormal rows or columns."""
    left, _, right = np.linalg.svd(drawn, full_matrices=False)
    return left @ right


def aligned(data: Sequence[Data], size: float, layers: int, uneven: float = 1.0) -> list[Tensor]:
    """Weights in line with the data, one hidden unit per mode; those of the first layer are `uneven` times as large."""
    into = torch.tensor(np.stack([d.into.T for d in data]))
    out = torch.tensor(np.stack([d.out for d in data]))
    between = torch.eye(UNITS, dtype=torch.float64).expand(len(data), UNITS, UNITS)
    if layers == 2:
        return [uneven * size * out @ into]
    return [uneven * size * into, *([size * between] * (layers - 3)), size * out]


def train(
    kind: str, strengths: Sequence[float], seeds: Sequence[int], size: float, layers: int, rate: float, steps: int,
    correlated: float = 0.0, decay: float = 0.0, uneven: float = 1.0,
) -> tuple[Sequence[list[Tensor]], list[Data]]:  # fmt: skip
    """Every state of a training from this kind of start, and the data it was trained on."""
    require(
        len(strengths) <= UNITS, f"There are {UNITS} inputs, so at most as many modes; got {len(strengths)} strengths."
    )
    data = [Data(strengths, seed, correlated) for seed in seeds]
    inputs = torch.tensor(np.stack([d.inputs for d in data]))
    outputs = torch.tensor(np.stack([d.outputs for d in data]))
    begin = aligned(data, size, layers, uneven) if kind == "aligned" else starts(kind, seeds, size, units_of(layers))
    return descend(begin, inputs, outputs, rate=rate, steps=steps, decay=decay), data


def units_of(layers: int) -> tuple[int, ...]:
    """Units of every layer of a network that starts at random."""
    return (UNITS, *[HIDDEN] * (layers - 2), UNITS)


def modes_at_start(weights: list[Tensor], data: Sequence[Data], count: int) -> np.ndarray:
    """The start of each mode that counts with one hidden layer, [seed, mode], from the weights before training."""
    into = np.stack([(weights[0][k].numpy() @ d.into[:, :count]).T for k, d in enumerate(data)])
    out_of = np.stack([(weights[-1][k].numpy().T @ d.out[:, :count]).T for k, d in enumerate(data)])
    return np.asarray(theory.start_of(into, out_of))


def modes(
    strengths: Strengths = STRENGTHS,
    seeds: Seeds = 5,
    start: Annotated[Literal["aligned", "random"], about("Start in line with the data, or random.")] = "random",
    size: Annotated[Positive, about("Size of the weights before training.")] = 0.001,
    layers: Annotated[Count, about("Layers of units: 3 is one hidden layer, 2 is none.")] = 3,
    rate: Rate = 0.005,
    steps: Annotated[Count, about("How long training lasts.", unit="steps")] = 2400,
    correlated: Annotated[float, about("How correlated inputs are; 0 for whitened ones.")] = 0.0,
) -> xr.Dataset:
    """How much of each mode is learned, in training and as predicted (Fig 3, left)."""
    require(layers in (2, 3), f"layers must be 3 (one hidden layer) or 2 (none); got {layers}.")
    listed = seed_list(seeds)
    states, data = train(start, strengths, listed, size, layers, rate, steps, correlated)
    every = range(0, steps + 1, max(1, steps // 200))
    seen = learned_modes([states[k] for k in every], data, len(strengths))
    time = rate * np.array(every)
    count = len(strengths)
    if layers == 3:
        curves = theory.learned(time[:, None, None], np.array(strengths), modes_at_start(states[0], data, count))
    else:
        curves = theory.learned_without_hidden(time[:, None, None], np.array(strengths), seen[0])
    axes = ("time", "seed", "mode")
    return trajectory(
        {"learned": (axes, seen), "predicted": (axes, curves), "strength": ("mode", list(strengths))},
        {"time": time, "seed": listed, "mode": list(range(1, count + 1))},
        units={"time": "steps times rate"},
        start=start, size=size, layers=layers, rate=rate,
    )  # fmt: skip


def half_times(learned: xr.DataArray, strength: xr.DataArray) -> xr.DataArray:
    """When half of each mode is learned, between two recorded times; NaN if never."""
    share = (learned / strength).transpose("time", ...)
    values, time = share.values, share["time"].values
    after = (values >= 0.5).argmax(axis=0)
    before = np.maximum(after - 1, 0)
    high, low = (np.take_along_axis(values, index[None], 0)[0] for index in (after, before))
    at = time[before] + (0.5 - low) / np.where(high > low, high - low, np.nan) * (time[after] - time[before])
    return share.isel(time=0, drop=True).copy(data=np.where(after > 0, at, np.nan))


def depth(
    start: Annotated[Literal["orthogonal", "random"], about("Kind of start.")] = "orthogonal",
    layers: Annotated[Count, about("Number of layers of units, at least 2.")] = 3,
    rates: Annotated[Sequence[Positive], about("Learning rates to choose the best of, times the layers.")] = (
        0.05, 0.1, 0.2, 0.4, 0.8, 1.6,
    ),
    seeds: Seeds = 5,
    steps: Annotated[Count, about("Longest training.", unit="steps")] = 600,
    loss_left: Annotated[Positive, about("Share of the loss at which a task counts as learned.")] = 0.05,
) -> xr.Dataset:  # fmt: skip
    """How many steps a network takes with its best learning rate (Fig 6): nan if it never learns the task.

    All rates of all seeds train together.
    """
    listed = seed_list(seeds)
    rows = [_orthogonal(stream("deep_linear", seed, "target").normal(size=(OUTPUTS, DEEP))) for seed in listed]
    wanted = torch.tensor(np.array([1.2, 1.0, 0.8])[:, None] * np.stack(rows)).repeat_interleave(len(rates), 0)
    units = (*[DEEP] * (layers - 1), OUTPUTS)
    parts = [p.repeat_interleave(len(rates), 0).requires_grad_() for p in starts(start, listed, 1.0, units)]
    rate = torch.tensor(rates, dtype=torch.float64).repeat(len(listed))[:, None, None] / (layers - 1)
    least = loss_left * wanted.square().sum((1, 2)) / 2
    reached = torch.full((len(wanted),), torch.inf, dtype=torch.float64)
    for step in range(steps + 1):
        product = parts[0]
        for part in parts[1:]:
            product = part @ product
        losses = (wanted - product).square().sum((1, 2)) / 2  # whitened inputs: the data enters by its correlation
        reached[(losses.detach() <= least) & reached.isinf()] = step
        if not (reached.isinf() & losses.detach().isfinite()).any():
            break
        gradients = torch.autograd.grad(losses.sum(), parts)
        with torch.no_grad():
            for part, gradient in zip(parts, gradients, strict=True):
                part -= rate * gradient.nan_to_num(0.0, 0.0, 0.0)
    best = reached.reshape(len(listed), len(rates)).amin(1).numpy()
    return xr.Dataset({"steps": ("seed", np.where(np.isinf(best), np.nan, best), {"units": "steps"})}, {"seed": listed})


EXPERIMENTS = [
    Experiment(
        "deep_linear/modes",
        "Fig 3, left: how much of each mode a linear network has learned, and the exact solution.",
        modes,
        batched={"seeds": "seed"},
        together=8,
        settings={"fast": {"seeds": 2, "rate": 0.02, "steps": 600}, "full": {}},
    ),
    Experiment(
        "deep_linear/depth",
        "Fig 6: how many steps a deep network takes from orthogonal and from random weights.",
        depth,
        {"start": ("orthogonal", "random"), "layers": (3, 9, 17, 33)},
        batched={"seeds": "seed"},
        together=8,
        settings={"fast": {"layers": (3, 9), "seeds": 2, "rates": (0.2, 0.8), "steps": 100}, "full": {}},
    ),
]
