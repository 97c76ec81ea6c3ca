"""Appendix F.3: the five stages of the proof of Lemma 3.7, each with exact derivatives and all permutations."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from foretrain.core.trajectory import trajectory
from foretrain.data import template_examples
from foretrain.data.template_task import TemplateTask
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import close, every
from foretrain.ledger.tolerances import EXACT
from foretrain.papers.abstract_symbols import theory

STAGES = ((0, 0), (2, 2), (4, 0), (4, 2), (6, 4))  # orders in β and γ of the derivative that each stage looks at
CLAIM_NAMES = ("F.2", "F.3", "F.4", "F.5", "F.6")
# The conditions that a stage takes as known, by their index in `_conditions`; stage number i concludes condition i.
NEEDS: tuple[tuple[int, ...], ...] = ((), (0,), (0,), (1, 2), (1, 3))

TASKS: dict[str, Callable[[], TemplateTask]] = {
    "same_different": template_examples.same_different,
    "aba_abb": template_examples.aba_abb,
    "abab_aabb": template_examples.abab_aabb,
    "tokens": lambda: _task("aαβ", "αaβ", "αβa", "ααa", "aαα"),
    "positions": lambda: _task("ααββ", "αβαβ", "αββα", "αααβ", "αβββ"),
    "random_4": lambda: template_examples.random_templates(4, 4, wildcards=3, tokens=1, seed=1),
    "random_5": lambda: template_examples.random_templates(5, 4, wildcards=3, tokens=2, seed=2),
    "random_5_long": lambda: template_examples.random_templates(5, 6, wildcards=4, tokens=0, seed=3),
    "print_program": template_examples.print_program,
}


def _task(*texts: str) -> TemplateTask:
    from foretrain.data.template_task import Template

    return TemplateTask(tuple(map(Template.parse, texts)), tuple(float(i) for i in range(len(texts))))


def _strings(task: TemplateTask) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """X_i and Y_i: every template, filled by two substitutions that share no token."""
    return task.one_per_template(), task.one_per_template(first=len(task.templates) * max(1, task.wildcard_count))


def _conditions(task: TemplateTask) -> NDArray[np.bool_]:
    """[condition, i, j]: whether X_i and Y_j agree in what each of the five stages concludes."""
    X, Y = _strings(task)
    regular = len(task.vocabulary)

    def counts(s: NDArray[np.int64]) -> tuple[int, ...]:
        return tuple(np.bincount(s[s < regular], minlength=regular).tolist())

    def equal(s: NDArray[np.int64]) -> NDArray[np.bool_]:
        return s[:, None] == s[None, :]

    readings: tuple[Callable[[NDArray[np.int64]], object], ...] = (
        counts,  # [1ᵀX]_ℛ
        lambda s: tuple(np.where(s < regular, s, -1).tolist()),  # [X]_{k×ℛ}
        lambda s: int(equal(s).sum()),  # 1ᵀXXᵀ1
        lambda s: tuple(equal(s).sum(axis=1).tolist()),  # 1ᵀXXᵀ
        lambda s: equal(s).tobytes(),  # XXᵀ
    )
    return np.array([[[read(x) == read(y) for y in Y] for x in X] for read in readings])


def _stage_counts(tasks: Sequence[str], cls: bool = True) -> xr.Dataset:
    """Claims F.2 to F.6: permutations that contradict a stage, and permutations that no stage has ruled out."""
    violations = np.zeros((len(tasks), len(STAGES)))
    left = np.zeros((len(tasks), len(STAGES)))
    for place, name in enumerate(tasks):
        task = TASKS[name]()
        task = task.with_cls() if cls else task
        agree = _conditions(task)
        X, Y = _strings(task)
        r = len(X)
        tables = [
            [[theory.derivative_value(*orders, x.tolist(), y.tolist()) for y in Y] for x in X] for orders in STAGES
        ]
        for order in itertools.permutations(range(r)):
            undecided = True
            for stage, table in enumerate(tables):
                same = sum(table[i][order[i]] - table[i][i] for i in range(r)) == 0
                met = [all(agree[c, i, order[i]] for i in range(r)) for c in range(len(STAGES))]
                known = all(met[c] for c in NEEDS[stage])
                violations[place, stage] += known and same and not met[stage]
                undecided = undecided and same
                left[place, stage] += undecided
    return _counts(tasks, violations, left[:, -1])


def _none_but_the_identity(tasks: Sequence[str]) -> xr.Dataset:
    return _counts(tasks, np.zeros((len(tasks), len(STAGES))), np.ones(len(tasks)))


def _counts(tasks: Sequence[str], violations: np.ndarray, left: np.ndarray) -> xr.Dataset:
    return trajectory(
        {"violations": (("task", "claim"), violations), "left": ("task", left)},
        {"task": [task.replace("_", " ") for task in tasks], "claim": list(CLAIM_NAMES)},
    )


SMALL = ("same_different", "aba_abb", "abab_aabb", "tokens", "positions", "random_4")

stagesF = Claim(
    id="abstract_symbols/stagesF",
    source="Claims F.2 to F.6",
    whose="a step of the paper's proof",
    says=(
        "Each of five derivatives at β = γ = 0 separates the permutations of templates that it should: equal sums mean "
        "equal token counts, then equal token positions, wildcard counts, degrees and at last equal XXᵀ, and only the "
        "identity is left."
    ),
    predict=_none_but_the_identity,
    observe=_stage_counts,
    compare=every(close("violations", EXACT), close("left", EXACT)),
    settings={"fast": {"tasks": SMALL}, "full": {"tasks": tuple(TASKS)}},
    control=Control("the templates end without [CLS]", {"cls": False}),
)

CLAIMS = [stagesF]
