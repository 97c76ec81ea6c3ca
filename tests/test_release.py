"""What users install: a wheel, in an environment that has nothing but what it asks for."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "foretrain"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PARTS_OF_THE_SDIST = ("pyproject.toml", "README.md", "LICENSE", "src")
BUILD = "import sys; from setuptools import build_meta as b; print(getattr(b, sys.argv[1])(sys.argv[2]))"
FROM_EXTRAS = {"distributed": "dask"}  # dask[distributed]
OPTIONAL = {"pytorch_lightning"}  # the other name of lightning; used where it is there


def own_files() -> set[str]:
    """Every file of the package, relative to src."""
    files = (path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(SOURCE.parent).as_posix() for path in files}


def _built(kind: str, source: Path, out: Path) -> Path:
    """The file that the build backend makes; nothing is downloaded and nothing is written into the repository."""
    command = [sys.executable, "-c", BUILD, f"build_{kind}", str(out)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return out / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source")
    for name in PARTS_OF_THE_SDIST:
        if (ROOT / name).is_dir():
            leave_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, source / name, ignore=leave_out)
        else:
            shutil.copy(ROOT / name, source / name)
    return _built("sdist", source, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist, which must therefore hold everything."""
    unpacked = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    (folder,) = unpacked.iterdir()
    return _built("wheel", folder, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel and what it requires, and what that requires: no extras, none of our tools.

    Required packages are links to those that are installed here, because torch takes minutes to install.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    for package in required(PROJECT["dependencies"]):
        _link(package, _site_packages(folder))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(folder / "bin" / "python")]
    for arguments in (["install", "--quiet", "--no-index", "--no-deps", str(wheel)], ["check"]):
        done = subprocess.run([*pip, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


def _site_packages(environment: Path) -> Path:
    (folder,) = environment.glob("lib/python*/site-packages")
    return folder


def required(requirements: list[str]) -> list[Distribution]:
    """The packages that fulfil these requirements, and those that they require in turn."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(Requirement(text), "") for text in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        package = found.setdefault(canonicalize_name(requirement.name), distribution(requirement.name))
        for wanted in {"", *requirement.extras}:
            if (package.name, wanted) not in seen:
                seen.add((package.name, wanted))
                waiting += [(Requirement(text), wanted) for text in package.requires or ()]
    return list(found.values())


def _link(package: Distribution, site_packages: Path) -> None:
    """Link to the files of an installed package; a folder that several packages share is made anew."""
    root = Path(str(package.locate_file("")))
    for file in package.files or ():
        if file.parts[0] in ("..", "__pycache__"):  # commands, and what Python makes by itself
            continue
        for depth in range(1, len(file.parts) + 1):
            part = Path(*file.parts[:depth])
            link = site_packages / part
            shared = (
                (root / part).is_dir() and not (root / part / "__init__.py").exists() and part.suffix != ".dist-info"
            )
            if shared:
                link.mkdir(exist_ok=True)
            else:
                if not link.is_symlink():
                    link.symlink_to(root / part)
                break


def _run(environment: Path, folder: Path, *command: str) -> str:
    """Run a command of the environment as a user would: nothing of this process or of the repository reaches it."""
    hidden = ("PYTHON", "FORETRAIN", "VIRTUAL_ENV", "COV_", "PYTEST")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    variables["PATH"] = f"{environment / 'bin'}{os.pathsep}{variables['PATH']}"
    done = subprocess.run(
        [str(environment / "bin" / command[0]), *command[1:]], cwd=folder, env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        (metadata,) = (archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA"))
        licences = [name for name in archive.namelist() if name.endswith("licenses/LICENSE")]
    assert names == own_files()
    assert licences
    assert f"Version: {PROJECT['version']}\n" in metadata
    assert "Requires-Dist: torch<3,>=2.6\n" in metadata


@pytest.mark.slow
def test_installed_from_the_wheel_commands_and_the_readme_run(environment: Path, tmp_path: Path) -> None:
    """One test, so that one worker makes the environment."""
    for module in ("pytest", "transformers", "dash", "distributed", "pyarrow"):  # so a forgotten requirement is noticed
        program = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is not None)"
        _run(environment, tmp_path, "python", "-c", program)
    program = "import foretrain, sys; print(foretrain.__file__, *sys.path, sep='\\n')"
    imported, *path = _run(environment, tmp_path, "python", "-c", program).splitlines()
    assert imported == str(_site_packages(environment) / "foretrain" / "__init__.py")
    assert not [place for place in path if place.startswith(str(ROOT))]

    assert _run(environment, tmp_path, "foretrain", "--version") == f"foretrain {PROJECT['version']}\n"
    assert "holds" in _run(environment, tmp_path, "foretrain", "check", "scan_snap/lemma6")

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 4
    (tmp_path / "readme.py").write_text("\n".join(blocks), encoding="utf-8")
    assert "scan_snap/lemma6" in _run(environment, tmp_path, "python", "readme.py")
    assert (tmp_path / "training.html").stat().st_size > 1e6


def _imported() -> Iterator[tuple[str, str]]:
    """(module of someone else, file of ours) for every import."""
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [str(node.module)]
            tops = {name.partition(".")[0] for name in names}
            yield from ((top, file.name) for top in tops - sys.stdlib_module_names - {"foretrain"} - OPTIONAL)


def test_every_import_is_declared() -> None:
    """As a requirement or in an extra: what comes along with another package today may not tomorrow."""
    listed = [
        *PROJECT["dependencies"],
        *(text for extra in PROJECT["optional-dependencies"].values() for text in extra),
    ]
    declared = {canonicalize_name(Requirement(text).name) for text in listed}
    owners = packages_distributions()
    missing = [
        (module, file)
        for module, file in _imported()
        if not declared & {canonicalize_name(FROM_EXTRAS.get(name, name)) for name in owners.get(module, [module])}
    ]
    assert missing == []


def test_one_version_everywhere() -> None:
    version = PROJECT["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## (\d+\.\d+\.\d+) \((\d{4}-\d{2}-\d{2})\)$", changelog, re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert released[0][0] == version
    assert f"\nversion: {version}\n" in citation
    assert f"\ndate-released: {released[0][1]}\n" in citation


def test_the_torch_of_the_tests_is_one_that_users_may_have() -> None:
    wanted = next(
        requirement for requirement in map(Requirement, PROJECT["dependencies"]) if requirement.name == "torch"
    )
    (pinned,) = re.findall(r"^torch==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert wanted.specifier.contains(pinned)
    assert len(wanted.specifier) == 2  # a range
