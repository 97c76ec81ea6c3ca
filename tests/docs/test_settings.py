"""The table of settings in the docs is that of the code."""

from __future__ import annotations

from pathlib import Path

from foretrain.papers.abstract_symbols.setting import SETTINGS

PAGE = Path(__file__).parents[2] / "docs" / "abstract-symbols.md"


def test_the_table_of_settings():
    lines = [line.strip("| \n").split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines()]
    table = {cells[0].strip("`"): [float(cell) for cell in cells[1:]] for cells in lines if cells[0][1:-1] in SETTINGS}
    fields = ("depth", "heads", "embedding", "head", "mlp", "learning_rate", "epochs", "scaling_multiplier", "held_out")
    assert table == {name: [getattr(s, field) for field in fields] for name, s in SETTINGS.items()}
