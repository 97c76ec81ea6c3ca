"""foretrain run --figure and --to: the picture of a run, and its numbers for other tools."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from foretrain.core.trajectory import save, trajectory
from foretrain.runs.export import long_table, table_file
from foretrain.runs.run_folder import RunFolder, load
from made_up.fixtures import Foretrain


def test_figure_is_a_page_that_opens_offline(foretrain: Foretrain) -> None:
    printed = foretrain("run", "toy/noise", "--figure", "toy_noise.html")
    assert printed.code == 0
    page = Path("toy_noise.html").read_text()
    assert "Plotly.newPlot" in page
    assert "<script src=" not in page
    assert len(page) > 3_000_000  # Plotly itself is inside


def test_figure_uses_the_run_on_disk(foretrain: Foretrain, monkeypatch: pytest.MonkeyPatch) -> None:
    foretrain("run", "toy/noise")
    monkeypatch.setenv("TOY_BEGUN", "begun.txt")
    assert foretrain("run", "toy/noise", "--figure", "a.html").code == 0
    assert not Path("begun.txt").exists()
    foretrain("run", "toy/noise", "--seeds", "1", "--figure", "a.html")
    assert Path("begun.txt").exists()


def test_a_saved_run_is_drawn_from_its_folder(foretrain: Foretrain, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = foretrain("run", "toy/noise").out.strip()
    monkeypatch.setenv("TOY_BEGUN", "begun.txt")
    printed = foretrain("run", saved, "--figure", "a.html", "--to", "a.csv")
    assert printed.code == 0, printed.err
    assert "Plotly.newPlot" in Path("a.html").read_text()
    assert Path("a.csv").is_file()
    assert not Path("begun.txt").exists()
    bare = foretrain("run", saved)
    assert bare.code == 2
    assert f"{saved} is a saved run; draw it with --figure FILE, or convert it with --to KIND." in bare.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "toy/noise", "--figure", "a.gif"], "--figure must end in .html, .png, .svg, .pdf; got 'a.gif'"),
        (["run", "toy/noise", "--figure", "/proc/a.html"], "cannot be written"),
        (["run", "toy/nosie", "--figure", "a.html"], "Nothing matches 'toy/nosie'"),
        (["run", "toy/noise", "--set", "steps=0", "--figure", "a.html"], "steps takes a whole number of at least 1"),
        (["run", "nowhere", "--to", "csv"], "Nothing matches 'nowhere'"),
        (["run", ".", "--to", "csv"], "'.' matches 3 experiments"),
        (["run", "toy/noise", "--to", "xlsx"], "--to takes netcdf, csv, parquet, or a file that ends in .nc, .csv"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(
    foretrain: Foretrain, arguments: list[str], words: str
) -> None:
    printed = foretrain(*arguments)
    assert printed.code == 2
    assert words in printed.err
    assert len(printed.err.splitlines()) == 1
    assert list(Path().iterdir()) == []


def test_without_a_browser_a_picture_is_refused_before_the_work(
    foretrain: Foretrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_browser(*_: object, **__: object) -> bytes:
        raise RuntimeError("no Chrome here")

    monkeypatch.setattr(go.Figure, "to_image", no_browser)
    printed = foretrain("run", "toy/noise", "--figure", "a.png")
    assert printed.code == 2
    assert printed.err.startswith("foretrain: .png figures need Chrome or Chromium (RuntimeError); install it, or")
    assert list(Path().iterdir()) == []


def test_a_picture_is_what_the_browser_drew(foretrain: Foretrain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(go.Figure, "to_image", lambda self, format, **_: f"{format} {len(self.data)}".encode())
    foretrain("run", "toy/noise", "--figure", "a.svg")
    assert Path("a.svg").read_bytes() == b"svg 1"


@pytest.mark.parametrize("to", ["csv", "parquet"])
def test_export_is_one_row_per_cell(foretrain: Foretrain, to: str) -> None:
    run = foretrain("run", "toy/noise").out.strip()
    printed = foretrain("run", run, "--to", f"table.{to}")
    assert printed.code == 0
    assert "table" in printed.err
    table = pd.read_csv("table.csv") if to == "csv" else pd.read_parquet("table.parquet")
    assert list(table.columns) == ["variable", "eta_z", "seed", "time", "value"]
    level = load(run).level
    assert len(table) == level.size
    for row in table.itertuples():
        assert row.value == level.sel(eta_z=row.eta_z, seed=row.seed, time=row.time)  # to the last bit


def test_export_netcdf_and_default_names(foretrain: Foretrain) -> None:
    run = Path(foretrain("run", "toy/noise").out.strip())
    foretrain("run", str(run), "--to", "netcdf")
    exported = Path(f"toy_noise_{run.name}.nc")
    dataset = load(exported)
    made = json.loads(dataset.attrs.pop("origin"))
    assert (made["experiment"], made["complete"], len(made["code"])) == ("toy/noise", True, 12)
    xr.testing.assert_identical(dataset, load(run))
    printed = foretrain("run", str(exported), "--to", str(exported))
    assert printed.code == 2
    assert "choose another name" in printed.err
    assert table_file("csv", Path("a/b c.nc")) == Path("b_c.csv")


def test_an_unfinished_run_is_exported_with_a_note(foretrain: Foretrain) -> None:
    run = Path(foretrain("run", "toy/noise").out.strip())
    half = RunFolder.open(run)
    half.status = "running"
    half.write()
    sorted(file for file in (run / "sweep.zarr" / "done" / "c").rglob("*") if file.is_file())[-1].unlink()
    printed = foretrain("run", str(run), "--to", "half.csv")
    assert printed.code == 0
    assert "is not finished" in printed.err
    assert pd.read_csv("half.csv").value.isna().sum() == 2  # the two steps of the missing part


def test_parquet_without_pyarrow_is_a_sentence(foretrain: Foretrain, monkeypatch: pytest.MonkeyPatch) -> None:
    run = foretrain("run", "toy/plain").out.strip()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    printed = foretrain("run", run, "--to", "parquet")
    assert printed.code == 2
    assert "parquet needs pyarrow" in printed.err


def test_a_damaged_run_is_not_exported(foretrain: Foretrain) -> None:
    run = Path(foretrain("run", "toy/plain").out.strip())
    shard = run / "trajectory.nc"
    shard.write_bytes(shard.read_bytes()[:-20])
    printed = foretrain("run", str(run), "--to", "csv")
    assert printed.code == 2
    assert "damaged" in printed.err
    assert not list(Path().glob("*.csv"))


def test_long_table_of_mixed_variables(tmp_path: Path) -> None:
    dataset = trajectory(
        {
            "x": (("seed", "item"), np.arange(6.0).reshape(2, 3)),
            "y": ("seed", np.array([True, False])),
            "word": ("item", np.array(["a", "b", "c"])),
            "total": ((), 7),
        },
        {"seed": [4, 9]},
    )
    table = long_table(dataset)
    assert list(table.columns) == ["variable", "seed", "item", "value", "text"]
    assert len(table) == 6 + 2 + 3 + 1
    assert table.query("variable == 'x' and seed == 9 and item == 2").value.item() == 5.0
    assert table.query("variable == 'total'").value.item() == 7.0
    assert table.query("variable == 'word'").text.tolist() == ["a", "b", "c"]
    assert str(table.seed.dtype) == "Int64"
    table.to_parquet(tmp_path / "t.parquet")
    assert len(pd.read_parquet(tmp_path / "t.parquet")) == 12
    save(dataset, tmp_path / "t.nc")
    pd.testing.assert_frame_equal(long_table(load(tmp_path / "t.nc")), table, check_dtype=False)


@given(st.lists(st.integers(1, 4), max_size=3), st.integers(0, 2**32 - 1))
def test_long_table_loses_nothing(shape: list[int], seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=shape)
    axes = [f"a{i}" for i in range(len(shape))]
    table = long_table(trajectory({"x": (axes, values)}))
    assert len(table) == values.size
    np.testing.assert_array_equal(table.value.to_numpy(), values.ravel())
    for row in table.itertuples():
        assert row.value == values[tuple(int(getattr(row, axis)) for axis in axes)]
