"""Shared by every test: one torch thread, reproducible property tests, where real data may be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # before its client is imported: no test may fetch anything, or wait for a network
os.environ["GITHUB_ACTIONS"] = ""  # typer would colour help that is not for a terminal

import jaxtyping
import pytest
import torch
from hypothesis import settings

import typecheck

jaxtyping.jaxtyped = typecheck.enforced
torch.set_num_threads(1)
settings.register_profile("foretrain", deadline=None, max_examples=50, derandomize=True, database=None)
settings.load_profile("foretrain")

ROOT = Path(__file__).parent.parent


@pytest.fixture
def as_users_run_it() -> Iterator[None]:
    """Without the type checker of the tests, which stops values of a wrong kind before foretrain itself can."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real corpora; a test that needs it is skipped where it is absent."""
    folder = Path(os.environ.get("FORETRAIN_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real corpora at {folder}; set FORETRAIN_DATA to a folder that has them")
    return folder
