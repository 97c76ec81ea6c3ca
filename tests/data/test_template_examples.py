"""The named tasks: counts and labels against rules written another way."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from foretrain.core.errors import InputError
from foretrain.data import template_examples as tasks
from foretrain.data.template_task import Template, TemplateTask


def by_string(task: TemplateTask) -> dict[str, float | str]:
    return {str(t): label for t, label in zip(task.templates, task.labels, strict=True)}


@pytest.mark.parametrize(
    ("name", "arguments", "count", "length"),
    [
        ("same_different", {}, 2, 2),
        ("aba_abb", {}, 2, 3),
        ("abab_aabb", {}, 2, 4),
        ("majority", {"length": 5}, 16, 5),
        ("majority_token", {"length": 3}, 4, 3),
        ("random_templates", {"count": 6, "length": 4}, 6, 4),
        ("print_program", {}, 2, 17),
        ("print_symbol", {}, 2, 20),
        ("copying", {}, 1, 1),
        ("print_statement", {}, 1, 10),
        ("word_problems", {"amounts": [2, 5]}, 4, 14),
        ("distribution_of_3", {}, 144, 10),
        ("relational_match_to_sample", {}, 40, 9),
        ("ravens_matrices", {}, 37, 9),
    ],
)
def test_named_tasks(name: str, arguments: dict[str, object], count: int, length: int) -> None:
    task = tasks.NAMED[name](**arguments)
    assert (len(task.templates), task.length) == (count, length)
    assert all(a.disjoint(b) for a, b in itertools.combinations(task.templates[:40], 2))
    assert task.sample(30, 0).tokens.shape == (30, length)


def test_every_constructor_is_named() -> None:
    assert len(tasks.NAMED) == 14


def test_majority_labels() -> None:
    labels = by_string(tasks.majority(5))
    assert labels["ααααα"] == labels["αααβα"] == 1  # 5 and 4 exceed 3
    assert labels["αααββ"] == labels["αββββ"] == -1  # 3 does not exceed 3
    assert by_string(tasks.majority(4))["αααβ"] == 1  # 3 exceeds 2.5


@pytest.mark.parametrize("length", [3, 5])
def test_majority_token_is_the_most_frequent(length: int) -> None:
    for string, label in by_string(tasks.majority_token(length)).items():
        assert string.count(str(label)) > length / 2


def test_examples_of_the_paper() -> None:
    three = by_string(tasks.distribution_of_3())
    assert three["αβγβγ□αγεβ"] == 1
    assert three["αβγγβ□εβαγ"] == 3
    raven = by_string(tasks.ravens_matrices())
    assert raven["αβγβγαγβ?"] == "α"
    assert raven["αααβββγγ?"] == "γ"
    sample = tasks.relational_match_to_sample()
    example = Template.parse("αββγδδεεζ")  # αββ γδδ εετ with the paper's last wildcard renamed
    assert [label for t, label in zip(sample.templates, sample.labels, strict=True) if not t.disjoint(example)] == [1]


def test_programs_print_what_their_label_says() -> None:
    for string, label in by_string(tasks.print_program()).items():
        program = string.replace("print", "printed = ").replace("α", "a").replace("β", "b")
        scope: dict[str, float] = {}
        exec(program, {}, scope)
        assert scope["printed"] == label


def test_random_templates_are_scaled_and_reproducible() -> None:
    one, two = tasks.random_templates(8, 5, seed=3), tasks.random_templates(8, 5, seed=3)
    assert one == two
    assert one != tasks.random_templates(8, 5, seed=4)
    labels = np.array(one.labels, dtype=float)
    assert abs(labels.mean()) < 1e-12
    assert (labels**2).mean() == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: tasks.majority(1), "between 2 and 16"),
        (lambda: tasks.majority_token(4), "odd"),
        (lambda: tasks.random_templates(6, 1, wildcards=2, tokens=2), "Only [12] disjoint templates"),
        (lambda: tasks.random_templates(2, 2, wildcards=0, tokens=0), "0 of both"),
        (lambda: tasks.word_problems(()), "at least one number"),
    ],
)
def test_bad_arguments_are_refused(build: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        build()  # type: ignore[operator]
