"""The results of a grid as one Zarr group that many workers write at the same time and any tool opens.

Every variable is an array over the whole grid, and a chunk of it is one piece of work. The worker that computed a piece
writes its chunks, and its marks in `done` last; so what is marked is there. The first to finish a piece also makes the
arrays. Every chunk ends with a checksum (crc32c). Chunks are written even if they hold nothing but the fill value: a
chunk that is absent though its piece is marked is damage, not a result. `made_with` holds the attributes and warnings
of each piece, as JSON, and in a folder the checksums of its chunks, so that a chunk in the place of another is noticed.
"""

from __future__ import annotations

import json
import math
import os
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from foretrain.core.errors import DamagedFile, InputError, require
from foretrain.core.files import is_unicode, plain
from foretrain.core.looping import WAY_OUT
from foretrain.core.trajectory import NOTES, notes_of
from foretrain.runs.grid import Grid, Piece
from foretrain.runs.storage import Storage, load_zarr
from foretrain.runs.zarr_files import METADATA, has_its_checksum, last_bytes, rename_unless_there, storage_errors

if TYPE_CHECKING:
    import zarr

GROUP = "sweep.zarr"
DONE, MADE_WITH = "done", "made_with"  # beside the variables of the result
CHECKSUMS = "checksums"
_KIND = {"f": "fractions", "c": "complex numbers", "i": "whole numbers", "u": "whole numbers", "b": "truth values"}
_FILL = {"f": math.nan, "c": complex(math.nan, math.nan), "i": 0, "u": 0, "b": False}


class TooLarge(InputError):
    """The results of a sweep do not fit into memory."""


