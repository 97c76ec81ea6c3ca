"""One program that runs the commands of all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from durability.harness import Commands, commands


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    with commands(tmp_path_factory.mktemp("program")) as made:
        yield made
