"""Compares two models tensor by tensor, or two monitored runs step by step."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foretrain.checkpoints.analysis import NO_HEADS, config_of
from foretrain.checkpoints.formats import open_weights
from foretrain.checkpoints.matrices import BLOCK, measure_matrix
from foretrain.checkpoints.measure_checkpoint import has_attention, heads_in, is_trainable
from foretrain.checkpoints.run_comparison import RunComparison, compare_runs
from foretrain.checkpoints.scales import chance_of_mean, identity_chance
from foretrain.checkpoints.sentences import shown
from foretrain.checkpoints.sources import Source, find
from foretrain.checkpoints.weights import NotFinite, Weights
from foretrain.core.errors import require
from foretrain.core.progress import Progress, tell
from foretrain.measures.matrices import plain_arithmetic
from foretrain.monitor.projections import identity_shares

RUN_ENDING = ".jsonl"


@dataclass(frozen=True)
class Comparison:
    """How two models differ. Distances are ‖A − B‖/‖A‖ by tensor; stable ranks and identity shares are pairs (A, B)."""

    names: tuple[str, str]
    only: tuple[list[str], list[str]]  # tensors that one of them lacks
    shapes: dict[str, tuple[list[int], list[int]]]  # of tensors whose shapes differ
    distances: dict[str, float]  # largest first; 0 for tensors that are equal to the last bit
    sides: dict[str, list[int]] = field(default_factory=dict)  # the shape of each tensor that has a distance
    stable_ranks: dict[str, tuple[float, float]] = field(default_factory=dict)
    identity: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)  # means over heads, by layer
    chance: float = math.nan  # how large these means are by chance (one standard deviation)
    notes: list[str] = field(default_factory=list)  # what was left out, and how to have it

    @property
    def identical(self) -> list[str]:
        """Tensors that are the same in both."""
        return [name for name, distance in self.distances.items() if distance == 0]

    @property
    def summary(self) -> str:
        """A few sentences."""
        a, b = self.names
        shared, same = len(self.distances), len(self.identical)
        parts = []
        if shared and same == shared:
            rest = " that both have" if self.shapes or any(self.only) else ""
            parts.append(f"{a} and {b} have the same weights in all {shared} tensors{rest}.")
        elif shared:
            parts.append(f"{shared - same} of {shared} tensors differ, {same} are identical.")
            parts += [*self._matrices(), *self._vectors()]
        elif self.shapes:
            parts.append(f"{a} and {b} have no tensor of the same name and shape, so that no distance can be given.")
        else:
            parts.append(f"{a} and {b} have no tensor in common.")
        for name, missing in zip((b, a), self.only, strict=True):
            if len(missing) == 1:
                parts.append(f"{name} lacks one tensor that the other has: {missing[0]}.")
            elif missing:
                parts.append(f"{name} lacks {len(missing)} tensors that the other has, such as {missing[0]}.")
        if self.shapes:
            name, (one, other) = next(iter(self.shapes.items()))
            several = f"{len(self.shapes)} tensors have the same name but different shapes, such as {name}"
            which = several if len(self.shapes) > 1 else f"{name} has different shapes"
            parts.append(f"{which}: {one} and {other}.")
        return " ".join([*parts, *self.notes])

    def moved(self, *, vectors: bool) -> dict[str, float]:
        """The distances of the matrices that differ, largest first; or of the vectors, such as biases and norms."""
        return {n: d for n, d in self.distances.items() if d > 0 and _is_vector(self.sides[n]) == vectors}

    def _matrices(self) -> list[str]:
        distances = self.moved(vectors=False)
        if not distances:
            return []
        name, largest = next(iter(distances.items()))
        if len(distances) == 1:
            return [f"The distance of {name} is {shown(100 * largest)} % of its norm."]
        median = shown(100 * statistics.median(distances.values()))
        return [
            f"The median distance of the {len(distances)} matrices that differ is {median} % of the matrix's norm, the "
            f"largest is {shown(100 * largest)} % ({name})."
        ]

    def _vectors(self) -> list[str]:
        distances = self.moved(vectors=True)
        total = sum(_is_vector(shape) for shape in self.sides.values())
        if not distances:
            return []
        far = "; those that are near 0 in A can differ by more than 100 %" if max(distances.values()) > 1 else ""
        median = shown(100 * statistics.median(distances.values()))
        return [f"Of {total} vectors (biases and norms) {len(distances)} differ, by {median} % in the median{far}."]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        kept = ("names", "summary", "only", "shapes", "distances", "stable_ranks", "identity")
        return {name: getattr(self, name) for name in kept}


def compare(a: str | Path, b: str | Path, *, heads: int | None = None) -> Comparison | RunComparison:
    """Compare two models (folders, files, hub names) or two monitored runs (.jsonl files)."""
    runs = [str(side).endswith(RUN_ENDING) for side in (a, b)]
    kinds = ["a run" if run else "a model" for run in runs]
    require(runs[0] == runs[1], f"{a} is {kinds[0]} and {b} is {kinds[1]}; give two of a kind.")
    if runs[0]:
        return compare_runs(Path(a), Path(b))
    sources = [find(str(side)) for side in (a, b)]
    for side, source in zip((a, b), sources, strict=True):
        require(
            len(source.checkpoints) == 1,
            f"{side} is a folder of {len(source.checkpoints)} checkpoints; give one of them, such as "
            f"{Path(side) / source.checkpoints[-1].label}.",
        )
    labels = (sources[0].name, sources[1].name)
    names = labels if labels[0] != labels[1] else (str(a), str(b))
    (one, its_heads), (other, other_heads) = (_opened(source, heads) for source in sources)
    with plain_arithmetic(torch.device("cpu")):
        return _compare(names, one, other, (its_heads, other_heads))


def _opened(source: Source, heads: int | None) -> tuple[Weights, int | None]:
    """The weights of a single checkpoint, and its number of heads, if it is known."""
    place = source.checkpoints[0].place()
    weights = open_weights(place)
    return weights, heads or heads_in(config_of(place, source, weights))


def _compare(names: tuple[str, str], one: Weights, other: Weights, heads: tuple[int | None, int | None]) -> Comparison:
    shapes: dict[str, tuple[list[int], list[int]]] = {}
    distances: dict[str, float] = {}
    sides: dict[str, list[int]] = {}
    ranks: dict[str, tuple[float, float]] = {}
    shared = [name for name in one if name in other]
    whole_numbers: set[str] = set()  # masks and quantised weights
    for done, name in enumerate(shared):
        tell(Progress(done, len(shared), name))
        x, y = one[name], other[name]
        if not (x.is_floating_point() and y.is_floating_point()):
            whole_numbers.add(name)
        if x.shape != y.shape:
            shapes[name] = (list(x.shape), list(y.shape))
        elif is_trainable(name, x) and y.is_floating_point():
            distances[name], sides[name] = _distance(x, y), list(x.shape)
            if not math.isfinite(distances[name]):
                raise NotFinite(f"{name} has entries that are infinite or not a number in {' or '.join(names)}.")
            if x.ndim == 2 and not _is_vector(x.shape) and distances[name] > 0:
                ranks[name] = (measure_matrix(x)["stable_rank"], measure_matrix(y)["stable_rank"])
    only = [name for name in one if name not in other], [name for name in other if name not in one]
    ordered = dict(sorted(distances.items(), key=lambda item: -item[1]))
    identity = _identity(one.without(whole_numbers), other.without(whole_numbers), heads)
    notes = [NO_HEADS] if None in heads and has_attention(shared) and any(distances.values()) else []
    return Comparison(names, only, shapes, ordered, sides, ranks, identity, _chance(one, identity, heads[0]), notes)


def _distance(x: Tensor, y: Tensor) -> float:
    """‖x − y‖/‖x‖, in blocks; of y, if x is zero."""
    moved = size = reference = 0.0
    for a, b in zip(x.reshape(-1).split(BLOCK), y.reshape(-1).split(BLOCK), strict=True):
        a, b = a.double(), b.double()
        moved += float((a - b).square().sum())
        size, reference = size + float(a.square().sum()), reference + float(b.square().sum())
    return math.sqrt(moved / (size or reference)) if moved else 0.0


def _identity(
    one: Mapping[str, Tensor], other: Mapping[str, Tensor], heads: tuple[int | None, int | None]
) -> dict[str, dict[str, tuple[float, float]]]:
    if heads[0] is None or heads[1] is None:
        return {}
    ours, theirs = identity_shares(one, heads[0]), identity_shares(other, heads[1])
    return {
        layer: {
            product: (statistics.fmean(shares), statistics.fmean(theirs[layer][product]))
            for product, shares in products.items()
            if product in theirs[layer]
        }
        for layer, products in ours.items()
        if layer in theirs
    }


def _chance(one: Weights, identity: dict[str, Any], heads: int | None) -> float:
    """How large the mean over heads of the first layer's identity shares is by chance."""
    if not identity or heads is None:
        return math.nan
    layer = next(iter(identity))
    shapes = {name: one[name].shape for name in one if name.startswith(layer)}
    return chance_of_mean([(heads, identity_chance(shapes, layer, heads))])


def _is_vector(shape: Sequence[int]) -> bool:
    return sum(side > 1 for side in shape) < 2
