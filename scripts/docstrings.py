"""Makes lists of the arguments in docstrings, for the reference on the site (an extension of griffe, see mkdocs.yml).

In the source, arguments are written as two columns, which Markdown would run together into one paragraph:

    start     "zero", or "uniform"
    residual  adds the query's own embedding
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ARGUMENT = re.compile(r"^(\S+(?:, \S+)*) {2,}(?=\S)", re.MULTILINE)


def with_lists(text: str) -> str:
    """A docstring with its two-column parts as Markdown lists."""
    return ARGUMENT.sub(r"\n- `\1`: ", text)


class Lists(griffe.Extension):
    """Changes each docstring after it was read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = with_lists(obj.docstring.value)
