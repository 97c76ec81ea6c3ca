"""A small language model that is trained on an accelerator, killed between two steps, and goes on there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from foretrain.language.setting import LanguageSetting
from foretrain.language.text import tokenize
from foretrain.language.training import train_language_model

TEXT = "the cat sees the dog and the dog sees the bird then the cat runs home " * 20


@pytest.mark.parametrize("scaling", [False, True])
def test_training_and_going_on(scaling: bool, tmp_path: Path, device: torch.device) -> None:
    runs = {}
    for place in ("cpu", device):
        folder = tmp_path / torch.device(place).type
        for steps in (2, 4):
            setting = LanguageSetting(
                model="post-norm", width=16, layers=1, heads=2, context=8, batch=4, steps=steps, schedule="constant",
                tokens="words", identity_scaling=scaling,
            )  # fmt: skip
            text = tokenize((TEXT, TEXT), setting)
            runs[folder.name] = train_language_model(setting, text, folder, every=2, evaluations=2, device=place)
    on_cpu, on_device = runs.values()
    assert {p.device for p in on_device.model.parameters()} == {device}
    np.testing.assert_allclose(on_device.evaluated["loss"], on_cpu.evaluated["loss"], rtol=1e-4)
    np.testing.assert_allclose(on_device.watched["attention_entropy"], on_cpu.watched["attention_entropy"], rtol=1e-4)
    assert [place.name for place in on_device.checkpoints] == [place.name for place in on_cpu.checkpoints]
