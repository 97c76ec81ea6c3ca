"""What a number depends on besides its configuration: versions, machine, and the source code itself."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from importlib import metadata
from pathlib import Path

PACKAGE = Path(__file__).parent

# Rooms that show, store or hand out results: changing them changes no number.
OUTER = frozenset({"cli", "report", "explorer", "forecast", "check.py", "export.py", "workers.py", "provenance.py"})


@cache
def versions() -> dict[str, str]:
    """Versions of everything a number here may depend on."""
    names = ("foretrain", "torch", "numpy", "scipy", "xarray", "plotly")
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in names}}


def machine() -> dict[str, str]:
    """The kind of machine, not its name."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cores": str(os.cpu_count()),
    }


@cache
def source_digest(paper: str) -> str:
    """Twelve hex digits over the source code that a result of this paper may depend on.

    Everything in the package counts except the outer rooms and the other papers.
    """
    sha = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        other_paper = parts[0] == "papers" and len(parts) > 2 and parts[1] != paper
        if parts[0] not in OUTER and not other_paper:
            sha.update("/".join(parts).encode() + b"\0" + path.read_bytes() + b"\0")
    return sha.hexdigest()[:12]
