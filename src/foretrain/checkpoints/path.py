"""Finds checkpoints out of order, and outliers, from the path that the weights take.

Training that moves at random or straight ahead leaves neighbours nearer than others. So the path through a series is
shortest in the right order, and a checkpoint lies between its neighbours: its distance to each is at most about their
distance from each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from jaxtyping import Float

from foretrain.checkpoints.distances import distances, overall
from foretrain.checkpoints.fault import Fault, Record, listed

SAVED = 0.12  # share of the edges concerned by which another order must be shorter; a random walk saves 0.17 to 0.22
BETWEEN = 1.2  # a checkpoint fits if neither neighbour is farther than this many times their own distance
FAR = 1.5  # an outlier is farther from both neighbours; a random walk gives at most 0.7, noise around one point gives 1
FAR_TENSOR, LEAST = 3.0, 0.05  # the same for one tensor, which must also be off by this share of its size
REACH = 50  # checkpoints, how far one may be out of place, in series of more than 200
Table = Float[np.ndarray, "checkpoint checkpoint"]


def wrong_steps(records: Sequence[Record]) -> list[Fault]:
    """Checkpoints whose trainer wrote another step than their name says."""
    return [
        Fault(
            "out of order", record["checkpoint"], "trainer_state.json",
            f"{record['checkpoint']} was written at step {record['trainer_step']}, according to trainer_state.json.",
        )
        for record in records
        if record.get("trainer_step") is not None and record["trainer_step"] != record["step"]
    ]  # fmt: skip


def out_of_order(records: Sequence[Record]) -> list[Fault]:
    """Checkpoints that fit elsewhere: two that are exchanged, or one that belongs between two others."""
    tables = distances(records) if len(records) > 2 else {}
    if not tables:
        return []
    table, order, faults = overall(tables), list(range(len(records))), []
    labels = [record["checkpoint"] for record in records]
    for _ in records:
        best = max(_moves(table, order), key=lambda move: move.saved, default=None)
        if best is None:
            break
        order, moved = best.order, best.moved
        percent = f"distances to the neighbours add up to {100 * best.share:.0f} % less"
        if len(moved) == 2:
            one, other = (labels[k] for k in moved)
            sentence = f"{one} and {other} look exchanged: with their places swapped, {percent}."
            faults.append(Fault("out of order", one, "all", sentence, (other,)))
        else:
            at = order.index(moved[0])
            before, after = labels[order[at - 1]], labels[order[at + 1]]
            sentence = f"{labels[moved[0]]} seems to belong between {before} and {after}: there, {percent}."
            faults.append(Fault("out of order", labels[moved[0]], "all", sentence))
    return faults


def outliers(records: Sequence[Record]) -> list[Fault]:
    """Checkpoints that are far from both neighbours, in all tensors together or in single ones."""
    tables = distances(records) if len(records) > 2 else {}
    if not tables:
        return []
    table, faults = overall(tables), []
    for k in range(1, len(records) - 1):
        label, before, after = (records[i]["checkpoint"] for i in (k, k - 1, k + 1))
        ratio = _ratio(table, k)
        if ratio > FAR:
            sentence = f"{label} is {ratio:.1f} times as far from {before} and {after} as they are from each other."
            faults.append(Fault("outlier", label, "all", sentence))
            continue
        far = [
            name for name, one in tables.items()
            if _ratio(one, k) > FAR_TENSOR and min(one[k, k - 1], one[k, k + 1]) > LEAST
        ]  # fmt: skip
        if far:
            sentence = f"{label} is far from both {before} and {after}, which are near each other, in {listed(far)}."
            faults.append(Fault("outlier", label, ", ".join(far), sentence))
    return faults


def _ratio(table: Table, k: int) -> float:
    between = table[k - 1, k + 1]
    return float(min(table[k - 1, k], table[k, k + 1]) / between) if between > 0 else 0.0


@dataclass(frozen=True)
class _Move:
    saved: float  # length of the path
    share: float  # of the edges that differ
    order: list[int]  # the new one
    moved: tuple[int, ...]  # checkpoints


def _moves(table: Table, order: list[int]) -> Iterator[_Move]:
    """Every move that makes the path clearly shorter."""
    count = len(order)
    reach = count if count <= 200 else REACH
    for i, j in combinations(range(count), 2):
        if j - i > reach:
            continue
        swapped = order.copy()
        swapped[i], swapped[j] = order[j], order[i]
        moves: list[tuple[list[int], tuple[int, ...]]] = [(swapped, (order[i], order[j]))]
        if j - i > 1:
            later, earlier = order.copy(), order.copy()
            later.insert(j, later.pop(i))
            earlier.insert(i, earlier.pop(j))
            moves += [(later, (order[i],))] * (j < count - 1) + [(earlier, (order[j],))] * (i > 0)  # not to an end
        for new, moved in moves:
            before, after = _edges(table, order[max(i - 1, 0) : j + 2], new[max(i - 1, 0) : j + 2])
            if before - after > SAVED * before and all(_fits(table, order, new, one) for one in moved):
                yield _Move(before - after, 1 - after / before, new, moved)


def _edges(table: Table, old: list[int], new: list[int]) -> tuple[float, float]:
    """The lengths of the edges that only the old order has, and of those that only the new one has."""
    edges, others = ({frozenset(pair) for pair in pairwise(path)} for path in (old, new))
    before, after = (sum(table[tuple(edge)] for edge in part) for part in (edges - others, others - edges))
    return float(before), float(after)


def _fits(table: Table, old: list[int], new: list[int], one: int) -> bool:
    """Whether a checkpoint lies between its new neighbours; at an end, whether it was no outlier where it was."""
    at = new.index(one)
    if 0 < at < len(new) - 1:
        before, after = new[at - 1], new[at + 1]
        return bool(max(table[before, one], table[one, after]) <= BETWEEN * table[before, after])
    was = old.index(one)
    if 0 < was < len(old) - 1:
        others = [k for k in old if k != one]
        return bool(table[one, others].min() <= FAR * table[old[was - 1], old[was + 1]])
    return True
