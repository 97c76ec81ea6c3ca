"""Pickles and small files that unpack to gigabytes are refused, and take little memory until they are."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch

import foretrain
from foretrain.checkpoints.formats import open_weights
from foretrain.core import decompression
from foretrain.core.errors import LONGEST_MESSAGE, InputError
from foretrain.core.trajectory import load_file
from foretrain.data.labelled_texts import read_labelled, read_text

GIGABYTES = 1  # that each of these files unpacks to


def _gzip(file: Path) -> None:
    member = gzip.compress(b"a good film," * 2_000_000)  # members one after another are one file
    file.write_bytes(gzip.compress(b"text,label\n") + member * (GIGABYTES * 40))


def _shared_text(file: Path) -> None:
    """Every row has the same long text, which is stored once."""
    text = pyarrow.array(["x" * 100_000]).dictionary_encode().take(pyarrow.array([0] * 10_000 * GIGABYTES))
    table = pyarrow.table({"text": text, "label": ["a", "b"] * (5_000 * GIGABYTES)})
    pyarrow.parquet.write_table(table, file, store_schema=False)


def _long_column(file: Path) -> None:
    rows = 1_000 * GIGABYTES
    schema = pyarrow.schema({"text": pyarrow.large_string(), "label": pyarrow.string()})
    with pyarrow.parquet.ParquetWriter(file, schema, compression="zstd", use_dictionary=False) as writer:
        batch = pyarrow.table({"text": ["x" * 1_000_000] * 20, "label": ["a", "b"] * 10}, schema=schema)
        for _ in range(rows // 20):
            writer.write_table(batch)


def _netcdf(file: Path) -> None:
    with h5py.File(file, "w") as whole:
        whole.create_dataset("x", shape=(GIGABYTES * 125_000_000,), chunks=(1_000_000,), compression="gzip", dtype="f8")


def _deflated(file: Path) -> None:
    """A file of torch whose pickle is compressed, with much behind its end."""
    torch.save({"a.weight": torch.zeros(4, 4)}, file)
    with zipfile.ZipFile(file) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in entries.items():
            with archive.open(name, "w", force_zip64=True) as stream:
                stream.write(content)
                for _ in range(GIGABYTES * 100 if name.endswith("data.pkl") else 0):
                    stream.write(bytes(10_000_000))


class _Bytes:
    def __reduce__(self) -> Any:
        return bytearray, (GIGABYTES * 10**9,)


class _Tensor:
    def __reduce__(self) -> Any:
        return torch.Tensor, (GIGABYTES * 10**9 // 4,)


def _asks_for_bytes(file: Path) -> None:
    torch.save({"a": torch.zeros(2, 2), "b": _Bytes()}, file)


def _asks_for_bytes_as_before_2019(file: Path) -> None:
    torch.save({"a": torch.zeros(2, 2), "b": _Bytes()}, file, _use_new_zipfile_serialization=False)


def _asks_for_a_tensor(file: Path) -> None:
    torch.save({"a": _Tensor()}, file)


BOMBS: dict[str, tuple[Callable[[Path], None], Callable[[Any], Any]]] = {
    "corpus.csv.gz": (_gzip, read_labelled),
    "book.txt.gz": (_gzip, read_text),
    "shared.parquet": (_shared_text, read_labelled),
    "long.parquet": (_long_column, read_labelled),
    "run.nc": (_netcdf, load_file),
    "deflated.pt": (_deflated, open_weights),
    "bytes.pt": (_asks_for_bytes, open_weights),
    "old.pt": (_asks_for_bytes_as_before_2019, open_weights),
    "tensor.pt": (_asks_for_a_tensor, open_weights),
}


# Reads the files in a process of its own: {name: refusal}, and how much memory they took on top, in MB.
READ = """
import json, resource, sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from foretrain.core.errors import InputError
from safety.test_bombs import BOMBS
before, refusals = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, {}
for name, (_, read) in BOMBS.items():
    try:
        read(Path(sys.argv[1]) / name)
    except InputError as error:
        refusals[name] = str(error)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(json.dumps([refusals, grown / 1024]))
"""


@pytest.mark.slow
def test_bombs_are_refused_and_take_little_memory(tmp_path: Path) -> None:
    for name, (make, _) in BOMBS.items():
        make(tmp_path / name)
        assert (tmp_path / name).stat().st_size < 1e7, name
    tests = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": tests},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    refusals, grown = json.loads(done.stdout)
    assert set(refusals) == set(BOMBS)
    for name, refusal in refusals.items():
        assert name in refusal
        assert len(refusal) < 400
    assert grown < 450, f"{grown:.0f} MB for files that unpack to {GIGABYTES} GB each"


def test_what_is_packed_well_but_honestly_is_read(tmp_path: Path) -> None:
    rows = "".join(f"row {k} of a table that repeats itself,{'ab'[k % 2]}\n" for k in range(20_000))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(f"text,label\n{rows}".encode(), 9))
    assert len(read_labelled(tmp_path / "a.csv.gz").texts) == 20_000
    decompression.require_unpacked("any.gz", 40 * 10**9, 10**9)  # forty times its size: a table, not a bomb


def test_a_numpy_file_is_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    for read in (load_file, open_weights):
        with pytest.raises(InputError):
            read(tmp_path / "a.npy")


def test_nothing_in_the_source_unpickles() -> None:
    """torch.load reads weights only; numpy and pandas would unpickle only if asked to."""
    source = Path(foretrain.__file__).parent
    for path in source.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for word in ("allow_pickle=True", "read_pickle", "pickle.load", "joblib", "yaml.load", "eval(", "exec("):
            found = [line for line in text.splitlines() if re.search(rf"(?<![\w.]){re.escape(word)}", line)]
            assert not found, (path, found)
        for call in re.findall(r"torch\.load\((.*)\)", text):
            assert "weights_only=True" in call or path.name == "torch_files.py", (path, call)


def test_a_header_of_a_million_columns_is_refused_in_a_few_words(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",".join(f"column{k}" for k in range(1_000_000)) + "\n")
    with pytest.raises(InputError) as refused:
        read_labelled(tmp_path / "a.csv")
    assert len(str(refused.value)) < LONGEST_MESSAGE


def test_no_refusal_is_longer_than_a_screen() -> None:
    words = str(InputError(f"{'a' * 10_000_000} is wrong; do this."))
    assert len(words) < LONGEST_MESSAGE + 10
    assert words.endswith("do this.")
