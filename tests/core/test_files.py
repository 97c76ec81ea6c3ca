"""Files: whole or absent, sealed, and nothing left behind."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrain.core import files
from foretrain.core.errors import DamagedFile, InputError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(record=st.dictionaries(st.text(max_size=5).filter(lambda key: key != "sha256"), JSON, max_size=4))
def test_a_record_comes_back(record: dict[str, object], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("record") / "r.json"
    files.write_record(path, record)
    assert files.read_record(path) == record


@given(data=st.data())
def test_a_changed_record_is_noticed(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("record") / "r.json"
    record = {"a": [1, 2.5, "x"], "b": {"c": None}}
    files.write_record(path, record)
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bytes(content))
    with contextlib.suppress(DamagedFile):
        assert files.read_record(path) == record


@pytest.mark.parametrize(
    ("code", "words"), [(errno.ENOSPC, "the disk is full"), (errno.EACCES, "choose another place")]
)
def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, words: str
) -> None:
    path = tmp_path / "a.txt"
    files.write_text(path, "old")

    def fail(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InputError, match=words):
        files.write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from foretrain.core.errors import InputError
from foretrain.core.trajectory import save, trajectory
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then a write beyond the limit fails like one on a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    save(trajectory({"x": ("a", np.random.default_rng(1).random(100_000))}), Path(sys.argv[1]) / "x.nc")
except InputError as error:
    print(error)
"""


def test_a_full_disk_is_one_sentence_and_no_crash(tmp_path: Path) -> None:
    """HDF5 itself ends in a segmentation fault: the file is made in memory and its bytes are written."""
    said = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert said.returncode == 0, said.stderr
    assert "the disk is full" in said.stdout
    assert len(said.stdout.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_links_are_replaced_and_never_written_through(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(precious)
    files.write_text(link, "new")
    assert precious.read_text() == "mine"
    assert not link.is_symlink()


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (tmp_path / "deep").mkdir()
    left = tmp_path / "deep" / f".x.nc.{files._host()}-{ended.pid}-0123abcd.part"
    others = [
        tmp_path / f".x.nc.{files._host()}-{os.getpid()}-0123abcd.part",  # alive
        tmp_path / f".x.nc.ffffffff-{ended.pid}-0123abcd.part",  # on another machine
        tmp_path / ".mine.part",
    ]
    for path in (left, *others):
        path.write_text("half")
    files.remove_abandoned(tmp_path)
    assert not left.exists()
    assert all(path.exists() for path in others)
