"""What was never trained is called so, and what was trained even a little is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from checkpoints.series import gpt2, train
from checkpoints.stories import stories
from foretrain.checkpoints import Fault, analyze
from foretrain.checkpoints.initialisation import independent_entries
from foretrain.checkpoints.matrices import measure_matrix
from monitor.models import DECODERS, ENCODERS, NanoGPT


def faults_of(model: Any, folder: Path, heads: int = 4) -> list[Fault]:
    torch.save(model.state_dict(), folder / "model.pt")
    return analyze(folder / "model.pt", heads=heads, runs=folder / "runs").faults


def nano() -> nn.Module:
    return NanoGPT(vocab=200, width=64, heads=4)


UNTRAINED: dict[str, Callable[[], Any]] = {"GPT-2, wider": gpt2, "by hand": nano, **DECODERS, **ENCODERS}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("family", UNTRAINED)
def test_an_initialisation(family: str, seed: int, tmp_path: Path) -> None:
    torch.manual_seed(seed)
    (fault,) = faults_of(UNTRAINED[family](), tmp_path)
    assert (fault.kind, fault.where) == ("like initialisation", "all")


def test_an_orthogonal_initialisation(tmp_path: Path) -> None:
    model = gpt2()
    for parameter in model.parameters():
        if parameter.ndim == 2:
            nn.init.orthogonal_(parameter)
    assert [fault.kind for fault in faults_of(model, tmp_path)] == ["like initialisation"]


@pytest.mark.parametrize("steps", [1, 3, 10])
def test_a_little_training(steps: int, tmp_path: Path) -> None:
    model = gpt2()
    train(model, steps, torch.optim.AdamW(model.parameters(), lr=3e-4), torch.Generator().manual_seed(0))
    assert faults_of(model, tmp_path) == []


def test_training_that_leaves_norms_and_biases_alone(tmp_path: Path) -> None:
    model = gpt2()
    matrices = [parameter for parameter in model.parameters() if parameter.ndim == 2]
    train(model, 20, torch.optim.AdamW(matrices, lr=1e-3), torch.Generator().manual_seed(0))
    assert faults_of(model, tmp_path) == []


def test_a_pretrained_model(data_dir: Path, tmp_path: Path) -> None:
    model = stories(data_dir)
    assert faults_of(model, tmp_path, heads=8) == []
    model.save_pretrained(tmp_path / "stories")
    assert analyze(tmp_path / "stories", runs=tmp_path / "runs").faults == []


def test_a_pretrained_model_without_its_norms(data_dir: Path, tmp_path: Path) -> None:
    """The matrices alone tell."""
    model = stories(data_dir)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            nn.init.ones_(parameter)
    assert faults_of(model, tmp_path, heads=8) == []


def test_rows_of_different_size_are_no_initialisation() -> None:
    """Neither the kurtosis nor the edge shows it, only the spread of the rows, or of the columns."""
    W = torch.randn(512, 512, generator=torch.Generator().manual_seed(0))
    assert independent_entries(measure_matrix(W), W.shape)
    uneven = torch.linspace(0.9, 1.1, 512)
    assert not independent_entries(measure_matrix(uneven[:, None] * W), W.shape)
    assert not independent_entries(measure_matrix(uneven * W), W.shape)
