"""Imports go one way, as architecture.toml says: read from the source, lazy and type-checking imports included."""

from __future__ import annotations

import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
from scripts import architecture

FILES = architecture.files()


def test_a_file_imports_only_what_its_package_may() -> None:
    reasons = [
        architecture.forbidden(module, imported)
        for path in FILES
        if (module := architecture.module_of(path)) not in ("", "__main__")
        for imported in architecture.inner_imports(path)
    ]
    assert [reason for reason in reasons if reason] == []


def test_the_front_door_opens_packages_on_first_use() -> None:
    by_module = {architecture.module_of(path): set(architecture.inner_imports(path)) for path in FILES}
    assert by_module[""] == set()
    assert by_module["__main__"] == {"cli"}


def test_a_package_keeps_to_its_libraries() -> None:
    outside = {}
    for path in FILES:
        package = architecture.package_of(architecture.module_of(path))
        if package is not None and package.outside is not None:
            allowed = {"foretrain", *package.outside, *sys.stdlib_module_names}
            imported = {name.split(".", 1)[0] for name in architecture.imports(path)}
            outside[architecture.module_of(path)] = imported - allowed
    assert {"papers.deep_linear.theory", "papers.feature_extraction.theory", "papers.joma.theory"} <= set(outside)
    assert {name: imported for name, imported in outside.items() if imported} == {}


def test_only_the_registries_import_by_name() -> None:
    hidden = {architecture.module_of(path) for path in FILES if architecture.hidden_imports(path)}
    assert hidden <= {"", "papers", "forecast", "cli.groups"}


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert architecture.cycles() == []


def test_every_entry_of_the_map_is_used() -> None:
    used = {package.name for path in FILES if (package := architecture.package_of(architecture.module_of(path)))}
    assert used == {package.name for package in architecture.packages()}


def test_every_permission_of_the_map_is_used() -> None:
    used: dict[str, set[str]] = {}
    for path in FILES:
        module = architecture.module_of(path)
        if package := architecture.package_of(module):
            used.setdefault(package.name, set()).update(architecture.inner_imports(path))
    unused = [
        (package.name, permitted)
        for package in architecture.packages()
        for permitted in package.imports
        if not any(fnmatch(f"{module}.", f"{permitted}.*") for module in used[package.name])
    ]
    assert unused == []


@pytest.mark.parametrize(
    ("module", "imported", "allowed"),
    [
        ("dynamics.train", "models.bilinear", True),
        ("models.bilinear", "dynamics.train", False),
        ("kernels.attention", "models.transformer", False),
        ("core.files", "runs.run_folder", False),
        ("papers.joma.claims.order", "papers.joma.theory", True),
        ("papers.joma.claims.order", "papers", True),
        ("papers.joma.claims.order", "papers.scan_snap.theory", False),
        ("papers.joma.claims.order", "show.plotting", True),
        ("papers.joma.claims.order", "show.report", False),
        ("papers.joma.theory.radial", "papers.joma.theory.joint", True),
        ("papers.joma.theory.radial", "papers.joma.setting", False),
        ("papers.joma.theory.radial", "core.errors", True),
        ("papers.joma.theory.radial", "core.streams", False),
        ("papers.joma.theory.radial", "dynamics.flow", False),
        ("ledger.verdict_store", "papers", False),
        ("a_new_package.module", "core.errors", False),
        ("models.bilinear", "", False),
    ],
)
def test_the_map_says_no_where_it_should(module: str, imported: str, allowed: bool) -> None:
    assert (architecture.forbidden(module, imported) is None) == allowed


def test_the_reader_of_imports_finds_every_way_to_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "foretrain" / "inner"
    package.mkdir(parents=True)
    (package / "other.py").write_text("")
    path = package / "file.py"
    path.write_text(
        "import json\nfrom typing import TYPE_CHECKING\nfrom . import other\nfrom ..core import errors\n"
        "if TYPE_CHECKING:\n    from foretrain.data import template_task\n"
        "def lazy():\n    from foretrain.papers import claims\n"
    )
    monkeypatch.setattr(architecture, "SOURCE", tmp_path)
    architecture._is_module.cache_clear()
    expected = {"json", "typing", "foretrain.inner.other", "foretrain.core", "foretrain.data", "foretrain.papers"}
    assert set(architecture.imports(path)) == expected
    architecture._is_module.cache_clear()


def test_importing_foretrain_is_quick_and_loads_nothing_heavy() -> None:
    program = (
        "import time, sys; started = time.process_time(); import foretrain; "
        "print(time.process_time() - started, 'torch' in sys.modules, 'xarray' in sys.modules)"
    )
    seconds, torch, xarray = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert float(seconds) < 0.15
    assert (torch, xarray) == ("False", "False")