class GridStore:
    """The Zarr group of a grid, in the folder of its run."""

    def __init__(self, run: Storage, grid: Grid, metadata: Mapping[str, str]) -> None:
        self.run, self.grid, self.group = run, grid, run / GROUP
        self.names = {name.rpartition("/")[0] for name in metadata} - {""}  # of the arrays, once they are made
        self._arrays: dict[str, zarr.Array] = {}

    def _listed(self) -> set[str]:
        """The names of the arrays as the group lists them, which is written last: none before all are made."""
        return set(self._descriptions())

    def _descriptions(self) -> dict[str, Any]:
        """What the group says about each array."""
        listed = json.loads(self.group.read(METADATA) or b"{}").get("consolidated_metadata") or {}
        return dict(listed.get("metadata", {}))

    def _make(self, first: xr.Dataset, attributes: Mapping[str, Any]) -> None:
        """Make all arrays, without results, after the first piece that was computed.

        In a folder they are made under another name and then renamed in one step; a worker that comes second keeps the
        arrays it finds. In an object store only one piece may do this at a time.
        """
        load_zarr()
        import zarr

        taken = {DONE, MADE_WITH} & set(map(str, first.variables))
        require(not taken, f"A result may not have a variable {', '.join(taken)}: a sweep keeps its marks there.")
        absent = [axis for axis in self.grid.dims if axis not in first.dims]
        require(not absent, f"The result has no axis {', '.join(absent)}, along which it is cut.")
        others = [str(name) for name in first.coords if name not in first.dims]
        spaced = [name for name in others if len(name.split()) != 1]  # they are listed with spaces between them
        require(not spaced, f"A sweep cannot keep coordinates with a space in their name: {spaced}; use _ instead.")
        marks = xr.Variable(self.grid.dims, np.zeros(self.grid.shape, bool), {"long_name": "whether it is computed"})
        texts = xr.Variable(self.grid.dims, np.full(self.grid.shape, "", object), {"long_name": "attributes, warnings"})
        attempt = f"{GROUP}.{uuid.uuid4().hex[:8]}.new" if self.run.path is not None else GROUP
        self.run.remove(attempt)
        with storage_errors(self.group), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # consolidated metadata is not in the specification yet
            store = (self.run / attempt).store()
            group = zarr.create_group(
                store, attributes={**attributes, **({"coordinates": " ".join(others)} if others else {})}
            )
            for name, variable in first.variables.items():
                self._make_array(group, str(name), variable, self._values(str(name), variable))
            self._make_array(group, DONE, marks, None)
            self._make_array(group, MADE_WITH, texts, None)
            zarr.consolidate_metadata(store)
            if self.run.path is not None:
                rename_unless_there(self.run.path / attempt, self.run.path / GROUP)

    def _values(self, name: str, variable: xr.Variable) -> np.ndarray | None:
        """What can be written at once: variables that are not cut, and axes whose values are those of an argument."""
        if not set(variable.dims) & set(self.grid.dims):
            return variable.values
        if name in self.grid.dims and variable.dtype.kind in "fiub":
            values = np.asarray(self.grid.values[self.grid.argument(name)])
            return values if values.dtype.kind in "fiub" and values.ndim == 1 else None
        return None

    def _make_array(self, group: zarr.Group, name: str, variable: xr.Variable, values: np.ndarray | None) -> None:
        from zarr.codecs import Crc32cCodec, ZstdCodec

        no_folder = not name.strip(".") or {"/", "\\"} & set(name) or not name.isprintable() or name == METADATA
        require(not no_folder, f"A sweep cannot keep a variable with the name {name!r}; give it letters, digits and _.")
        kind = variable.dtype.kind
        text = kind in "UO" or kind == "T"
        require(
            text or kind in _FILL,
            f"A sweep keeps numbers and text, and {name} holds {variable.dtype}; convert it first.",
        )
        steps = dict(zip(self.grid.dims, self.grid.block, strict=True))
        whole = dict(zip(self.grid.dims, self.grid.shape, strict=True))
        shape = tuple(whole.get(str(axis), size) for axis, size in variable.sizes.items())
        dtype = variable.dtype if values is None or text else np.result_type(variable.dtype, values.dtype)
        array = group.create_array(
            name=name,
            shape=shape,
            chunks=tuple(max(1, steps.get(str(axis), size)) for axis, size in variable.sizes.items()),
            dtype=str if text else dtype,
            fill_value="" if text else _FILL[kind],
            compressors=[ZstdCodec(level=1), Crc32cCodec()],
            dimension_names=tuple(map(str, variable.dims)),
            attributes=json.loads(json.dumps(dict(variable.attrs), default=plain)),
            config={"write_empty_chunks": True},
        )
        if values is not None and values.size:
            array[...] = _text(name, values) if text else values

    def metadata(self) -> dict[str, str]:
        """The texts of all metadata files, by name; none before the arrays are made."""
        arrays = sorted(self.names or self._listed())
        names = [METADATA, *(f"{name}/{METADATA}" for name in arrays)] if arrays else []
        texts = {name: self.group.read(name) for name in names}
        return {name: content.decode(errors="replace") for name, content in texts.items() if content is not None}

    def listed_metadata(self) -> dict[str, str]:
        """The metadata of arrays that a worker made; none if any is missing, damaged or not what the group lists."""
        try:
            texts, descriptions = self.metadata(), self._descriptions()
            whole = all(json.loads(texts[f"{name}/{METADATA}"]) == said for name, said in descriptions.items())
        except (ValueError, KeyError, AttributeError):
            return {}
        return texts if whole else {}

    def mend_metadata(self, known: Mapping[str, str]) -> None:
        """Put damaged or missing metadata back as it was written."""
        for name, text in known.items():
            if self.group.read(name) != text.encode():
                self.group.write(name, text.encode())

    def write(self, piece: Piece, dataset: xr.Dataset, attributes: Mapping[str, Any]) -> None:
        """Write a piece and, last, its marks. If there are no arrays yet, they are made, with these attributes."""
        if not self.names:
            if not self._listed():
                self._make(dataset, attributes)
            self.names = self._listed()
        region = self.grid.region(piece)
        with storage_errors(self.group):
            self._require_fits(dataset, region)
            for name, variable in dataset.variables.items():
                array = self._array(str(name))
                dims = _dims(array)
                values = variable.transpose(*dims).values
                if not set(dims) & set(region):
                    self._require_same(str(name), values)
                    continue
                where = tuple(region.get(axis, slice(None)) for axis in dims)
                array[where] = _text(str(name), values) if values.dtype.kind in "UTO" else values
            checksums = self._checksums(piece)
            text = json.dumps({"attributes": dict(dataset.attrs), **checksums}, default=plain, sort_keys=True)
            everywhere = tuple(region.values())
            size = tuple(part.stop - part.start for part in everywhere)
            self._array(MADE_WITH)[everywhere] = np.full(size, text, object)
            self._array(DONE)[everywhere] = np.ones(size, bool)

    def _checksums(self, piece: Piece) -> dict[str, dict[str, str]]:
        """Checksums of the chunks that belong to this piece alone: those of variables with all axes of the grid.

        In an object store there are none, because each would take a request.
        """
        if self.group.path is None:
            return {}
        names = sorted(self.names - {DONE, MADE_WITH})
        whole = [name for name in names if set(self.grid.dims) <= set(_dims(self._array(name)))]
        chunks = {name: chunk for name in whole for chunk in self._chunks(name, piece)}
        return {CHECKSUMS: {name: last_bytes(self.group.path / chunk).hex() for name, chunk in chunks.items()}}

    def _require_fits(self, dataset: xr.Dataset, region: Mapping[str, slice]) -> None:
        kept = self.names - {DONE, MADE_WITH}
        different = sorted(kept ^ set(map(str, dataset.variables)))
        require(not different, f"Settings of this grid give different variables ({', '.join(different)}); {WAY_OUT}.")
        for name, variable in dataset.variables.items():
            array = self._array(str(name))
            sizes = dict(zip(_dims(array), array.shape, strict=True))
            require(set(sizes) == set(variable.dims), f"{name} has other axes for some settings; {WAY_OUT}.")
            for axis, size in variable.sizes.items():
                cut = region.get(str(axis))
                wanted = cut.stop - cut.start if cut else sizes[str(axis)]
                require(
                    size == wanted, f"{axis} has {size} values for some settings and {wanted} for others; {WAY_OUT}."
                )
            if {array.dtype.kind, variable.dtype.kind} <= set(_FILL):
                require(
                    np.can_cast(variable.dtype, array.dtype, "safe"),
                    f"{name} has {_KIND[array.dtype.kind]} ({array.dtype}) for some settings and "
                    f"{_KIND[variable.dtype.kind]} ({variable.dtype}) for others; make all of them floats.",
                )

    def _require_same(self, name: str, values: np.ndarray) -> None:
        kept = np.asarray(self._array(name)[...])
        text = values.dtype.kind in "UTO"
        same = (
            kept.tolist() == values.tolist()
            if text
            else np.array_equal(kept, values, equal_nan=kept.dtype.kind in "fc")
        )
        require(bool(same), f"{name} has other values for some settings than for others; {WAY_OUT}.")

    def _array(self, name: str) -> zarr.Array:
        if name not in self._arrays:
            load_zarr()
            import zarr

            try:
                array = zarr.open_array(self.group.store(), path=name, mode="r+")
            except (FileNotFoundError, KeyError, ValueError) as error:
                raise DamagedFile(f"{self.group} has no readable array {name}; give the same command again.") from error
            self._arrays[name] = array.with_config({"write_empty_chunks": True})
        return self._arrays[name]

    def sound(self) -> np.ndarray:
        """Which pieces are marked, with all their chunks there and undamaged."""
        present = self.run.names(GROUP)
        checked: dict[str, str] = {}  # the checksum of a chunk, "" if it is damaged or absent

        def checksum(chunk: str) -> str:
            if chunk not in checked:
                content = self.group.read(chunk) if chunk in present else None
                checked[chunk] = content[-4:].hex() if content is not None and has_its_checksum(content) else ""
            return checked[chunk]

        sound = np.zeros(self.grid.blocks, bool)
        readable = [piece for piece in self.grid.pieces() if checksum(f"{DONE}/{_chunk(piece)}")]
        for piece, marks in self._cells(DONE, readable):
            chunks = (chunk for name in self.names for chunk in self._chunks(name, piece))
            sound[piece] = bool(np.all(marks)) and all(map(checksum, chunks))
        for piece, texts in self._cells(MADE_WITH, list(map(tuple, np.argwhere(sound).tolist()))):
            known = json.loads(str(np.ravel(texts)[0]) or "{}").get(CHECKSUMS, {})
            sound[piece] = known == {name: checksum(chunk) for name in known for chunk in self._chunks(name, piece)}
        return sound

    def _cells(self, name: str, pieces: Sequence[Piece]) -> Iterator[tuple[Piece, np.ndarray]]:
        """What an array holds for each of these pieces; if they are all there are, with one read instead of many."""
        array = self._array(name)
        every = np.asarray(array[...]) if len(pieces) == math.prod(self.grid.blocks) else None
        for piece in pieces:
            region = tuple(self.grid.region(piece).values())
            yield piece, np.asarray(every[region] if every is not None else array[region])

    def _require_memory(self) -> None:
        needed, memory = sum(self._array(name).nbytes for name in self.names), _memory()
        if needed > memory:
            raise TooLarge(
                f"{self.group} holds {needed / 1e9:,.1f} GB, and this machine has {memory / 1e9:,.1f} GB of memory; "
                "open it with xarray.open_zarr, which reads what you use."
            )

    def _chunks(self, name: str, piece: Piece) -> list[str]:
        """The chunks of an array that belong to a piece: one, or none if the array is empty."""
        array = self._array(name)
        if 0 in array.shape:
            return []
        at = dict(zip(self.grid.dims, piece, strict=True))
        return [f"{name}/{_chunk(tuple(at.get(axis, 0) for axis in _dims(array)))}"]

    def dataset(self, done: np.ndarray) -> xr.Dataset:
        """The finished pieces: other cells are NaN, and values of an axis without any finished cell are left out."""
        self._require_memory()
        with storage_errors(self.group):
            whole = self._whole()
        texts = sorted({str(text) for text in np.ravel(whole[MADE_WITH].values) if text})
        attributes = [json.loads(text)["attributes"] for text in texts]
        marks, cells = whole[DONE], _cells_of(done, self.grid)
        if (cells & ~marks.values).any():
            raise DamagedFile(
                f"{self.group} was begun anew by another process while it was read; give the same command again."
            )
        whole = whole.drop_vars([DONE, MADE_WITH])
        if not done.all():
            marks = marks.copy(data=cells)
            whole = whole.map(lambda variable: _done_only(variable, marks))
            whole = whole.isel({axis: marks.any([d for d in marks.dims if d != axis]).values for axis in marks.dims})
        common = {
            k: v for k, v in attributes[0].items() if all(other.get(k) == v for other in attributes) and k != NOTES
        }
        notes = list(dict.fromkeys(note for each in attributes for note in notes_of(xr.Dataset(attrs=each))))
        whole.attrs = {**common, **({NOTES: json.dumps(notes)} if notes else {})}
        return whole

    def _whole(self) -> xr.Dataset:
        """Everything as it was written: xarray.open_zarr changes numbers whose attributes say that they are packed.

        The marks are read last: what is marked then was there when it was read, as runs are deleted in one step.
        """
        arrays = {name: self._array(name) for name in (*sorted(self.names - {DONE}), DONE)}
        try:
            values = {name: np.asarray(array[...]) for name, array in arrays.items()}
        except ValueError as error:
            raise DamagedFile(f"{self.group} was damaged while it was read: {error}.") from error
        variables = {
            name: xr.Variable(
                _dims(array),
                values[name].astype(object) if values[name].dtype.kind == "T" else values[name],
                dict(array.attrs),
            )
            for name, array in arrays.items()
        }
        attributes = json.loads(self.group.read(METADATA) or b"{}").get("attributes", {})
        others = set(str(attributes.get("coordinates", "")).split())
        return xr.Dataset(variables).set_coords([name for name in variables if name in others])


