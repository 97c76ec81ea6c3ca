"""Reads files that torch wrote, without running any code that a pickle may hold."""

from __future__ import annotations

import pickle
import pickletools
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foretrain.checkpoints.weights import Unreadable, Weights, torn, unwrapped

INSIDE = ("model", "state_dict", "model_state_dict", "module")  # keys under which training scripts put the weights
CONFIGS = ("model_args", "config", "hparams", "args")  # and under which they put sizes
ALONE = 'torch.save(torch.load({file!r}, weights_only=False)["model"], "weights.pt")'
OLD_PICKLES = 4  # before 2019, a file began with a magic number, a version, facts about the machine, the tensors
EXPANDED = 2**28  # bytes that a tensor may take although it is stored in fewer
REOPEN = 8  # a file is opened again after an eighth of it was read, because pages of a mapped file stay in memory


class TorchWeights(Weights):
    """The tensors of one or several files that torch.save wrote. They are mapped, and read when they are used."""

    def __init__(self, files: list[Path]) -> None:
        opened = {file: _load(file) for file in files}
        stored = {name: file for file, whole in opened.items() for name in _state(whole, file)}
        self._stored = unwrapped(list(stored))
        self._files = {name: stored[old] for name, old in self._stored.items()}
        self._open: tuple[Path, Mapping[str, Tensor]] | None = None
        self._read = 0
        self.config = next(filter(None, map(_config, opened.values())), None)
        super().__init__({name: file.name for name, file in self._files.items()})

    def __getitem__(self, name: str) -> Tensor:
        file = self._files[name]
        if self._open is None or self._open[0] != file or self._read > file.stat().st_size / REOPEN:
            self._open, self._read = (file, _state(_load(file), file)), 0
        tensor = self._open[1][self._stored[name]].detach()
        self._read += tensor.numel() * tensor.element_size()
        return tensor


def _load(file: Path) -> Any:
    """What torch.save wrote: tensors and plain values only."""
    _refuse_bombs(file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about old formats; what cannot be read raises
            return torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
    except pickle.UnpicklingError as error:
        raise Unreadable(
            f"{file} is a pickle that holds more than tensors, and reading it could run code; only if you trust it, "
            f"save its weights alone and give that file: {ALONE.format(file=str(file))}"
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, AttributeError, TypeError, IndexError) as error:
        with open(file, "rb") as stream:
            if stream.read(2) == b"PK":  # a zip file begins, but has no end
                raise torn(file) from error
        raise Unreadable(f"{file} is not a file that torch can read ({type(error).__name__}).") from error


def _refuse_bombs(file: Path) -> None:
    """Refuse a small file that fills the memory: torch itself neither compresses nor asks for empty bytes."""
    try:
        with open(file, "rb") as stream:
            if not zipfile.is_zipfile(file):
                pickles = [pickletools.genops(stream) for _ in range(OLD_PICKLES)]  # each goes on where the last ended
                _require_no_bytes(file, chain.from_iterable(pickles))
                return
            with zipfile.ZipFile(stream) as archive:
                for entry in archive.infolist():
                    if entry.compress_type != zipfile.ZIP_STORED:
                        raise Unreadable(f"{file} is compressed, which torch never does; unpack it if you trust it.")
                for name in archive.namelist():
                    if name.endswith("data.pkl"):
                        _require_no_bytes(file, pickletools.genops(archive.read(name)))
    except Unreadable:
        raise
    except Exception:  # damaged in one way or another: torch says how
        return


def _require_no_bytes(file: Path, operations: Iterable[tuple[Any, Any, Any]]) -> None:
    for operation, value, _ in operations:
        if "GLOBAL" in operation.name and "bytearray" in str(value):
            raise Unreadable(f"{file} is a pickle that asks for memory as it likes; save the weights as safetensors.")


def _state(whole: Any, file: Path) -> Mapping[str, Tensor]:
    for key in INSIDE:
        if isinstance(whole, Mapping) and isinstance(whole.get(key), Mapping):
            whole = whole[key]
            break
    tensors = {str(k): v for k, v in whole.items() if isinstance(v, Tensor)} if isinstance(whole, Mapping) else {}
    if not tensors:
        raise Unreadable(f"{file} holds no tensors by name; give a file with a state dict.")
    for name, tensor in tensors.items():
        if (reason := _not_plain(tensor, file.stat().st_size)) is not None:
            raise Unreadable(f"{name} in {file} {reason}; save the weights as plain tensors, and give that file.")
    return tensors


def _not_plain(tensor: Tensor, stored: int) -> str | None:
    """Why a tensor cannot be read entry by entry, if so."""
    if tensor.is_meta:
        return "has no entries (it is on the device meta)"
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        return "is stored in a special form (sparse, quantised or nested)"
    size = tensor.numel() * tensor.element_size()
    if size > max(EXPANDED, stored):
        return f"claims {size / 1e9:,.1f} GB, more than the file holds of it"
    return None


def _config(whole: Any) -> dict[str, Any] | None:
    if not isinstance(whole, Mapping):
        return None
    given = {k: v for part in CONFIGS if isinstance(whole.get(part), Mapping) for k, v in whole[part].items()}
    return given or None
