"""The command line inside a test, with the made-up papers in place of the real ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from foretrain import papers

HERE = Path(__file__).parent


@pytest.fixture
def made_up_papers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`foretrain.papers` sees only the papers in `made_up/papers`."""
    monkeypatch.setattr(papers, "__path__", [str(HERE / "papers")])
    papers.forget()
    yield
    papers.forget()


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


Foretrain = Callable[..., Said]


@pytest.fixture
def foretrain(
    made_up_papers: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Foretrain:
    """`foretrain("check", "toy")` in a folder of its own -> exit code, stdout, stderr."""
    from foretrain.cli import main

    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main(arguments)
        said = capsys.readouterr()
        code = left.value.code
        assert isinstance(code, int)
        assert "Traceback" not in said.err
        return Said(code, said.out, said.err)

    return call


def start(*arguments: str, folder: Path, **environment: str) -> subprocess.Popen[str]:
    """The same command line as a process of its own, which can be killed."""
    return subprocess.Popen(
        [sys.executable, str(HERE / "__main__.py"), *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def stop_when(process: subprocess.Popen[str], condition: Callable[[], bool], how: signal.Signals) -> Said:
    """Send a signal as soon as the condition is met."""
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the process never came that far"
        time.sleep(0.005)
    process.send_signal(how)
    out, err = process.communicate(timeout=60)
    return Said(process.returncode, out, err)
