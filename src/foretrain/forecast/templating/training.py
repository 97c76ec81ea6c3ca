"""Really train small networks on a template task, to score a forecast: error on unseen symbols against samples.

The transformers have two layers, four heads and 64 dimensions, and are trained with Adam for at most 100 epochs in
batches of at most 1024; the epoch is chosen on a second alphabet, the error is measured on a third. With a·I, every
head adds 10·a_h·I, where a_h starts at 0. MLPs have one hidden layer of 64.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foretrain.core.errors import require, require_known, require_whole
from foretrain.core.progress import Progress, tell
from foretrain.core.streams import seed_list, stream
from foretrain.data.template_task import TemplateTask
from foretrain.dynamics.protocols import OutputModel
from foretrain.dynamics.validated import Schedule, train_validated
from foretrain.kernels.architectures import ARCHITECTURES, MLP, MLP_XX, TRANSFORMER_AI
from foretrain.kernels.sample_need import TrainedErrors
from foretrain.models.sequence_baselines import BaselineRuns
from foretrain.models.stacked.transformer_runs import TransformerRuns
from foretrain.models.transformer import TransformerShape

SIZES = (8, 16, 32, 64, 128, 256, 512, 1024)  # samples
START = 128  # the size that is tried first
HELD_OUT = 100  # strings for validation and for the test, each from an alphabet of its own
RATE, EPOCHS, PATIENCE = 3e-3, 100, 30
SEEDS = 3


def trained_errors(
    task: TemplateTask,
    architecture: str,
    *,
    error: float = 0.1,
    also: float = 0.5,
    sizes: Sequence[int] = SIZES,
    seeds: int = SEEDS,
    alphabet: int | None = None,
) -> TrainedErrors:
    """Train at the sizes around the need: up until the median error is below `error`, down until it is above `also`.

    error  the lower of the two errors whose need can be read off, `also` the higher
    """
    require_known("architecture", architecture, ARCHITECTURES)
    require_trainable(task)
    require(0 < error <= also < 1, f"error must lie above 0 and not above {also:g}; got {error:g}.")
    require_whole("seeds", seeds, 1)
    usable = sorted(n for n in sizes if alphabet is not None or n >= task.wildcard_count)
    require(len(usable) >= 1, f"sizes must have one of at least {task.wildcard_count} samples; got {list(sizes)}.")
    errors: dict[int, list[float]] = {}

    def median(n: int) -> float:
        if n not in errors:
            tell(Progress(len(errors), len(usable), f"training {architecture} on {n} samples", inner=True))
            errors[n] = errors_at(task, architecture, n, seeds=seeds, enough=error / 10, alphabet=alphabet)
        return float(np.median(errors[n]))

    start = min(range(len(usable)), key=lambda i: abs(usable[i] - START))
    up = down = start
    while not median(usable[up]) < error and up + 1 < len(usable):
        up += 1
    while median(usable[down]) < also and down > 0:
        down -= 1
    return TrainedErrors(dict(sorted(errors.items())))


def require_trainable(task: TemplateTask) -> float:
    """The squared error of a constant guess; a task without one, or without numbers, is refused."""
    require(
        task.kind == "regression",
        f"Only tasks that ask for a number can be trained here; {task.name} asks for a symbol: leave out --train.",
    )
    labels, weights = np.asarray(task.labels, dtype=np.float64), np.asarray(task.weights)
    constant = float(weights @ (labels - weights @ labels) ** 2)
    require(constant > 0, "All labels are the same, so there is nothing to train; give the templates different labels.")
    return constant


def errors_at(
    task: TemplateTask,
    architecture: str,
    n: int,
    *,
    seeds: int = SEEDS,
    enough: float = 0.0,
    alphabet: int | None = None,
) -> list[float]:
    """The error of every seed's network from n samples; a run stops at `enough`, and one that diverges is infinite."""
    constant = require_trainable(task)
    tokens, held_out = alphabet or n, max(HELD_OUT, task.wildcard_count)
    listed = seed_list(seeds)
    splits = [
        task.split(
            n, stream("forecast templates", seed, task.name, n), alphabet=tokens, held_out=HELD_OUT,
            held_out_alphabet=held_out,
        )
        for seed in listed
    ]  # fmt: skip
    runs = train_validated(
        network(architecture, tokens=len(task.vocabulary) + tokens + 2 * held_out, length=task.length),
        splits,
        rates=(RATE,),
        schedule=Schedule(EPOCHS, 1024, PATIENCE, enough * constant),
        seeds=listed,
        experiment=f"forecast templates/{task.name}/{n}",
    )
    return [float(loss) / constant if np.isfinite(loss) else float("inf") for loss in runs.test_loss.values[0]]


def network(architecture: str, *, tokens: int, length: int) -> OutputModel:
    """The networks that stand for an architecture."""
    if architecture in (MLP, MLP_XX):
        return BaselineRuns(architecture, tokens=tokens, length=length, embedding=64, hidden=64)
    return TransformerRuns(
        TransformerShape(
            tokens=tokens, length=length, heads=4, embedding=64, head=16, mlp=64, scaling_multiplier=10.0,
            identity_kq=architecture == TRANSFORMER_AI,
        )
    )  # fmt: skip
