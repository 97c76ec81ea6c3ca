"""Every notebook runs from the top, warns of nothing, and ends with a figure."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from foretrain.papers import names

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
FIGURE = "application/vnd.plotly.v1+json"


def test_there_is_one_per_paper_and_one_for_the_monitor() -> None:
    assert {path.stem for path in NOTEBOOKS} == {"monitor", *(name.replace("_", "-") for name in names())}
    listed = re.findall(r"\]\(([\w-]+)\.ipynb\)", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == [path.stem for path in NOTEBOOKS]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_short_and_stored_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert 3 <= len(code) <= 10
    assert not any(cell.outputs or cell.execution_count for cell in code)
    broken = [
        target
        for cell in notebook.cells
        if cell.cell_type == "markdown"
        for target in re.findall(r"\]\(([^)#]+)", cell.source)
        if not (FOLDER / target).exists()
    ]
    assert broken == []


@pytest.mark.slow
def test_notebooks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other in one kernel, each with nothing defined and in a folder of its own."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PLOTLY_RENDERER", "plotly_mimetype")  # figures as data, without Plotly itself
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))  # not those of whoever runs the tests
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    notebooks = {path.stem: nbformat.read(path, as_version=4) for path in NOTEBOOKS}
    for name, notebook in notebooks.items():
        (tmp_path / name).mkdir()  # what a notebook writes goes here
        notebook.cells.insert(0, nbformat.v4.new_code_cell(f"%reset -f\n%cd -q {tmp_path / name}"))
    cells = [cell for notebook in notebooks.values() for cell in notebook.cells]
    NotebookClient(nbformat.v4.new_notebook(cells=cells), timeout=300, kernel_name="python3").execute()
    for name, notebook in notebooks.items():
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        assert [output.text for output in outputs if output.get("name") == "stderr"] == [], name
        assert FIGURE in outputs[-1].get("data", {}), name
