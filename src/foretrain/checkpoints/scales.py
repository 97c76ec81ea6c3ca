"""What to compare the measures with: the largest rank of a matrix, and the identity shares that chance gives."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from foretrain.checkpoints.fault import Record
from foretrain.checkpoints.matrix_names import group_of
from foretrain.monitor.projections import OUTPUT, SEPARATE


def identity_chance(shapes: Mapping[str, Sequence[int]], layer: str, heads: int) -> float:
    """The standard deviation of one head's identity share if its factors were random: 1/√(width·per_head).

    The query matrix has width·per_head·heads entries, and so has the output matrix where queries are stored together
    with keys. Nan if the layer has neither.
    """
    for part in (*(names[0] for names in SEPARATE), *OUTPUT):
        shape = shapes.get(f"{layer}.{part}.weight" if layer else f"{part}.weight")
        if shape is not None and len(shape) == 2:
            return math.sqrt(heads / math.prod(shape))
    return math.nan


def identity_chances(record: Record) -> dict[str, tuple[int, float]]:
    """For each layer with identity shares: its number of heads, and what chance gives for one head."""
    shapes = {name: tensor["shape"] for name, tensor in record["tensors"].items()}
    heads = {layer: max(map(len, products.values())) for layer, products in record["identity"].items()}
    return {layer: (count, identity_chance(shapes, layer, count)) for layer, count in heads.items()}


def chance_of_mean(chances: Iterable[tuple[int, float]]) -> float:
    """What chance gives for the mean over all heads of these layers."""
    pairs = [(heads, chance) for heads, chance in chances if math.isfinite(chance)]
    count = sum(heads for heads, _ in pairs)
    return math.sqrt(sum(heads * chance**2 for heads, chance in pairs)) / count if count else math.nan


def largest_ranks(record: Record, group: str) -> str:
    """The largest rank that the matrices of a group can have: "64", or "32 to 64" if they differ."""
    ranks = {min(record["tensors"][name]["shape"]) for name in record["weights"] if group_of(name) == group}
    low, high = min(ranks, default=0), max(ranks, default=0)
    return str(high) if low == high else f"{low} to {high}"
