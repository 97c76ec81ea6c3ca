"""docs/reference.md says what the docstrings say today."""

from __future__ import annotations

from scripts.reference import CONTRIBUTING, PAGE, contributing, front_door, modules, page

import foretrain


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run .venv/bin/python -m scripts.reference"


def test_the_map_in_contributing_is_up_to_date() -> None:
    assert CONTRIBUTING.read_text(encoding="utf-8") == contributing(), "run .venv/bin/python -m scripts.reference"


def test_every_public_name_has_a_docstring() -> None:
    listed = [(module.name, entry) for _, _, room in modules() for module in room for entry in module.entries]
    assert len(listed) > 200
    assert [f"{module}.{entry.name}" for module, entry in listed if not entry.docstring] == []


def test_the_front_door_is_listed() -> None:
    names = {entry.name for _, _, room in modules() for module in room for entry in module.entries}
    assert front_door() == sorted(foretrain.PUBLIC)
    assert set(front_door()) <= names
