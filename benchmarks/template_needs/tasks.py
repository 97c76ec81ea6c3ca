"""The tasks that the template forecast is judged on: twelve chosen, ten drawn at random."""

from __future__ import annotations

from dataclasses import replace

from foretrain.core.streams import stream
from foretrain.data import template_examples
from foretrain.data.template_task import Template, TemplateTask

GENERATED = 10


def _pair(name: str, first: str, second: str) -> TemplateTask:
    return TemplateTask((Template.parse(first), Template.parse(second)), (1.0, -1.0), name=name)


def chosen() -> dict[str, TemplateTask]:
    """Tasks of the paper, and pairs of templates; in those marked "tie", symbols occur equally often in both."""
    return {
        "same/different": template_examples.same_different(),
        "αβα/αββ (tie)": template_examples.aba_abb(),
        "αβαβ/ααββ (tie)": template_examples.abab_aabb(),
        "palindrome (tie)": _pair("palindrome", "αβγγβα", "αβγαβγ"),
        "αββα/ααββ (tie)": _pair("nested or in a row", "αββα", "ααββ"),
        "αβγαβγ/ααββγγ (tie)": _pair("repeated or doubled", "αβγαβγ", "ααββγγ"),
        "αβγδα/αβγδβ (tie)": _pair("which symbol returns", "αβγδα", "αβγδβ"),
        "αβαβα/ααβαβ (tie)": _pair("alternating or not", "αβαβα", "ααβαβ"),
        "ααβ/αβγ": _pair("two of three equal", "ααβ", "αβγ"),
        "majority of 3": template_examples.majority(3),
        "majority of 4": template_examples.majority(4),
        "print program": template_examples.print_program(),
    }


def generated(count: int = GENERATED) -> dict[str, TemplateTask]:
    """Two to four random templates of length 3 to 6 with up to three wildcards each, and random labels."""
    tasks = {}
    for seed in range(1, count + 1):
        draw = stream("template needs", seed)
        templates, length = int(draw.integers(2, 5)), int(draw.integers(3, 7))
        task = template_examples.random_templates(templates, length, wildcards=3, tokens=0, seed=seed)
        name = f"random {seed}: {'/'.join(str(template) for template in task.templates)}"
        tasks[name] = replace(task, name=f"random {seed}")
    return tasks
