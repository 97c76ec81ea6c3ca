"""Puts together what the processes of one training have measured, so that none of them can wait for ever.

A collective operation in which one process does not take part would stop all others. So before the first one of a
record the processes agree, through the store by which torch made them meet: each says that it is here, and what it has
measured; the last one to come decides "go". A process that has waited for too long decides "no". The store keeps the
first decision only, and every process follows it. Then nothing is shared in this record: each process records what is
its own. After three such records the processes stop asking.

In a record that is shared, all sums are added in one collective operation and all largest values found in another, in
a process group that only the monitor uses, so that an error there does not reach the training's. Processes that have
measured different things, because one has skipped its pass or holds other layers, share all names that any of them has.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import count
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from foretrain.monitor.ranks import ranks_of
from foretrain.monitor.tally import Fields, Key, flat
from foretrain.monitor.wrappers import parameters_of

_log = logging.getLogger("foretrain")
PATIENCE = 10.0  # seconds for which a process waits for the others
FIRST_PATIENCE = 5.0  # for a sign that the others have a monitor at all; they have, or never will
MISSES = 3  # records in a row that cannot be shared, before the processes stop asking
LONGEST = timedelta(seconds=20)  # of one collective operation
ALONE = (
    "Processes %s of this training have no Monitor, or are too slow: this one records its own batches only, and no "
    "sharded matrix. Make the Monitor in every process; only the first one writes."
)
ABSENT = (
    "Processes %s did not call monitor.step() in time at step %s, so each process records its own batches only, and no "
    "sharded matrix. Call step in every process; only the first one writes."
)
_numbers: dict[str, count[int]] = {}  # of the monitors of models that look alike


class Agreement:
    """Decides for each record whether all processes take part in putting it together."""

    def __init__(self, store: Any, rank: int, processes: int) -> None:
        self.store, self.rank, self.processes = store, rank, processes
        self.misses, self.asked = 0, False
        self._said = False
        self._posted: set[str] = set()
        self._read: dict[str, str] = {}
        store.set(f"here/{rank}", "")

    def reached(self, event: str, layout: str) -> list[str] | None:
        """What each process has measured, in the order of their ranks; None if one of them does not take part."""
        if self.misses >= MISSES:
            return None
        if not self.asked:
            self.asked = True
            missing = self._missing()
            if missing:
                self.misses = MISSES
                _log.warning(ALONE, ", ".join(map(str, missing)))
                return None
        self.store.set(f"{event}/layout/{self.rank}", self._name_of(layout))
        decision = f"{event}/decision"
        if self.store.add(f"{event}/ready", 1) == self.processes:
            self.store.compare_set(decision, "", "go")
        elif not _until(lambda: self.store.check([decision]), PATIENCE):
            self.store.compare_set(decision, "", "no")
        if self.store.get(decision) != b"go":
            self.misses += 1
            self._say_who_was_missing(event)
            return None
        self.misses = 0
        names = [self.store.get(f"{event}/layout/{rank}").decode() for rank in range(self.processes)]
        return [self._layout_of(name) for name in names]

    def _name_of(self, layout: str) -> str:
        """A short name under which the store has this layout; it is the same at most steps."""
        name = hashlib.sha256(layout.encode()).hexdigest()[:16]
        if name not in self._posted:
            self.store.set(f"layout/{name}", layout)
            self._posted.add(name)
        return name

    def _layout_of(self, name: str) -> str:
        if name not in self._read:
            self._read[name] = self.store.get(f"layout/{name}").decode()
        return self._read[name]

    def _say_who_was_missing(self, event: str) -> None:
        absent = [rank for rank in range(self.processes) if not self.store.check([f"{event}/layout/{rank}"])]
        if absent and not self._said:
            self._said = True
            _log.warning(ABSENT, ", ".join(map(str, absent)), event.partition("/")[0])

    def _missing(self) -> list[int]:
        def absent() -> list[int]:
            return [rank for rank in range(self.processes) if not self.store.check([f"here/{rank}"])]

        _until(lambda: not absent(), FIRST_PATIENCE)
        return absent()


def _until(holds: Callable[[], bool], seconds: float) -> bool:
    """Ask again and again: a wait inside the store would block torch's own questions to it."""
    pause, end = 0.0005, time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return True


