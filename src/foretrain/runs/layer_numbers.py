"""Layers by number: `dataset.sel(layer=0)` where their names differ in one number only."""

from __future__ import annotations

from collections.abc import Sequence

import xarray as xr

NAMES = "layer_name"


def numbered(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset with numbers as labels of its layers, and their names as a coordinate, `layer_name`.

    Layers keep their names as labels if these do not differ in exactly one number: in an encoder with a decoder, for
    instance, there are two layers 0.
    """
    if "layer" not in dataset.indexes:
        return dataset
    names = [str(name) for name in dataset["layer"].values.tolist()]
    numbers = layer_numbers(names)
    labelled = dataset if numbers is None else dataset.assign_coords(layer=numbers)
    return labelled.assign_coords({NAMES: ("layer", names)})


def layer_numbers(names: Sequence[str]) -> list[int] | None:
    """The number that tells these names apart: [0, 1] for "h.0.attn" and "h.1.attn"; None if there is not just one."""
    parts = [name.split(".") for name in names]
    if len({len(part) for part in parts}) != 1:
        return None
    columns = list(zip(*parts, strict=True))
    varying = [column for column in columns if len(set(column)) > 1]
    if len(names) == 1:
        varying = [column for column in columns if column[0].isdigit()] or [("0",)]
    if len(varying) != 1 or not all(part.isdecimal() and part.isascii() for part in varying[0]):
        return None
    numbers = [int(part) for part in varying[0]]
    return numbers if len(set(numbers)) == len(numbers) else None
