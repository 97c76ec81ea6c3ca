"""What a run depends on: its configuration, the source code that computes it, and the versions of libraries."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foretrain.core.files import plain, sha256_of
from foretrain.core.provenance import versions


def digest_of(value: Any) -> str:
    """Twelve hex digits that name a configuration or anything else that JSON can say."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=plain).encode()).hexdigest()[:12]


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
        """Tuples become lists. Arguments listed in `files` may be paths; the contents of those files count too."""
        given = [config[name] for name in files]
        paths = [path for value in given for path in (value if isinstance(value, tuple | list) else [value])]
        contents = {f"sha256 of {path}": sha256_of(Path(path)) for path in paths if Path(path).is_file()}
        written = dict(json.loads(json.dumps({**config, **contents}, default=plain)))
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
