"""Finds weights that are the same in two checkpoints although they should have moved: in all tensors, in the tensors
of one shard, or in single tensors.

A tensor that is the same in the whole series is frozen, or a constant, and no fault; nor is one that is the same from
the first checkpoint up to some step, because it may be unfrozen then. Vectors alone are none either:
rounded to 16 bits, the scale of a norm may move by less than the rounding, or come back to where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from foretrain.checkpoints.distances import distances, overall
from foretrain.checkpoints.fault import Fault, Record, listed

KIND = "identical weights"


def identical_weights(records: Sequence[Record]) -> list[Fault]:
    """A fault for every pair of checkpoints that share weights; of several equal ones, the first is in every pair."""
    moving, untrained = moving_tensors(records), until(records)
    faults: list[Fault] = []
    repeated: set[int] = set()
    for first, second in combinations(range(len(records)), 2):
        if first in repeated or second in repeated:
            continue
        one, other = records[first]["tensors"], records[second]["tensors"]
        same = [name for name in other if name in one and one[name]["digest"] == other[name]["digest"]]
        if len(same) == len(one) == len(other):
            repeated.add(second)
            wrong, right = (record["checkpoint"] for record in _culprit(records, first, second, same))
            sentence = f"{wrong} has the same weights as {right}, to the last bit."
            faults.append(Fault(KIND, wrong, "all", sentence, (right,)))
        else:
            shared = [name for name in same if name in moving and second > untrained[name]]
            faults += _in_part(records, first, second, shared, moving)
    return faults


def until(records: Sequence[Record]) -> dict[str, int]:
    """For each tensor: the last record up to which it is the same as in the first; it may be unfrozen after that."""
    last = {}
    for name in {name for record in records for name in record["tensors"]}:
        seen = [record["tensors"].get(name, {}).get("digest") for record in records]
        last[name] = next((k for k, digest in enumerate(seen) if digest != seen[0]), len(seen)) - 1
    return last


def unfrozen_late(records: Sequence[Record]) -> list[str]:
    """A sentence on the matrices that stay as they were at first, and move later."""
    moving, steps = moving_tensors(records), until(records)
    equal = min((steps[name] for name in moving), default=0)  # up to here whole checkpoints are equal: a fault
    unfrozen: dict[int, list[str]] = {}
    for name in records[0]["tensors"] if records else ():
        if name in moving and steps[name] > equal and _is_matrix(records[0]["tensors"][name]):
            unfrozen.setdefault(steps[name], []).append(name)
    return [
        f"Not trained until step {records[k]['step']}, and the same as in the first checkpoint: {listed(names)}."
        for k, names in sorted(unfrozen.items())
    ]


def moving_tensors(records: Sequence[Record]) -> set[str]:
    """Tensors that are not the same in every checkpoint."""
    seen: dict[str, set[str]] = {}
    for record in records:
        for name, tensor in record["tensors"].items():
            if "sample" in tensor:
                seen.setdefault(name, set()).add(tensor["digest"])
    return {name for name, digests in seen.items() if len(digests) > 1}


def _in_part(records: Sequence[Record], first: int, second: int, shared: list[str], moving: set[str]) -> list[Fault]:
    if not shared:
        return []
    wrong, right = _culprit(records, first, second, shared)
    tensors = wrong["tensors"]
    shards = _whole_shards(tensors, shared, moving)
    rest = [name for name in shared if tensors[name]["shard"] not in shards]
    telling = [name for name in rest if _is_matrix(tensors[name])]
    begin, others = f"{wrong['checkpoint']} has the same weights as {right['checkpoint']}", (right["checkpoint"],)
    faults = []
    if shards:
        sentence = f"{begin} in {listed(shards)}, while its other files differ."
        faults.append(Fault(KIND, wrong["checkpoint"], ", ".join(shards), sentence, others))
    if telling:
        which = f"{len(telling)} of {len(tensors)} tensors" if len(telling) > 1 else "one tensor"
        moved = "they move" if len(telling) > 1 else "it moves"
        sentence = f"{begin} in {which}, though {moved} elsewhere in the series: {listed(telling)}."
        faults.append(Fault(KIND, wrong["checkpoint"], ", ".join(telling), sentence, others))
    return faults


def _culprit(records: Sequence[Record], first: int, second: int, shared: list[str]) -> tuple[Record, Record]:
    """The one of two checkpoints whose shared tensors fit its other neighbours worse, then the other one."""
    tables = distances(records, shared)
    if tables:
        table = overall(tables)
        misfits = []
        for one, twin in ((first, second), (second, first)):
            beside = [k for k in (one - 1, one + 1) if 0 <= k < len(records) and k != twin]
            misfits.append(float(np.mean([table[one, k] for k in beside])) if beside else 0.0)
        if misfits[0] > misfits[1]:
            return records[first], records[second]
    return records[second], records[first]


def _whole_shards(tensors: dict[str, Record], shared: list[str], moving: set[str]) -> list[str]:
    """Files all of whose moving tensors are shared, if there are several files."""
    of_shard: dict[str, set[str]] = {}
    for name, tensor in tensors.items():
        of_shard.setdefault(tensor["shard"], set())
        if name in moving:
            of_shard[tensor["shard"]].add(name)
    if len(of_shard) < 2:
        return []
    return [
        shard
        for shard, names in sorted(of_shard.items())
        if names <= set(shared) and any(_is_matrix(tensors[name]) for name in names)
    ]


def _is_matrix(tensor: Record) -> bool:
    return len(tensor["shape"]) > 1
