"""How forecasts of template tasks did on tasks that were trained, and what the size of a task alone would have said.

All numbers are from docs/results/template_needs.json (`python -m benchmarks.template_needs --generated`): 22 tasks, ten
of them drawn at random and trained after the forecast was frozen. A test holds them against that file.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foretrain.data.template_task import TemplateTask
from foretrain.kernels.architectures import MLP_XX, TRANSFORMER, TRANSFORMER_AI
from foretrain.kernels.sample_need import PER_SYMBOL

ERRORS = (0.5, 0.1)
TASKS, LARGEST = 22, 34  # tasks, and the largest number of templates times length among them


class Close(NamedTuple):
    """How many needs were within a factor of 3 of training, as far as the sizes that were trained can tell."""

    forecast: int
    bounds: int  # how often, of these, training gave only a bound: the largest size did not do, or the smallest did
    size: int  # by the size of the task alone


WITHIN_3 = {
    0.5: {TRANSFORMER: Close(20, 6, 22), TRANSFORMER_AI: Close(16, 0, 19), MLP_XX: Close(22, 18, 21)},
    0.1: {TRANSFORMER: Close(22, 22, 22), TRANSFORMER_AI: Close(19, 1, 18), MLP_XX: Close(10, 5, 6)},
}
TAU = {0.5: (0.86, 0.81), 0.1: (0.51, 0.40)}  # Kendall's τ with training, all tasks and architectures: forecast, size


def size_of(task: TemplateTask) -> int:
    """Templates times their length: the simplest guess at how hard a task is."""
    return len(task.templates) * task.length


def size_need(task: TemplateTask, architecture: str, error: float) -> float:
    """Samples needed if nothing but the size of the task matters.

    nan for an MLP, which never learned any of the tasks, and for tasks that ask for a symbol: none were trained.
    """
    if architecture not in PER_SYMBOL or task.kind != "regression":
        return float("nan")
    at_half, at_tenth = np.log(PER_SYMBOL[architecture])
    share = np.log(ERRORS[0] / error) / np.log(ERRORS[0] / ERRORS[1])
    return float(size_of(task) * np.exp(at_half + share * (at_tenth - at_half)))


def trust_words(task: TemplateTask, error: float) -> str:
    """How far to trust a forecast of this task for this error: how it did at the nearest error that was trained to."""
    if task.kind != "regression":
        return (
            "unknown. We trained on no task whose answer is a symbol; which networks can tell the answers apart "
            "follows from theory."
        )
    trained = min(ERRORS, key=lambda each: abs(np.log(each / error)))
    counts = WITHIN_3[trained]
    learned = [(name, of) for name, of in counts.items() if of.bounds < TASKS]
    better = [name for name, of in counts.items() if of.size > of.forecast]
    ours, size = TAU[trained]
    words = (
        "rely on who learns the task and roughly on the order of magnitude, not on the number. We trained networks on "
        f"{TASKS} tasks to an error of {trained:g}{'' if trained == error else f', the nearest to {error:g}'}. The "
        f"forecast was within a factor of 3 of training {' and '.join(_count_words(*each) for each in learned)}. "
    )
    if unlearned := [name for name in counts if name not in dict(learned)]:
        words += f"No {' and no '.join(unlearned)} reached that error from the samples we tried. "
    if better:
        words += f"So size alone did better for {' and '.join(better)}. "
    words += (
        f"The forecast ranked all needs better than size did (Kendall's τ {ours:.2f} against {size:.2f}). As forecast, "
        "no MLP without XXᵀ learned any of the tasks."
    )
    if size_of(task) > LARGEST:
        words += (
            f" This task is larger than any of them (templates × length {size_of(task)}; they had up to {LARGEST})."
        )
    return words


def _count_words(name: str, of: Close) -> str:
    bounds = f"; for {of.bounds} of the {of.forecast}, training gave only a bound" if of.bounds else ""
    return f"for {of.forecast} tasks with {name} (a guess from the task's size alone: {of.size}{bounds})"
