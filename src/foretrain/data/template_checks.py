"""Checks of template tasks: each error is one sentence that names the templates or the number at fault."""

from __future__ import annotations

import math

from foretrain.core.errors import InputError, require, require_at_least
from foretrain.data.template import Template, spelled

LARGEST_LABEL = 1e100  # so that sums of squared labels stay finite
LEAST_WEIGHT = 1e-12  # smallest share of a template: one sample in a million million


def require_task(
    templates: tuple[Template, ...],
    labels: tuple[float, ...] | tuple[str, ...],
    weights: tuple[float, ...],
    noise: float,
) -> None:
    """Raise an InputError if Def. 2.2, 3.2 or J.1 does not allow the task."""
    require(len(templates) >= 1, "A task must have at least one template; got none.")
    require(
        len(labels) == len(templates),
        f"Every template needs one label; got {len(templates)} templates and {len(labels)} labels.",
    )
    _require_equal_lengths(templates)
    _require_disjoint(templates)
    _require_labels(templates, labels)
    _require_weights(templates, weights)
    require_at_least("noise", noise, 0)
    numbers = not isinstance(labels[0], str)
    require(noise == 0 or numbers, f"noise is for regression labels; got {noise}; set it to 0.")


def _require_equal_lengths(templates: tuple[Template, ...]) -> None:
    first = templates[0]
    for template in templates[1:]:
        require(
            len(template) == len(first),
            f"Templates must have equal lengths; {first} has {len(first)} symbols and {template} has {len(template)}.",
        )
        require(
            template.wildcard_names == first.wildcard_names,
            f"All templates must have the same wildcard names; {first} and {template} do not.",
        )


def _require_disjoint(templates: tuple[Template, ...]) -> None:
    # Only templates with the same equality pattern can overlap, so most pairs need no check.
    by_pattern: dict[tuple[int, ...], list[Template]] = {}
    for template in templates:
        for earlier in by_pattern.setdefault(template.pattern, []):
            both = earlier.common_string(template)
            if both is not None:
                raise InputError(
                    f"Templates {earlier} and {template} are not disjoint: the string {spelled(both)} matches both, "
                    "so its label is not defined; remove or change one of them."
                )
        by_pattern[template.pattern].append(template)


def _require_labels(templates: tuple[Template, ...], labels: tuple[float, ...] | tuple[str, ...]) -> None:
    kinds = {isinstance(label, str) for label in labels}
    require(
        len(kinds) == 1, f"Labels must be all numbers (regression) or all symbols (next token); got {list(labels)}."
    )
    for template, label in zip(templates, labels, strict=True):
        if isinstance(label, str):
            require(
                label not in template.wildcard_names or label in template.wildcards,
                f"Label {label} of {template} is a wildcard that does not occur in it; use one of "
                f"{', '.join(template.wildcards) or 'its tokens'}.",
            )
        else:
            require(
                isinstance(label, int | float) and not isinstance(label, bool) and abs(label) <= LARGEST_LABEL,
                f"Label {label!r} of {template} must be a symbol, or a number of at most {LARGEST_LABEL:g} in size.",
            )


def _require_weights(templates: tuple[Template, ...], weights: tuple[float, ...]) -> None:
    require(
        len(weights) == len(templates),
        f"weights must have one entry per template ({len(templates)}); got {len(weights)}.",
    )
    for template, weight in zip(templates, weights, strict=True):
        require(
            math.isfinite(weight) and weight >= LEAST_WEIGHT,
            f"The weight of {template} must be at least {LEAST_WEIGHT:g} of the total; got {weight!r}; or remove it.",
        )
    total = sum(weights)
    require(abs(total - 1) <= 1e-8, f"weights must sum to 1; they sum to {total:.9g}; divide them by their sum.")
