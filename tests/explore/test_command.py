"""foretrain explore: prints its address, answers, and ends on Ctrl-C; what is wrong is one sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from foretrain.cli import main


def test_it_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "foretrain", "explore", "--no-browser", "--runs", str(tmp_path)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=120) as answer:
            assert b"foretrain explorer" in answer.read()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "Traceback" not in error


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("options", "words"),
    [(["--port", "70000"], "--port must lie between"), (["--kept", "nothing.nc"], "There is no file nothing.nc")],
)
def test_refused_in_one_sentence(options: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["explore", *options])
    assert left.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.usefixtures("as_users_run_it")
def test_a_kept_file_of_another_kind_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pass.nc").write_text("not netCDF")
    with pytest.raises(SystemExit) as left:
        main(["explore", "--kept", str(tmp_path / "pass.nc")])
    assert left.value.code == 2
    assert "pass.nc is not netCDF" in capsys.readouterr().err
