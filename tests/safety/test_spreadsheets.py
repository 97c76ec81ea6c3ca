"""A csv file of ours opens in a spreadsheet without computing anything."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from foretrain.core.tables import csv_text
from foretrain.core.trajectory import save
from foretrain.runs.export import export_run

FORMULAS = ("=1+1", "+1+1", "-1+1|cmd", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", '=HYPERLINK("a";"b")', "-", "=")


def _cells(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula_becomes_text_wherever_it_stands(formula: str) -> None:
    table = pd.DataFrame({formula: ["a", formula], "number": [-1.5, 2]}, index=pd.Index([formula, "b"], name=formula))
    cells = _cells(csv_text(table, index=True))
    text = "'" + re.sub(r"(?<=[\t\n])=", "'=", formula.replace("\r", "\n"))
    assert cells == [[text, text, "number"], [text, "a", "-1.5"], ["b", text, "2.0"]]


def test_a_carriage_return_begins_no_row() -> None:
    cells = _cells(csv_text(pd.DataFrame({"a": ["a\rb", "b\r\nc"]})))
    assert cells == [["a"], ["a\nb"], ["b\nc"]]


@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1+1", "@SUM(A1)", "＝1", ' "=1+1', "'=1"])
@pytest.mark.parametrize("separator", [";", "\t", "\n", "\r", "\r\n"])
def test_a_reader_with_other_separators_finds_no_formula(separator: str, formula: str) -> None:
    """Where numbers have a decimal comma, a spreadsheet takes ; for the end of a cell, and does not know our quotes."""
    text = csv_text(pd.DataFrame({"number": [1.5], "text": [f"a{separator}{formula}{separator}b"]}))
    cells = re.split("[;\t\n]", text)
    assert not [cell for cell in cells if cell.lstrip('" ').startswith(tuple("=+-@＝＋－＠"))]


def test_numbers_and_plain_texts_stay_as_they_are() -> None:
    numbers = {"float": [-1e-9, np.inf], "whole": pd.array([-3, None], dtype="Int64")}
    table = pd.DataFrame({**numbers, "text": ["a=b; c-d", "-1.5"], "none": [None, "x"]})
    assert csv_text(table) == table.to_csv(index=False)


def test_a_table_with_two_columns_of_one_name() -> None:
    table = pd.DataFrame([["=1", 1.0], ["b", 2.0]], columns=["a", "a"])
    assert _cells(csv_text(table)) == [["a", "a"], ["'=1", "1.0"], ["b", "2.0"]]


def test_what_goes_in_is_not_changed() -> None:
    table = pd.DataFrame({"=a": ["=1"]})
    csv_text(table)
    assert table.columns.tolist() == ["=a"]
    assert table["=a"].tolist() == ["=1"]


def test_an_exported_run_holds_no_formula(tmp_path: Path) -> None:
    data = xr.Dataset({"=1+1": (("case",), ["=2+2", "plain"])}, {"case": ["@a", "b"]})
    export_run(save(data, tmp_path / "run.nc"), str(tmp_path / "run.csv"))
    with open(tmp_path / "run.csv", encoding="utf-8", newline="") as stream:
        assert list(csv.reader(stream))[1] == ["'=1+1", "'@a", "'=2+2"]


def test_nothing_else_writes_csv() -> None:
    """`csv_text` is the only way to a csv file."""
    import foretrain

    source = Path(foretrain.__file__).parent
    users = {str(p.relative_to(source)) for p in source.rglob("*.py") if ".to_csv(" in p.read_text(encoding="utf-8")}
    assert users <= {"core/tables.py"}
