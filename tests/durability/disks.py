"""Small and read-only disks: tmpfs, which only root may mount."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _mount(*options: str) -> bool:
    return os.geteuid() == 0 and subprocess.run(["mount", *options], capture_output=True).returncode == 0


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of this size at a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if not _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)):
        pytest.skip("mounting a small disk needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def make_read_only(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)


def fill(disk: Path, but: int) -> Path:
    """Fill a disk, but for so many bytes; gives the file that takes the room."""
    ballast, free = disk / "ballast", os.statvfs(disk)
    ballast.write_bytes(bytes(max(0, free.f_bavail * free.f_frsize - but)))
    return ballast
