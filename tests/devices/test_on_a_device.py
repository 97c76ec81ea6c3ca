"""Runs tests/devices/on_fake_accelerator in one process of its own: an accelerator stays in torch for good."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parent / "on_fake_accelerator"


@pytest.mark.slow
def test_the_monitor_and_what_it_measures_run_on_the_fake_accelerator() -> None:
    run([FOLDER / f"{name}.py" for name in ("accelerator", "measured", "monitored", "passes_read")])


@pytest.mark.full
def test_everything_that_runs_on_the_fake_accelerator() -> None:
    run(sorted(file for file in FOLDER.glob("*.py") if file.name != "conftest.py"))


def run(files: list[Path]) -> None:
    written = sum(len(re.findall(r"^def test_", file.read_text(encoding="utf-8"), re.MULTILINE)) for file in files)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *files],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=FOLDER.parents[2],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= written > 0
    assert "skipped" not in done.stdout


def test_this_process_has_no_accelerator_of_ours() -> None:
    """The files in that folder are not collected here, and importing the accelerator does not install it."""
    import fake_accelerator

    assert not hasattr(torch, fake_accelerator.NAME)
