"""Makes lists of the arguments in docstrings, for the reference on the site (an extension of griffe, see mkdocs.yml).

In the source, arguments are written as two columns, which Markdown would run together into one paragraph:

    start     "zero", or "uniform"
    residual  adds the query's own embedding
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ARGUMENT = re.compile(r"(?P<name>\S+(?:, \S+)*) {2,}(?P<says>\S.*)")


def with_lists(text: str) -> str:
    """A docstring with its two-column parts as Markdown lists."""
    return "\n\n".join(map(_paragraph, text.split("\n\n")))


def _paragraph(text: str) -> str:
    lines = text.split("\n")
    start = next((i for i, line in enumerate(lines) if ARGUMENT.fullmatch(line)), None)
    if start is None or not all(ARGUMENT.fullmatch(line) or line.startswith(" ") for line in lines[start:]):
        return text
    listed: list[str] = []
    for line in lines[start:]:
        found = ARGUMENT.fullmatch(line)
        if found:
            listed.append(f"- `{found['name']}`: {found['says']}")
        else:
            listed[-1] += f" {line.strip()}"
    return "\n".join([*lines[:start], *([""] if start else []), *listed])


class Lists(griffe.Extension):
    """Changes each docstring after it was read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = with_lists(obj.docstring.value)
