"""What commands read and write: refused before any work if that cannot be done, or would destroy what is there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foretrain.cli.common import say
from foretrain.cli.terminal import json_text
from foretrain.core.errors import require
from foretrain.core.files import require_writable, write_text

FIGURES = (".html", ".png", ".svg")


def require_outputs(files: Mapping[str, Path | None], *, texts: str | Path | None = None) -> None:
    """Refuse files that cannot be written, that are one and the same, or that are the `texts` under another name."""
    options: dict[Path, str] = {}
    for option, path in files.items():
        if path is None:
            continue
        require_writable(option, path)
        is_page = option != "--report" or path.suffix.lower() in (".html", ".htm")
        require(is_page, f"{option} writes HTML; got {path.name}; give a name that ends in .html.")
        is_figure = option != "--figure" or path.suffix in FIGURES
        require(is_figure, f"{option} must end in {', '.join(FIGURES)}; got {path.name}.")
        other = options.setdefault(path.resolve(), option)
        require(other == option, f"{other} and {option} both write {path}; give two names.")
        overwrites = texts is not None and path.exists() and Path(texts).is_file() and path.samefile(texts)
        require(not overwrites, f"{option} {path} would overwrite the texts; choose another name.")


def write_json(path: Path, value: Any) -> None:
    """Write a result as JSON, and say so."""
    write_text(path, json_text(value) + "\n")
    say(f"Wrote {path}.")
