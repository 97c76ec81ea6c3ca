"""A temporary folder for the files of this process, removed when it ends."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="fuzzing-")


def place(name: str) -> Path:
    """A file in the temporary folder."""
    return Path(_folder().name) / name
