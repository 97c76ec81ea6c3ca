"""Names of layers and matrices without what all of them share."""

from __future__ import annotations

from collections.abc import Sequence


def without_shared(names: Sequence[str]) -> dict[str, str]:
    """Dotted names without the parts that all of them begin or end with."""
    parts = [name.split(".") for name in names]
    if len(names) < 2:
        return {name: name for name in names}
    front = _shared(parts)
    back = _shared([part[front:][::-1] for part in parts])
    return {name: ".".join(part[front : len(part) - back]) for name, part in zip(names, parts, strict=True)}


def _shared(parts: list[list[str]]) -> int:
    """How many parts all lists begin with, leaving at least one of each."""
    most = min(len(part) for part in parts) - 1
    return next((k for k in range(most) if len({part[k] for part in parts}) > 1), max(0, most))