def _memory() -> float:
    """Physical memory in bytes; infinite if unknown."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else math.inf


def _done_only(variable: xr.DataArray, done: xr.DataArray) -> xr.DataArray:
    shared = [axis for axis in done.dims if axis in variable.dims]
    return variable.where(done.any([axis for axis in done.dims if axis not in shared])) if shared else variable


def _cells_of(done: np.ndarray, grid: Grid) -> np.ndarray:
    """Marks of cells from marks of pieces."""
    for axis, (step, size) in enumerate(zip(grid.block, grid.shape, strict=True)):
        done = np.take(np.repeat(done, step, axis=axis), range(size), axis=axis)
    return done


def _text(name: str, values: np.ndarray) -> np.ndarray:
    listed = values.astype(object)
    other = next((value for value in listed.flat if not isinstance(value, str)), None)
    require(
        other is None, f"A sweep keeps numbers and text, and {name} holds a {type(other).__name__}; convert it first."
    )
    broken = next((value for value in listed.flat if not is_unicode(value)), None)
    require(broken is None, f"{name} holds half a character, which a file cannot hold; got {broken!r}.")
    return listed


def _dims(array: zarr.Array) -> tuple[str, ...]:
    return tuple(map(str, getattr(array.metadata, "dimension_names", None) or ()))


def _chunk(index: tuple[int, ...]) -> str:
    """The name of a chunk in an array's folder."""
    return "/".join(("c", *map(str, index)))
