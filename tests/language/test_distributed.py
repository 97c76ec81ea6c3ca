"""The same training in two processes, as torchrun starts them: with identity scalings, and killed in between."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from foretrain.language.state import load_model
from foretrain.language.training import device_of_process, train_language_model
from foretrain.patches.identity import identity_parameters
from foretrain.runs.training_log import read_training
from language.test_training import SMALL, text

SETTING = replace(SMALL, dropout=0.0, identity_scaling=True, steps=6)
PROGRAM = """
    import sys
    from dataclasses import replace
    from pathlib import Path
    import torch
    torch.set_num_threads(1)
    from foretrain.language.training import train_language_model
    from language.test_distributed import SETTING
    from language.test_training import text
    train_language_model(replace(SETTING, steps=int(sys.argv[2])), text(), Path(sys.argv[1]), every=2, evaluations=2)
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _launch_two(folder: Path, steps: int) -> None:
    """What torchrun does on one machine with two processes."""
    port = str(free_port())
    processes = []
    for rank in range(2):
        torchrun = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        environment = {**os.environ, **torchrun, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(folder), str(steps)]
        processes.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
    for process in processes:
        _, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors[-2000:]


@pytest.mark.slow
def test_two_processes_train_what_one_does(tmp_path: Path) -> None:
    for steps in (3, 6):  # the second launch goes on with the first
        _launch_two(tmp_path / "two", steps)
    alone = train_language_model(SETTING, text(), tmp_path / "one", every=2, evaluations=2).model
    together = load_model(tmp_path / "two" / "checkpoints" / "step-6")
    for (name, a), (_, b) in zip(alone.named_parameters(), together.named_parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-4, msg=name)
    assert all(bool((p != 0).all()) for p in identity_parameters(together))
    records, finished = read_training(tmp_path / "two" / "run.jsonl")
    assert ([record["step"] for record in records], finished) == ([0, 2, 4], True)
    assert not (tmp_path / "two" / ".lock").exists()


@pytest.mark.parametrize(("given", "taken"), [("cuda", "cuda:3"), ("cuda:1", "cuda:1"), ("cpu", "cpu")])
def test_each_process_takes_an_accelerator_of_its_own(given: str, taken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert device_of_process(torch.device(given)) == torch.device(taken)
    monkeypatch.delenv("LOCAL_RANK")
    assert device_of_process(torch.device(given)) == torch.device(given)
