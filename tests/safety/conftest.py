"""A page is made once for all tests of this folder: some take seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_up.fixtures import foretrain, made_up_papers
from safety import pages

__all__ = ["foretrain", "made_up_papers"]
MADE: dict[str, str] = {}


@pytest.fixture
def made(name: str, as_users_run_it: None, tmp_path: Path) -> str:
    """The page that a test is about, by the test's argument `name`."""
    if name not in MADE:
        MADE[name] = pages.made(name, tmp_path)
    return MADE[name]
