from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from checkpoints.series import make_series


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound series of six checkpoints; tests that change it take `series`, a copy."""
    return make_series(tmp_path_factory.mktemp("trained") / "out")


@pytest.fixture
def series(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(trained, tmp_path / "out"))
