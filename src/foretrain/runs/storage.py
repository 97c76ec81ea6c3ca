"""Where a run is kept: a folder of this machine, or anything that fsspec opens, such as s3://bucket/runs.

Files are whole or absent in both: a folder gets a temporary file that is renamed, an object store an object at once.
"""

from __future__ import annotations

import shutil
import uuid
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import fsspec

from foretrain.core.errors import InputError
from foretrain.core.files import remove_abandoned, write_bytes

if TYPE_CHECKING:
    from zarr.abc.store import Store


def load_zarr() -> None:
    """Import zarr, which takes half a second, without the warning filter that one of its libraries adds for good."""
    with warnings.catch_warnings():
        import zarr  # noqa: F401


@dataclass(frozen=True)
class Storage:
    """A folder or a prefix in a store."""

    location: str

    @classmethod
    def of(cls, location: str | Path | Storage) -> Storage:
        if isinstance(location, Storage):
            return location
        text = str(location)
        return cls(text.removeprefix("file://") if text.startswith("file://") else text)

    @property
    def path(self) -> Path | None:
        """The folder, if it is one of this machine."""
        return None if "://" in self.location else Path(self.location)

    def absolute(self) -> Storage:
        """The same place for a process with another current folder."""
        return Storage(str(self.path.resolve())) if self.path is not None else self

    @property
    def in_this_process_only(self) -> bool:
        return urlsplit(self.location).scheme == "memory"

    def __str__(self) -> str:
        return self.location

    def __truediv__(self, name: str) -> Storage:
        return Storage(str(self.path / name) if self.path is not None else f"{self.location.rstrip('/')}/{name}")

    def read(self, name: str) -> bytes | None:
        """The contents of a file; None if there is none."""
        try:
            if self.path is not None:
                return (self.path / name).read_bytes()
            files, root = self._files()
            return bytes(files.cat_file(f"{root}/{name}"))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all."""
        if self.path is not None:
            write_bytes(self.path / name, content)
            return
        files, root = self._files()
        try:
            files.pipe_file(f"{root}/{name}", content)
        except OSError as error:
            raise InputError(f"Cannot write to {self}: {error}; choose another place.") from error

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        return (self.path / name).is_file() if self.path is not None else self.read(name) is not None

    def names(self, below: str) -> set[str]:
        """The files below a folder of this place, relative to that folder."""
        if self.path is not None:
            start = self.path / below
            return {path.relative_to(start).as_posix() for path in start.rglob("*") if path.is_file()}
        files, root = self._files()
        prefix = f"{root}/{below}"
        names = files.find(prefix) if files.exists(prefix) else []
        return {str(name).removeprefix(prefix).lstrip("/") for name in names}

    def remove(self, name: str) -> None:
        """Delete a file, or a folder with all that is in it; nothing happens if it is not there.

        A folder of this machine goes in one step: no reader finds half of it.
        """
        if self.path is not None:
            target = self.path / name
            if target.is_dir() and not target.is_symlink():
                renamed = target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}.new")  # `clear_up` knows this ending
                with suppress(OSError):
                    target = target.rename(renamed)
                shutil.rmtree(target, ignore_errors=True)
            else:
                target.unlink(missing_ok=True)
            return
        files, root = self._files()
        if files.exists(f"{root}/{name}"):
            files.rm(f"{root}/{name}", recursive=True)

    def clear_up(self) -> None:
        """Delete the temporary files that killed processes left in the folder of a run."""
        if self.path is None:
            return
        remove_abandoned(self.path)
        for path in self.path.glob("*.new"):  # arrays that were being made
            shutil.rmtree(path, ignore_errors=True)
        for path in self.path.rglob("*.partial"):  # written by zarr
            if not path.is_dir():  # which a variable may be called, too
                path.unlink(missing_ok=True)

    def store(self) -> Store:
        """This place for zarr."""
        load_zarr()
        from zarr.storage import FsspecStore, LocalStore

        return LocalStore(self.path) if self.path is not None else FsspecStore.from_url(self.location)

    def _files(self) -> tuple[Any, str]:
        try:
            files, root = fsspec.core.url_to_fs(self.location)
        except (ValueError, ImportError) as error:
            raise InputError(f"{self} cannot be opened: {error}; give a folder, or install what it needs.") from error
        return files, root.rstrip("/")
