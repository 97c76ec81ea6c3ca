"""Tables as csv that a spreadsheet opens without computing anything: text that looks like a formula stays text."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

# A spreadsheet takes a cell that begins with one of these for a formula, whatever its quotation marks.
FORMULA = "=+\\-@＝＋－＠"
_FIRST = re.compile(rf"[\t\n{FORMULA}]")
# In countries with a decimal comma, and in imports of tables with tabs, a cell also ends inside a text of ours.
_LATER = re.compile(rf"(?<=[;\t\n])([\"' ]*)(?=[{FORMULA}])")


def csv_text(table: pd.DataFrame, *, index: bool = False) -> str:
    """A table as csv. What a spreadsheet would take for a formula gets an apostrophe before it, which makes it plain
    text: at the start of a text, and inside it after a semicolon, a tab or a line break, where some spreadsheets begin
    a new cell. Numbers, also negative ones, stay as they are. Carriage returns become line breaks."""
    safe = table.rename(columns=_safe, index=_safe if index else None)
    safe.index.name, safe.columns.name = _safe(table.index.name), None
    for place, kind in enumerate(table.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            safe.isetitem(place, table.iloc[:, place].astype(object).map(_safe).to_numpy())
    return safe.to_csv(index=index)


def _safe(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    text = cell.replace("\r\n", "\n").replace("\r", "\n")  # pandas puts no quotation marks around a carriage return
    if _is_number(text):
        return text
    text = _LATER.sub(r"\1'", text)
    return f"'{text}" if _FIRST.match(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()
