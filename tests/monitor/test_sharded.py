"""However the weights are spread over processes, the monitor records what it records in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from foretrain.runs.training_log import read_lines
from monitor.distributed import EVERY, STEPS, alone, batches_of, clips, ended, start

KINDS = ["ddp", "fsdp2", "fsdp2, not resharded", "fsdp2, mixed precision", "fsdp1", "fsdp1, original parameters",
         "tensor parallel"]  # fmt: skip
RANKS = 1e-3  # relative, of a stable rank: an estimate
RECORDS = 1 + STEPS // EVERY
NORMS = 2 * RECORDS  # collective operations, however many matrices there are
SPECTRA = 200  # more where there are shards: two for each of 40 Lanczos steps at the first record, of 4 to 32 later
FOUR = [*KINDS, "tensor parallel, fsdp2"]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """What two processes have recorded of every kind, one after another: starting them takes longer than training."""
    folder = tmp_path_factory.mktemp("two")
    return folder, "".join(ended(start(2, KINDS, folder)))


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("four")
    return folder, "".join(ended(start(4, FOUR, folder)))


@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_record_what_one_does(kind: str, two: tuple[Path, str]) -> None:
    check(kind, 2, *two)


@pytest.mark.full
@pytest.mark.parametrize("kind", FOUR)
def test_four_processes_record_what_one_does(kind: str, four: tuple[Path, str]) -> None:
    check(kind, 4, *four)


@pytest.mark.full
def test_trainings_side_by_side_do_not_mix(tmp_path: Path) -> None:
    """Two models of one form, each spread over two of four processes: each is measured by itself."""
    assert "could not" not in "".join(ended(start(4, ["side by side"], tmp_path)))
    for rank in range(4):
        norms, recorded = torch.load(tmp_path / f"side by side-{rank}.pt", weights_only=False)
        assert len(norms) == len(recorded) == 3
        np.testing.assert_allclose(recorded, norms, rtol=1e-6)


def check(kind: str, processes: int, folder: Path, errors: str) -> None:
    assert "could not" not in errors
    expected = alone(batches_of(kind, processes), clip=clips(kind)).records
    for rank in range(processes):
        plain, watched, records, operations = torch.load(folder / f"{kind}-{rank}.pt", weights_only=False)
        assert plain["losses"] == watched["losses"]
        assert all(torch.equal(a, b) for a, b in zip(plain["weights"], watched["weights"], strict=True))
        loose = 0.2 if kind == "fsdp2, mixed precision" else 1e-6
        compare(records, expected, loose, whole=kind == "ddp")
        assert operations <= (NORMS if kind == "ddp" else NORMS + SPECTRA)
    assert len(read_lines(folder / f"{kind}.jsonl")) == len(expected)


def compare(records: list[Any], expected: list[Any], tolerance: float, *, whole: bool) -> None:
    assert [record["step"] for record in records] == [0, 2, 4]
    for ours, theirs in zip(records, expected, strict=True):
        assert ours.keys() == theirs.keys() - (set() if whole else {"identity"})  # which needs whole matrices
        np.testing.assert_allclose(ours["loss"], theirs["loss"], rtol=tolerance)
        np.testing.assert_allclose(ours["gradient_norm"], theirs["gradient_norm"], rtol=tolerance)
        np.testing.assert_allclose(ours["every_step"]["loss"], theirs["every_step"]["loss"], rtol=tolerance)
        norms = theirs["every_step"]["gradient_norm"]  # estimates, from entries that depend on who holds what
        np.testing.assert_allclose(ours["every_step"]["gradient_norm"], norms, rtol=max(tolerance, 0.2))
        assert ours["attention"].keys() == theirs["attention"].keys()
        for layer, statistics in theirs["attention"].items():
            for name, values in statistics.items():
                np.testing.assert_allclose(ours["attention"][layer][name], values, rtol=max(tolerance, 1e-5), atol=1e-6)
        assert ours["weights"].keys() == theirs["weights"].keys()
        for matrix, measures in theirs["weights"].items():
            for name, value in measures.items():
                if name not in ours["weights"][matrix]:
                    assert name == "effective_rank"  # of shards only at every tenth record
                    continue
                allowed = RANKS if name == "stable_rank" else 1e-6
                np.testing.assert_allclose(
                    ours["weights"][matrix][name], value, rtol=max(tolerance, allowed), err_msg=f"{matrix} {name}"
                )
    assert all("effective_rank" in measures for measures in records[0]["weights"].values())
