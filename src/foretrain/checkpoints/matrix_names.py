"""Sorts matrices by their names: which layer they are in, whether they are attention's or an MLP's, and what kind."""

from __future__ import annotations

import re
from collections.abc import Iterable

import xarray as xr

from foretrain.checkpoints.configs import LAYER

ANY_LAYER = (  # where nobody calls them layers or blocks: "encoder.3.", "layer3.", or any number between two dots
    re.compile(r"^(?P<stack>(?:.*?\.)?\w*?(?:layer|block)s?)[._]?(?P<number>\d+)\."),
    re.compile(r"^(?P<stack>.*?)\.(?P<number>\d+)\."),
)
GROUPS = {
    "attention": re.compile(
        r"attn|attention|q_proj|k_proj|v_proj|o_proj|query|key|value|qkv|\bw[qkvo]\b|\b(?:to_)?[qkv]\b"
    ),
    "MLP": re.compile(
        r"mlp|ffn|feed_forward|\bff\b|\bfc\d?\b|c_fc|up_proj|down_proj|gate_proj|\b(?:up|down|gate)\b|w[123]\b|dense|"
        r"\blinear[12]\b"
    ),
}
DIGITS = re.compile(r"(\d+)")
EXPERT = re.compile(r"\bexperts\.\d+\b")


def group_of(matrix: str) -> str | None:
    """Whether a matrix belongs to attention or to an MLP, by its name inside a layer; None for others."""
    match = layer_of(matrix)
    inside = matrix[match.end() :] if match else ""
    return next((group for group, pattern in GROUPS.items() if pattern.search(inside)), None)


def layer_of(name: str) -> re.Match[str] | None:
    """The part of a tensor's name that says which layer it is in, whatever its author calls a layer."""
    return next((match for pattern in (LAYER, *ANY_LAYER) if (match := pattern.match(name))), None)


def layer_number(name: str) -> int | None:
    """The number of the layer that a matrix or module is in."""
    match = layer_of(f"{name}.")
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
    known = [(group, name, match) for name in matrices if (group := group_of(name)) and (match := layer_of(name))]
    several = len({match["stack"] for _, _, match in known}) > 1
    kinds: dict[str, list[str]] = {}
    for _, name, match in sorted(known, key=lambda entry: list(GROUPS).index(entry[0])):
        inside = EXPERT.sub("experts.*", name[match.end() :]).removesuffix(".weight")
        kinds.setdefault(f"{match['stack']}: {inside}" if several else inside, []).append(name)
    return kinds
