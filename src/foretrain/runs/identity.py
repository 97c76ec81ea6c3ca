"""What a run depends on: its configuration, the source code that computes it, and the versions of libraries."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from reprlib import repr as short_repr
from typing import Any

import numpy as np

from foretrain.core.errors import require
from foretrain.core.files import is_unicode, plain, sha256_of
from foretrain.core.provenance import is_plain, value_bytes, versions


def digest_of(value: Any) -> str:
    """Twelve hex digits that name a configuration or anything else that JSON can say."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=plain).encode()).hexdigest()[:12]


def _is_json(value: Any) -> bool:
    """Whether JSON tells all there is to a value, apart from what kind of list it is; paths count as text."""
    if type(value) in (tuple, list, range):
        return all(map(_is_json, value))
    if type(value) is dict:
        return all(type(key) is str and _is_json(part) for key, part in value.items())
    return value is None or type(value) in (bool, int, float, np.float64, str) or isinstance(value, Path)


def _has_simple_keys(value: Any) -> bool:
    """Whether JSON can write the keys of all dictionaries in a value."""
    if isinstance(value, dict):
        simple = all(key is None or isinstance(key, str | int | float) for key in value)
        return simple and all(map(_has_simple_keys, value.values()))
    return all(map(_has_simple_keys, value)) if isinstance(value, tuple | list) else True


@dataclass(frozen=True)
class RunIdentity:
    """What a run depends on; two runs with the same identity have the same numbers."""

    experiment: str
    config: Mapping[str, Any]  # as it reads back from JSON
    source: str  # digest of the source code that computes it
    versions: Mapping[str, str] = field(default_factory=lambda: versions())  # looked up when a run is named
    cut: tuple[str, ...] = ()  # arguments that vary over the grid, in the order of the axes

    @classmethod
    def of(
        cls,
        experiment: str,
        config: Mapping[str, Any],
        source: str,
        files: Sequence[str] = (),
        cut: Sequence[str] = (),
    ) -> RunIdentity:
        """Tuples become lists. Arguments listed in `files` may be paths; the contents of those files count too.

        Values that JSON cannot hold in full, such as arrays, also count with all their bytes. Values that cannot be
        checked for changes are refused.
        """
        for name, value in config.items():
            require(
                is_plain(value) and _has_simple_keys(value),
                f"{name} ({type(value).__name__}) holds something other than numbers, text and numpy arrays, so a run "
                "cannot tell whether it has changed; convert it, or make it inside the function.",
            )
            require(
                is_unicode(json.dumps(value, ensure_ascii=False, default=plain)),
                f"{name} holds half a character, which a file cannot hold; got {short_repr(value)}.",
            )
        exact = {
            f"sha256 of argument {name}": hashlib.sha256(value_bytes(value)).hexdigest()
            for name, value in config.items()
            if not _is_json(value)
        }
        given = [config[name] for name in files]
        paths = [path for value in given for path in (value if isinstance(value, tuple | list) else [value])]
        contents = {f"sha256 of {path}": sha256_of(Path(path)) for path in paths if Path(path).is_file()}
        written = dict(json.loads(json.dumps({**config, **contents, **exact}, default=plain)))
        return cls(experiment, written, source, cut=tuple(cut))

    @property
    def name(self) -> str:
        """The name of its folder: a digest of the configuration and the grid, then one of code and versions."""
        return f"{digest_of([self.config, self.cut])}-{digest_of([self.source, self.versions])[:8]}"

    def is_that_of(self, other: RunIdentity) -> bool:
        """Whether both name the same run. (Values may be NaN, which equals nothing.)"""
        return (self.experiment, self.name) == (other.experiment, other.name)

    def path(self, root: Path) -> Path:
        """The folder of the run, below `root`."""
        return root / self.experiment / self.name
