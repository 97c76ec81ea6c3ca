"""The files of a Zarr group: checksums of chunks, a group that is put in place whole, and errors in one sentence."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import google_crc32c

from foretrain.core.errors import InputError
from foretrain.runs.storage import Storage

METADATA = "zarr.json"


def last_bytes(file: Path) -> bytes:
    """The checksum of a chunk."""
    with open(file, "rb") as opened:
        opened.seek(-4, os.SEEK_END)
        return opened.read()


def has_its_checksum(content: bytes) -> bool:
    """Whether the last four bytes of a chunk are the crc32c of the others; a file of nothing but zeros is no chunk."""
    if len(content) <= 4:  # the checksum of nothing is 0
        return False
    return google_crc32c.value(content[:-4]) == int.from_bytes(content[-4:], "little")


def rename_unless_there(attempt: Path, target: Path) -> None:
    """Rename the folder of a group, or remove it if another process was faster.

    What lies there without metadata is no group: a worker of a stopped program wrote a last chunk. It is removed.
    """
    while True:
        try:
            attempt.rename(target)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        if (target / METADATA).exists():
            shutil.rmtree(attempt)
            return
        aside = target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}.new")
        with suppress(FileNotFoundError):
            target.rename(aside)
        if (aside / METADATA).exists():  # another process has put its group there in this moment: put it back
            attempt, aside = aside, attempt
        shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def storage_errors(place: Storage) -> Iterator[None]:
    """Errors of storage as one sentence."""
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise InputError(
                f"Cannot write to {place}: the disk is full; free some space and give the same command again, which "
                "goes on where it stopped."
            ) from error
        raise InputError(f"Cannot use {place}: {error.strerror or error}; choose another place.") from error
