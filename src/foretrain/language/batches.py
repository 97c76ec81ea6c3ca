"""Which windows of the text a step reads. A batch depends on the seed and the step alone, so that a resumed training
reads the same ones."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int
from numpy import ndarray
from torch import Tensor

from foretrain.core.streams import stream
from foretrain.language.setting import LanguageSetting

VALIDATION_WINDOWS = 64


def training_batch(tokens: Int[ndarray, "length"], setting: LanguageSetting, step: int) -> Int[Tensor, "window token"]:
    """`batch` windows of `context` + 1 tokens: inputs are all but the last, targets all but the first."""
    length, batch = setting.context + 1, setting.batch
    if setting.order == "random":
        starts = stream("language", setting.seed, "batch", step).integers(0, len(tokens) - length + 1, batch)
    else:  # the text is cut into `batch` equal columns, which are read side by side
        column = max(length, len(tokens) // batch)
        per_epoch = max(1, (column - 1) // setting.context)
        starts = (np.arange(batch) * column + (step % per_epoch) * setting.context) % (len(tokens) - length + 1)
    return torch.from_numpy(tokens[starts[:, None] + np.arange(length)])


def validation_windows(tokens: Int[ndarray, "length"], context: int) -> Int[Tensor, "window token"]:
    """The same evenly spaced windows at every evaluation."""
    length = context + 1
    count = max(1, min(VALIDATION_WINDOWS, len(tokens) // length))
    starts = np.linspace(0, len(tokens) - length, count).astype(np.int64)
    return torch.from_numpy(tokens[starts[:, None] + np.arange(length)])
