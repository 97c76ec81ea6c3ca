"""Sorts matrices by their names: which layer they are in, whether they are attention's or an MLP's, and what kind."""

from __future__ import annotations

import re
from collections.abc import Iterable

import xarray as xr

from foretrain.checkpoints.configs import LAYER

GROUPS = {
    "attention": re.compile(r"attn|attention|q_proj|k_proj|v_proj|o_proj|query|key|value"),
    "MLP": re.compile(r"mlp|ffn|feed_forward|\bfc\d?\b|c_fc|up_proj|down_proj|gate_proj|w[123]\b|dense"),
}
DIGITS = re.compile(r"(\d+)")
EXPERT = re.compile(r"\bexperts\.\d+\b")


def group_of(matrix: str) -> str | None:
    """Whether a matrix belongs to attention or to an MLP, by its name inside a layer; None for others."""
    match = LAYER.match(matrix)
    inside = matrix[match.end() :] if match else ""
    return next((group for group, pattern in GROUPS.items() if pattern.search(inside)), None)


def layer_number(name: str) -> int | None:
    """The number of the layer that a matrix or module is in."""
    match = LAYER.match(f"{name}.")
    return int(match["number"]) if match else None


def in_order(names: Iterable[str]) -> list[str]:
    """Names sorted so that layer 2 comes before layer 10."""
    return sorted(names, key=lambda name: [int(part) if part.isdigit() else part for part in DIGITS.split(name)])


def layer_labels(layers: Iterable[str]) -> list[str]:
    """A short label for each module with attention: "layer 3", or the whole name if a layer has several."""
    names = list(layers)
    numbers = [layer_number(name) for name in names]
    return [
        name if number is None or numbers.count(number) > 1 else f"layer {number}"
        for name, number in zip(names, numbers, strict=True)
    ]


def by_group(dataset: xr.Dataset, measure: str, group: str) -> xr.DataArray:
    """A measure of the matrices of one group, over (step, matrix)."""
    chosen = [name for name in dataset["matrix"].values.tolist() if group_of(name) == group]
    return dataset[measure].sel(matrix=chosen)


def by_kind(matrices: Iterable[str]) -> dict[str, list[str]]:
    """The matrices that do the same in every layer, such as all mlp.c_fc; attention first. The experts of a layer are
    one kind; an encoder's matrices and a decoder's are two."""
    known = [(group, name, match) for name in matrices if (group := group_of(name)) and (match := LAYER.match(name))]
    several = len({match["stack"] for _, _, match in known}) > 1
    kinds: dict[str, list[str]] = {}
    for _, name, match in sorted(known, key=lambda entry: list(GROUPS).index(entry[0])):
        inside = EXPERT.sub("experts.*", name[match.end() :]).removesuffix(".weight")
        kinds.setdefault(f"{match['stack']}: {inside}" if several else inside, []).append(name)
    return kinds
