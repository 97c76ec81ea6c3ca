"""How forecasts of template tasks did on tasks that were trained, and what the size of a task alone would have said.

All numbers are from docs/results/template_needs.json (`python -m benchmarks.template_needs --generated`): 22 tasks, ten
of them drawn at random and trained after the forecast was frozen. A test holds them against that file.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foretrain.data.templates import TemplateTask
from foretrain.kernels.architectures import TRANSFORMER, TRANSFORMER_AI
from foretrain.papers.abstract_symbols.needs import PER_SYMBOL

ERRORS = (0.5, 0.1)
TASKS, LARGEST = 22, 34  # tasks, and the largest number of templates times length among them


class Close(NamedTuple):
    """How many forecasts were within a factor of 3 of training, as far as the sizes that were trained can tell."""

    error: float
    close: int
    known: int


WITHIN_3 = {TRANSFORMER: Close(0.5, 20, 22), TRANSFORMER_AI: Close(0.1, 19, 22)}
TAU = (0.86, 0.81)  # Kendall's τ with training to an error of 0.5, over all tasks and architectures: forecast, size


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


def trust_words(task: TemplateTask) -> str:
    """How far to trust a forecast of this task."""
    if task.kind != "regression":
        return "unknown. No task that asks for a symbol was trained; who can tell the answers apart is theory."
    counts = " and ".join(f"{of.close} times to an error of {of.error:g} ({name})" for name, of in WITHIN_3.items())
    words = (
        f"to a factor of 3. On {TASKS} tasks that we trained it was that close {counts}, which size alone was too; "
        f"it ranked tasks and architectures better (Kendall's τ {TAU[0]:.2f} against {TAU[1]:.2f}). No MLP without XXᵀ "
        "learned any of them, as forecast."
    )
    if size_of(task) > LARGEST:
        words += (
            f" This task is larger than any of them (templates × length {size_of(task)}; they had up to {LARGEST})."
        )
    return words
