"""What the reference lists exists and is described."""

from __future__ import annotations

import griffe
import pytest
from scripts.reference import (
    CONTRIBUTING,
    all_undocumented,
    contributing,
    page_of_commands,
    public_names,
    read,
    undocumented,
)

import foretrain


def test_the_map_in_contributing_is_up_to_date() -> None:
    assert CONTRIBUTING.read_text(encoding="utf-8") == contributing(), "run .venv/bin/python -m scripts.reference"


def test_every_public_name_has_a_docstring() -> None:
    assert sum(len(names) for listed in public_names().values() for names in listed.values()) > 200
    assert all_undocumented() == []


def test_a_public_name_that_does_not_exist_is_noticed() -> None:
    with pytest.raises(KeyError, match="no_such_name"):
        undocumented(read()["core.errors"], ["require", "no_such_name"])


WITHOUT_DOCSTRINGS = '''
"""A module."""

def nameless(): ...

class Box:
    """A class."""

    def __init__(self): ...
    def _inner(self): ...
    def forward(self): ...
    def close(self):
        """Documented."""
    def open(self): ...
    @property
    def size(self): ...
'''


def test_a_public_name_without_a_docstring_is_noticed(tmp_path) -> None:
    module = griffe.visit("made_up", tmp_path / "made_up.py", WITHOUT_DOCSTRINGS)
    assert undocumented(module, ["nameless", "Box"]) == ["made_up.nameless", "made_up.Box.open", "made_up.Box.size"]


def test_the_front_door_is_listed() -> None:
    names = {name for listed in public_names().values() for chosen in listed.values() for name in chosen}
    assert set(foretrain.PUBLIC) <= names


def test_every_command_is_listed_with_its_options() -> None:
    page = page_of_commands()
    assert page.count("## `foretrain ") > 10
    assert "--jobs N`: Number of processes" in page
