"""JoMA: Theorem 1 verified on 1000 random layers at once, against one layer at a time by autograd."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from benchmarks import Measured, cpu_seconds
from foretrain.models.joint import Joint, JointBatch
from foretrain.papers.joma.setting import RandomProblems
from foretrain.papers.joma.simulations.invariants import batches_of_problems, layer

SIZE = RandomProblems(problems=1000)
STEPS, STEP = 20, 0.01  # of Runge–Kutta of order 4; φ is smooth, so that the order holds
TIMED_ALONE = 40  # layers timed one at a time; the others would take as long

State = dict[str, Tensor]
Ascent = Callable[[State, JointBatch], State]


def measure() -> Iterator[Measured]:
    model = layer(SIZE, "exp", "linear")
    batch = batches_of_problems(SIZE, "labels")
    start = model.start([("joma/theorem1", problem, "start") for problem in range(SIZE.problems)])
    together = cpu_seconds(lambda: _verify(model, start, batch, model.ascent), repeats=5)
    alone = cpu_seconds(lambda: _one_at_a_time(model, start, batch)) * SIZE.problems / TIMED_ALONE
    detail = f"{together:.3f} s against {alone:.1f} s ({TIMED_ALONE} layers timed)"
    yield Measured("Theorem 1 on 1000 random layers over autograd loop", alone / together, 50, detail=detail)


def _verify(model: Joint, start: State, batch: JointBatch, ascent: Ascent) -> None:
    """Follow eq. 2 with Runge–Kutta; z − ½Σv² must stay the same."""
    state = dict(start)
    for _ in range(STEPS):
        k1 = ascent(state, batch)
        k2 = ascent(_moved(state, k1, STEP / 2), batch)
        k3 = ascent(_moved(state, k2, STEP / 2), batch)
        k4 = ascent(_moved(state, k3, STEP), batch)
        state = {n: state[n] + STEP / 6 * (k1[n] + 2 * k2[n] + 2 * k3[n] + k4[n]) for n in state}
    drift = (_constant(model, state) - _constant(model, start)).abs().max()
    assert drift < 1e-8, f"z − ½Σv² drifts by {drift:.1e}"


def _moved(state: State, speed: State, step: float) -> State:
    return {name: value + step * speed[name] for name, value in state.items()}


def _constant(model: Joint, state: State) -> Tensor:
    return state["Z"].squeeze(-2) - model.context_weights(state["W"]).square().sum(-2) / 2


def _one_at_a_time(model: Joint, start: State, batch: JointBatch) -> None:
    """The same verification, as one would first write it: forward pass, cross-entropy, backward, layer by layer."""
    for number in range(TIMED_ALONE):
        own = replace(batch, x=batch.x[number], query=batch.query[number], labels=batch.labels[number])  # type: ignore[index]
        _verify(model, {name: value[number] for name, value in start.items()}, own, _autograd_ascent)


def _autograd_ascent(state: State, batch: JointBatch) -> State:
    W, Z = (state[name].detach().requires_grad_() for name in ("W", "Z"))
    b = batch.x * torch.exp(Z[0])
    f = torch.cat([b, torch.ones(len(b), 1, dtype=b.dtype)], dim=1)
    assert batch.labels is not None
    torch.nn.functional.cross_entropy(f @ W.T, batch.labels).backward()
    assert W.grad is not None
    assert Z.grad is not None
    return {"W": -W.grad, "Z": -Z.grad}
