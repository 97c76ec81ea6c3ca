"""A digest covers the import closure of a function and the versions that can change numbers, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from foretrain import papers
from foretrain.core import imports, provenance
from foretrain.monitor.monitor import Monitor
from foretrain.papers.scan_snap.experiments import training
from foretrain.runs.identity import RunIdentity

SOURCE = Path(__file__).parents[2] / "src" / "foretrain"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small package with every way to import."""
    for name, text in {
        "made/__init__.py": "",
        "made/study.py": (
            "from __future__ import annotations\nfrom typing import TYPE_CHECKING\n"
            "from made.tools import add\nfrom made import other\nif TYPE_CHECKING:\n    from made import only_types\n"
            "def run():\n    from made import lazily\n    return add(lazily.ONE, other.TWO)\n"
        ),
        "made/tools/__init__.py": "from made.tools.adding import add\n",
        "made/tools/adding.py": "def add(a, b):\n    return a + b\n",
        "made/tools/unused.py": "",
        "made/other.py": "TWO = 2\n",
        "made/lazily.py": "from .relative import ONE\n",
        "made/relative.py": "ONE = 1\n",
        "made/only_types.py": "",
        "made/figures.py": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "made"


def digest(package: Path) -> str:
    """The digest in a process of its own, which has loaded nothing before."""
    program = "from made.study import run; from foretrain.core.provenance import source_digest as d; print(d(run))"
    return subprocess.run(
        [sys.executable, "-c", program], cwd=package.parent, capture_output=True, text=True, check=True
    ).stdout.strip()


CLOSURE = ["study.py", "tools/__init__.py", "tools/adding.py", "other.py", "lazily.py", "relative.py"]


def test_an_edit_to_any_file_of_the_closure_changes_the_digest(package: Path) -> None:
    seen = [digest(package)]
    for name in CLOSURE:
        path = package / name
        path.write_text(path.read_text() + "# a comment\n")
        seen.append(digest(package))
    assert len(set(seen)) == len(CLOSURE) + 1


def test_what_is_not_imported_does_not_count(package: Path) -> None:
    before = digest(package)
    for name in ("tools/unused.py", "only_types.py", "figures.py", "__init__.py"):
        (package / name).write_text("changed = True\n")
    (package / "new").mkdir()
    (package / "new" / "__init__.py").write_text("")
    assert digest(package) == before


def run_python(folder: Path, program: str, *, stdin: str = "") -> str:
    arguments = [sys.executable, "-" if stdin else "script.py"]
    if not stdin:
        (folder / "script.py").write_text(program)
    return subprocess.run(
        arguments, cwd=folder, input=stdin or None, capture_output=True, text=True, check=True
    ).stdout.strip()


DIGEST = "from foretrain.core.provenance import source_digest\n{code}\nprint(source_digest(run))\n"


def test_a_function_without_a_file_counts_with_its_code(tmp_path: Path) -> None:
    """Typed into a notebook or read from standard input."""
    digests = [
        run_python(tmp_path, "", stdin=DIGEST.format(code=f"def run(x):\n    return [x * {factor} for _ in 'a']"))
        for factor in (1, 100, 100)
    ]
    assert digests[0] != digests[1] == digests[2]


def test_a_script_counts_with_the_modules_beside_it(tmp_path: Path) -> None:
    program = DIGEST.format(code="import helper\ndef run():\n    return helper.ONE")
    (tmp_path / "helper.py").write_text("from deeper import ONE\n")
    (tmp_path / "deeper.py").write_text("ONE = 1\n")
    first = run_python(tmp_path, program)
    (tmp_path / "deeper.py").write_text("ONE = 2\n")
    assert run_python(tmp_path, program) != first


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("from foretrain import train", "foretrain.dynamics.train"),
        ("import foretrain", "foretrain.dynamics.train"),
        ("from made.tools import *", "made.tools.unused"),
        ("from typing import TYPE_CHECKING\nif not TYPE_CHECKING:\n    import made.only_types", "made.only_types"),
        ("from importlib import import_module\nimport_module('made.other')", "made.other"),
        ("import made.tools.adding as plus", "made.tools.adding"),
    ],
)
def test_every_way_to_import_is_followed(
    package: Path, monkeypatch: pytest.MonkeyPatch, line: str, module: str
) -> None:
    (package / "probe.py").write_text(f"{line}\n")
    made = types.ModuleType("made")
    made.__path__, made.__file__ = [str(package)], str(package / "__init__.py")
    monkeypatch.setitem(sys.modules, "made", made)
    imports.imports_of.cache_clear()
    assert module in provenance.import_closure("made.probe")


def closure_of(function: Callable[..., object]) -> set[str]:
    paths = provenance.import_closure(provenance.module_of(function)).values()
    return {path.relative_to(SOURCE).as_posix() for path in paths}


def test_the_closure_of_a_real_experiment() -> None:
    closure = closure_of(training.fig6)
    assert {"papers/scan_snap/experiments/training.py", "models/bilinear.py", "dynamics/train.py"} <= closure
    assert {"core/streams.py", "measures/entropy.py", "data/sequence_classes.py"} <= closure
    assert not [path for path in closure if "figures" in path or path.startswith(("show", "cli", "forecast", "runs"))]
    assert not [path for path in closure if path.startswith(("papers/joma", "papers/abstract"))]


def test_no_experiment_depends_on_figures_or_on_another_paper() -> None:
    sizes = []
    for experiment in papers.experiments().values():
        closure = closure_of(experiment.cell)
        sizes.append(len(closure))
        others = {path.split("/")[1] for path in closure if path.startswith("papers/") and path.count("/") > 1}
        assert others <= {experiment.paper}
        assert not [path for path in closure if "figures" in Path(path).with_suffix("").parts]
        # what a monitored training leaves on disk is read back by experiments on language models
        outside = [path for path in closure if path.startswith(("show/", "cli/", "runs/"))]
        assert set(outside) <= {"runs/__init__.py", "runs/training_log.py", "runs/layer_numbers.py"}
    assert max(sizes) < 90  # language models are watched, and the monitor has forty small files


def test_the_monitor_counts_in_a_digest_and_its_page_does_not() -> None:
    closure = closure_of(Monitor.step)
    assert {"monitor/monitor.py", "monitor/alarms.py", "runs/training_log.py"} <= closure
    assert not [path for path in closure if path.startswith(("monitor/page", "show"))]


def test_versions_are_those_that_can_change_numbers() -> None:
    assert set(provenance.versions()) == {"python", "torch", "numpy", "scipy", "xarray"}


def test_an_identity_changes_with_configuration_code_and_versions(tmp_path: Path) -> None:
    base = RunIdentity("a/b", {"x": 1}, "code", {"torch": "1"})
    others = [
        RunIdentity("a/b", {"x": 2}, "code", {"torch": "1"}),
        RunIdentity("a/b", {"x": 1}, "edited", {"torch": "1"}),
        RunIdentity("a/b", {"x": 1}, "code", {"torch": "2"}),
        RunIdentity("a/b", {"x": 1}, "code", {"torch": "1"}, ("x",)),
    ]
    assert len({base.name, *(other.name for other in others)}) == 5
    task = tmp_path / "task.toml"
    task.write_text("a = 1")
    for config in ({"task": str(task)}, {"tasks": ("aba_abb", str(task))}):
        first = RunIdentity.of("a/b", config, "code", files=list(config))
        task.write_text(task.read_text() + "1")
        assert RunIdentity.of("a/b", config, "code", files=list(config)).name != first.name
