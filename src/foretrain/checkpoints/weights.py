"""The weights of one checkpoint as a mapping from names to tensors, each of which is read when it is asked for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import Any

from torch import Tensor

from foretrain.core.errors import InputError

WRAPPERS = ("_orig_mod.", "module.")  # what torch.compile and data parallelism put before every name


class Unreadable(InputError):
    """A checkpoint cannot be read, or not in whole; others of the same series may be sound."""

    kind = "unreadable"


class MissingShards(Unreadable):
    """Some of the files that a checkpoint consists of are absent or end too early."""

    kind = "missing shards"


class NotFinite(Unreadable):
    """Weights, or what is computed from them, are infinite or not a number."""

    kind = "not a number"


class Weights(Mapping[str, Tensor]):
    """The tensors of one checkpoint by name. Looking one up reads it from disk; nothing is kept."""

    config: Mapping[str, Any] | None = None  # of the model, if the file of weights has it inside

    def __init__(self, shards: Mapping[str, str]) -> None:
        self._shards = dict(shards)  # name of a tensor -> name of its file

    def __iter__(self) -> Iterator[str]:
        return iter(self._shards)

    def __len__(self) -> int:
        return len(self._shards)

    def __contains__(self, name: object) -> bool:
        return name in self._shards

    @abstractmethod
    def __getitem__(self, name: str) -> Tensor: ...

    def without(self, names: Collection[str]) -> Weights:
        """The same weights without some of their tensors."""
        fewer = copy(self)
        fewer._shards = {name: shard for name, shard in self._shards.items() if name not in names}
        return fewer

    def shard_of(self, name: str) -> str:
        """The name of the file that holds a tensor."""
        return self._shards[name]


def unwrapped(names: list[str]) -> dict[str, str]:
    """Each name without what wraps the whole model -> the name in the file."""
    shorter = {name: name for name in names}
    for wrapper in WRAPPERS:
        if names and all(name.startswith(wrapper) for name in shorter):
            shorter = {name.removeprefix(wrapper): stored for name, stored in shorter.items()}
    return shorter


def torn(file: Path) -> MissingShards:
    """The error for a file that ends too early."""
    return MissingShards(f"{file} is not whole: it ends before its last tensor does; copy or download it again.")
