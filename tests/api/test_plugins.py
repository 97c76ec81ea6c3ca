"""Papers as packages of their own: the skeleton of `foretrain new-paper`, installed, and packages that are broken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from foretrain.api.new_paper import new_paper
from foretrain.core.errors import InputError


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of installed packages with a paper in it, as `foretrain new-paper` writes it."""
    folder = tmp_path_factory.mktemp("plugin")
    paper = new_paper("my_walk", folder)
    installed = folder / "site-packages"
    install = ("install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", str(installed))
    subprocess.run([sys.executable, "-m", "pip", *install, str(paper)], check=True, capture_output=True, timeout=300)
    return installed


def _foretrain(environment: Path, *arguments: str, module: str = "foretrain") -> subprocess.CompletedProcess[str]:
    places = {"PYTHONPATH": str(environment), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=environment.parent, env={**os.environ, **places}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


@pytest.mark.slow
def test_an_installed_paper_is_listed_shown_checked_run_and_reported(environment: Path) -> None:
    assert "my_walk/theorem1\tTheorem 1\tholds\tnever" in _foretrain(environment, "list", "my_walk").stdout
    assert "claims.py:" in _foretrain(environment, "show", "my_walk/theorem1").stdout
    checked = _foretrain(environment, "check", "my_walk", "--jobs", "2", "--report", "report.html")
    assert (checked.returncode, "1 of 1 verdicts as expected" in checked.stderr) == (0, True), checked.stderr
    assert "Title of the Paper" in (environment.parent / "report.html").read_text()
    run = _foretrain(environment, "run", "my_walk/walk", "--jobs", "2", "--figure", "walk.html")
    assert run.returncode == 0, run.stderr
    assert (environment.parent / run.stdout.strip() / "sweep.zarr").is_dir()
    assert "Plotly.newPlot" in (environment.parent / "walk.html").read_text()
    assert "scan_snap/lemma6" in _foretrain(environment, "list", "scan_snap").stdout  # and the others are there still


@pytest.mark.slow
def test_the_test_of_the_skeleton_passes(environment: Path) -> None:
    tests = environment.parent / "my_walk" / "tests"
    ended = _foretrain(environment, "-q", "-p", "no:cacheprovider", "-c", os.devnull, str(tests), module="pytest")
    assert ended.returncode == 0, ended.stdout


def _broken(folder: Path, name: str, **files: str) -> None:
    """An installed paper by hand: its files and its entry point."""
    for file, content in {"__init__": "", **files}.items():
        place = folder / f"{name}_package" / f"{file}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
    info = folder / f"{name}_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[foretrain.papers]\n{name} = {name}_package\n")


PAPER = "from foretrain.papers import Paper\nPAPER = Paper({!r}, 'Title', 'A. Author. 2026.', ())\n"


@pytest.mark.slow
def test_broken_papers_are_named_in_one_sentence_each_and_stop_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "site-packages"
    _broken(folder, "stops", paper="raise OSError('no such disk')")
    _broken(folder, "empty")
    _broken(folder, "renamed", paper=PAPER.format("other"))
    _broken(folder, "joma", paper=PAPER.format("joma"))
    experiment = "from foretrain.ledger.experiment import Experiment\nEXPERIMENTS = [Experiment('joma/x', 'X', int)]\n"
    _broken(folder, "stranger", paper=PAPER.format("stranger"), experiments=experiment)
    ended = _foretrain(folder, "check", "scan_snap/lemma6")
    assert ended.returncode == 0, ended.stderr
    notes = [line for line in ended.stderr.splitlines() if line.startswith("Note: ")]
    for name, words in {
        "stops": "OSError: no such disk",
        "empty": "ModuleNotFoundError: No module named 'empty_package.paper'",
        "renamed": "renamed_package.paper has no PAPER with the name 'renamed'",
        "joma": "there is a paper of this name in foretrain.papers.joma",
        "stranger": "'joma/x' in stranger_package.experiments does not begin with stranger/",
    }.items():
        said = [note for note in notes if note.startswith(f"Note: The paper '{name}' of the package {name}-package ")]
        assert len(said) == 1, ended.stderr
        assert words in said[0]
    assert len(notes) == 5


@pytest.mark.parametrize("name", ["My-Paper", "", "1st", "class", "../up", "joma"])
def test_names_that_cannot_be_packages_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"choose another name|A paper's name has"):
        new_paper(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "my_walk").mkdir()
    with pytest.raises(InputError, match="is there already"):
        new_paper("my_walk", tmp_path)
    assert not list((tmp_path / "my_walk").iterdir())
