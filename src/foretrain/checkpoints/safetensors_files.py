"""Reads safetensors files, one or many, a tensor at a time.

The format is eight bytes with the length of a header, the header (JSON: type, shape and place of every tensor) and the
bytes of the tensors. Files are read, not mapped: the pages of a mapped file stay in memory and add up to its size.
"""

from __future__ import annotations

import json
import math
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foretrain.checkpoints.weights import MissingShards, Unreadable, Weights, torn, unwrapped

INDEX = "model.safetensors.index.json"
NUMBERED = re.compile(r"(?P<stem>.+)-(?P<number>\d+)-of-(?P<total>\d+)(?P<ending>\.\w+)")
MOST = 2**48  # rows, or bytes
MOST_HEADER = 100_000_000  # bytes, as the format says
TYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip


@dataclass(frozen=True)
class _Place:
    file: Path
    dtype: torch.dtype
    shape: tuple[int, ...]
    first: int  # byte of the file
    size: int  # in bytes


class SafetensorsWeights(Weights):
    """The tensors of one or several safetensors files."""

    def __init__(self, files: list[Path]) -> None:
        stored = {name: place for file in files for name, place in _places(file).items()}
        names = unwrapped(list(stored))
        self._places = {name: stored[old] for name, old in names.items()}
        super().__init__({name: place.file.name for name, place in self._places.items()})

    def __getitem__(self, name: str) -> Tensor:
        place = self._places[name]
        content = torch.empty(place.size, dtype=torch.uint8)
        buffer: Any = content.numpy()
        with open(place.file, "rb") as stream:
            stream.seek(place.first)
            if stream.readinto(buffer) != place.size:
                raise torn(place.file)
        return content.view(place.dtype).reshape(place.shape)


def _places(file: Path) -> dict[str, _Place]:
    size = file.stat().st_size
    with open(file, "rb") as stream:
        start = stream.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else -1
        if not 0 < length <= MOST_HEADER:
            raise Unreadable(f"{file} is not a safetensors file: it does not begin with the length of a header.")
        if size < 8 + length:
            raise torn(file)
        header = stream.read(length)
    try:
        entries: dict[str, Any] = json.loads(header)
        entries.pop("__metadata__", None)
        places = {name: _place(file, entry, 8 + length) for name, entry in entries.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable(f"{file} is not a safetensors file: its header cannot be read ({error}).") from error
    if any(place.first + place.size > size for place in places.values()):
        raise torn(file)
    return places


def _place(file: Path, entry: Any, data: int) -> _Place:
    dtype, shape = TYPES[entry["dtype"]], tuple(entry["shape"])
    first, end = entry["data_offsets"]
    if not all(type(number) is int and 0 <= number < MOST for number in (*shape, first, end)):
        raise ValueError("a shape or a place is not a whole number of at least 0")
    place = _Place(file, dtype, shape, data + first, end - first)
    if place.size != math.prod(shape) * dtype.itemsize:
        raise ValueError("shapes and places do not match")
    return place


def shards_in(folder: Path, index: Path, files: list[Path]) -> list[Path]:
    """The files of a checkpoint in parts, from its index or from the numbers in their names; all must be there."""
    wanted = set(_listed(index)) if index.is_file() else {file.name for file in files}
    for file in files:
        match = NUMBERED.fullmatch(file.name)
        if match and not index.is_file():
            total, digits = int(match["total"]), len(match["number"])
            wanted |= {
                f"{match['stem']}-{number:0{digits}}-of-{match['total']}{match['ending']}"
                for number in range(1, total + 1)
            }
    absent = sorted(name for name in wanted if not (folder / name).is_file())
    if absent:
        listed = ", ".join(absent[:3]) + (f" and {len(absent) - 3} more" if len(absent) > 3 else "")
        raise MissingShards(f"{folder} lacks {len(absent)} of {len(wanted)} files of weights: {listed}.")
    return [folder / name for name in sorted(wanted)]


def _listed(index: Path) -> list[str]:
    try:
        names = [str(name) for name in json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable(f"{index} cannot be read as an index of shards ({type(error).__name__}).") from error
    for name in names:
        if name in ("", ".", "..") or "/" in name or "\\" in name:
            raise Unreadable(f"{index} names {name!r} as a file of weights; only files in the same folder are read.")
    return names
