"""Compressed files: a small file that unpacks to gigabytes is refused before it fills the memory.

Text packs about 3 to 10 times, tables that repeat themselves about 20 times; a file made to fill the memory packs 1000
times and more.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from foretrain.core.errors import InputError

ALWAYS = 64_000_000  # bytes that any file may unpack to
MOST_TIMES = 50  # a larger file may unpack to this many times its own size
_PART = 1 << 20  # bytes unpacked at a time


def require_unpacked(path: str | Path, size: int, packed: int) -> None:
    """Refuse to unpack `size` bytes, or more, from a file that has `packed` bytes, if that is out of all proportion."""
    most = max(ALWAYS, MOST_TIMES * packed)
    if size > most:
        raise InputError(
            f"{path} has {packed / 1e6:,.3g} MB and unpacks to more than {most / 1e6:,.0f} MB, far more than real data "
            "does; unpack it yourself if you trust it."
        )


def unpacked(path: Path) -> bytes:
    """The content of a gzip file. InputError if it is torn, damaged, or made to fill the memory."""
    content, packed = bytearray(), path.stat().st_size
    try:
        with gzip.open(path) as stream:
            while part := stream.read(_PART):
                content += part
                require_unpacked(path, len(content), packed)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} is not a complete gzip file: {error}.") from error
    return bytes(content)
