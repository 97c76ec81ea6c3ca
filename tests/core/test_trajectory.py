from __future__ import annotations

import contextlib
import os
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from foretrain.core.errors import DamagedFile, InputError
from foretrain.core.trajectory import config_of, save, trajectory
from foretrain.runs.run_folder import load


def example() -> xr.Dataset:
    values = np.random.default_rng(1).normal(size=(3, 2))
    values[0, 0] = np.nan
    return trajectory(
        {"h": (("time", "seed"), values), "ok": ("seed", np.array([True, False])), "one": 2.5},
        {"time": [0, 1, 5], "seed": [1, 2], "name": ("seed", ["a", "é"])},
        units={"h": "nats"},
        eta_y=np.float64(0.5),
        grid=(1, 2),
    )


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    path = save(example(), tmp_path / "deep" / "run.nc")
    back = load(path)
    xr.testing.assert_identical(back, example())
    assert config_of(back) == {"eta_y": 0.5, "grid": [1, 2]}
    assert os.listdir(path.parent) == ["run.nc"]


@given(values=arrays(np.float64, (3, 2)))
def test_every_bit_survives(values: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("bits") / "x.nc"
    back = load(save(trajectory({"x": (("a", "b"), values)}), path))
    np.testing.assert_array_equal(back["x"].values, values)


@given(where=st.floats(0, 1, exclude_max=True), data=st.data())
def test_a_flipped_byte_is_noticed_or_harmless(where: float, data: st.DataObject, tmp_path_factory) -> None:
    """HDF5 has unused bytes; any flip that can be read must leave the contents as they were."""
    path = save(example(), tmp_path_factory.mktemp("flip") / "x.nc")
    blob = bytearray(path.read_bytes())
    blob[int(where * len(blob))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(blob)
    with contextlib.suppress(DamagedFile):
        xr.testing.assert_identical(load(path), example())


def test_changed_numbers_and_truncation_are_noticed(tmp_path: Path) -> None:
    path = save(example(), tmp_path / "x.nc")
    blob = path.read_bytes()
    place = blob.find(example()["h"].values[1, 0].tobytes())
    assert place > 0
    path.write_bytes(blob[:place] + bytes([blob[place] ^ 1]) + blob[place + 1 :])
    with pytest.raises(DamagedFile, match="damaged"):
        load(path)
    path.write_bytes(blob[: len(blob) // 2])
    with pytest.raises(DamagedFile, match="begins like a netCDF file, but cannot be read"):
        load(path)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(example(), tmp_path / "x.nc")

    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("disk full")

    monkeypatch.setattr(xr.Dataset, "to_netcdf", broken)
    with pytest.raises(RuntimeError, match="disk full"):
        save(example() * 2, path)
    monkeypatch.undo()
    xr.testing.assert_identical(load(path), example())
    assert os.listdir(tmp_path) == ["x.nc"]


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing at"):
        load(tmp_path / "absent.nc")
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="Cannot write"):
        save(example(), tmp_path / "file" / "x.nc")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="folder"):
        save(example(), tmp_path / "folder")
    with pytest.raises(InputError, match=r"run\.json"):
        load(tmp_path / "folder")
