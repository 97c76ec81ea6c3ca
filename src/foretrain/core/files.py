"""Files that are whole or absent, and records that notice damage.

Contents are built in memory, written under a temporary name, flushed and renamed: killing the program at any moment
leaves the old file or the new one. The temporary name holds the process id, so that the next run can clear up after a
killed one.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import socket
import tempfile
import uuid
from collections.abc import Mapping
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from foretrain.core.errors import DamagedFile, InputError, require

_TEMPORARY = re.compile(r"\..+\.(?P<host>[0-9a-f]{8})-(?P<process>\d+)-[0-9a-f]{8}\.part")
_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def sha256_of(path: Path) -> str:
    """The sha256 of a file's contents."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_bytes(path: Path, content: bytes | memoryview) -> None:
    """Write a file, whole or not at all; a pipe or a device is written to directly."""
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_bytes(content)
        return
    temporary = path.parent / temporary_name(path.name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "xb") as file:  # "x" neither follows a link nor empties a file
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except IsADirectoryError as error:
        raise InputError(f"Cannot write {path}: it is a folder; give the name of a file.") from error
    except OSError as error:
        if error.errno in _DISK_FULL:
            raise InputError(
                f"Cannot write {path}: the disk is full ({error.strerror}); free some space and give the same command "
                "again, which goes on where it stopped."
            ) from error
        raise InputError(f"Cannot write to {path.parent}: {error.strerror}; choose another place.") from error


def temporary_name(name: str) -> str:
    """The name of a file while it is written: that of the file, cut so that it stays a name, and the process."""
    return f".{_cut(name)}.{_host()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.part"


def _cut(name: str) -> str:
    return os.fsencode(name)[:180].decode(errors="ignore")


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all. Half a character, which a file name or JSON may hold and UTF-8 may not,
    is written as an escape such as \\ud800."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def remove_abandoned(folder: Path, name: str = "*") -> None:
    """Delete the temporary files that killed processes of this machine left: below a folder, or of one file in it."""
    for path in folder.rglob(".*.part") if name == "*" else folder.glob(f".{escape(_cut(name))}.*.part"):
        match = _TEMPORARY.fullmatch(path.name)
        if match and match["host"] == _host() and not _is_alive(int(match["process"])):
            path.unlink(missing_ok=True)


def require_writable(option: str, path: Path, *, folder: bool = False) -> None:
    """Fail now if a file or folder cannot be written, not after an hour of work. Nothing is left behind."""
    wrong_kind = path.exists() and path.is_dir() != folder
    require(not wrong_kind, f"{option} {path} is {'not ' if folder else ''}a folder; choose another name.")
    parent = path if folder else path.parent
    while not parent.exists():
        parent = parent.parent
    try:
        with tempfile.TemporaryFile(dir=parent):
            pass
        if path.is_file():
            path.open("ab").close()
        if not folder and path.parent.is_dir():
            remove_abandoned(path.parent, path.name)
    except OSError as error:
        raise InputError(f"{option} {path} cannot be written ({error.strerror}); choose another place.") from error


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write a JSON object with a seal: the sha256 of the rest, by which `read_record` notices damage."""
    write_text(path, record_text(record))


def record_text(record: Mapping[str, Any]) -> str:
    """A JSON object with its seal."""
    plain_record = json.loads(json.dumps(record, default=plain))
    sealed = {"sha256": _seal(plain_record), **plain_record}
    return json.dumps(sealed, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def read_record(path: Path) -> dict[str, Any]:
    """A JSON object that `write_record` wrote. DamagedFile if it is not what was written."""
    return unsealed(path.read_bytes(), str(path))


def unsealed(content: bytes, name: str) -> dict[str, Any]:
    """A JSON object from its sealed text. DamagedFile if it is not what was written."""
    try:
        record = json.loads(content.decode("utf-8"))
        if isinstance(record, dict) and record.pop("sha256", None) == _seal(record):
            return record
    except (ValueError, RecursionError):
        pass
    raise DamagedFile(f"{name} is damaged: its contents do not match their seal.")


def _seal(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _host() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _is_alive(process: int) -> bool:
    if os.name == "nt":  # there, os.kill would end the process; what was left stays
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can write a text; half a character it cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain(value: Any) -> Any:
    """What JSON cannot write by itself: numpy numbers and arrays, ranges, sets, paths."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray | xr.DataArray):
        return np.asarray(value).tolist()
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, range):
        return list(value)
    return str(value)