class TrainingProcesses:
    """All processes of a distributed training, as a monitor of this model uses them."""

    def __init__(self, model: nn.Module, every: int) -> None:
        names, self._ranks = list(parameters_of(model)), ranks_of(model)
        alike = hashlib.sha256(json.dumps([names, every, self._ranks]).encode()).hexdigest()[:16]
        number = next(_numbers.setdefault(alike, count()))
        store = dist.PrefixStore(f"foretrain/{alike}/{number}", dist.distributed_c10d._get_default_store())
        self.agreement = Agreement(store, self._ranks.index(dist.get_rank()), len(self._ranks))
        self.operations = 0  # collective ones, so far
        self._group: Any = None
        self._broken = False
        self._layouts: list[list[list[Any]]] = []

    def agree(self, event: str, sums: Fields | None = None, largest: Fields | None = None) -> bool:
        """Whether all processes take part in this event; they tell each other what they have measured."""
        if self._broken:
            return False
        layouts = self.agreement.reached(event, json.dumps([_layout(sums or {}), _layout(largest or {})]))
        if layouts is None:
            return False
        self._layouts = [json.loads(layout) for layout in dict.fromkeys(layouts)]
        if self._group is None:
            some = len(self._ranks) < dist.get_world_size()  # then the others do not know of this group
            self._group = dist.new_group(self._ranks, timeout=LONGEST, use_local_synchronization=some)
        return True

    def first_step(self, step: int) -> int:
        """The step at which the first process begins."""
        store = self.agreement.store
        if self.agreement.rank == 0:
            store.set("first", str(step))
        return int(store.get("first")) if _until(lambda: store.check(["first"]), FIRST_PATIENCE) else step

    def decided(self, step: int, stop: bool) -> bool:
        """What the first process has decided at this step; no, where it cannot be known in time."""
        store, key = self.agreement.store, f"{step}/stop"
        if self.agreement.misses:
            return False
        if self.agreement.rank == 0:
            store.set(key, "yes" if stop else "no")
        return _until(lambda: store.check([key]), PATIENCE) and store.get(key) == b"yes"

    def combine(self, sums: Fields, largest: Fields, device: torch.device) -> tuple[Fields, Fields]:
        """Sums added and largest values found over all processes, by two collective operations."""
        added = self._united(0, sums, 0.0, dist.ReduceOp.SUM, device)
        highest = self._united(1, largest, -torch.inf, dist.ReduceOp.MAX, device)
        return added, highest

    def add_up(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The sums over all processes of tensors that all of them have, by one collective operation."""
        vector = torch.cat([tensor.reshape(-1) for tensor in tensors])
        self._reduce(vector, dist.ReduceOp.SUM)
        parts = vector.split([tensor.numel() for tensor in tensors])
        return [part.view(tensor.shape).to(tensor.dtype) for part, tensor in zip(parts, tensors, strict=True)]

    def _united(self, kind: int, fields: Fields, absent: float, operation: Any, device: torch.device) -> Fields:
        """One vector with a place for every number that any process has; where this one has none, it adds nothing."""
        places = {tuple(key): tuple(shape) for layout in self._layouts for key, shape in layout[kind]}
        if not places:
            return {}
        pieces = [
            fields[key]
            if key in fields and tuple(fields[key].shape) == shape
            else torch.full(shape, absent, device=device)
            for key, shape in places.items()
        ]
        vector = flat(pieces)
        self._reduce(vector, operation)
        cut = vector.split([piece.numel() for piece in pieces])
        return {key: part.view(shape) for (key, shape), part in zip(places.items(), cut, strict=True) if key in fields}

    def _reduce(self, vector: Tensor, operation: Any) -> None:
        self.operations += 1
        self._broken = True  # until it has come to its end: after an error the group cannot be used
        dist.all_reduce(vector, operation, group=self._group, async_op=True).wait(LONGEST)
        self._broken = False


def processes_of(model: nn.Module, every: int) -> TrainingProcesses | None:
    """The processes that train this model; None if this is the only one."""
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return None
    return TrainingProcesses(model, every)


def _layout(fields: Fields) -> list[tuple[Key, list[int]]]:
    return [(key, list(tensor.shape)) for key, tensor in fields.items()]
