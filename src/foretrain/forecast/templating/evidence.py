"""How forecasts of template tasks did on tasks that were trained, and what the size of a task alone would have said."""

from __future__ import annotations

import numpy as np

from foretrain.data.templates import TemplateTask
from foretrain.kernels.architectures import MLP_XX, TRANSFORMER, TRANSFORMER_AI

# Samples needed for errors of 0.5 and 0.1, divided by templates × length: medians over the chosen tasks of
# docs/results/template_needs.json.
PER_SYMBOL = {TRANSFORMER: (60.0, 200.0), TRANSFORMER_AI: (8.0, 18.0), MLP_XX: (1.0, 3.0)}
ERRORS = (0.5, 0.1)


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


def trust_words() -> str:
    return "no evidence yet."
