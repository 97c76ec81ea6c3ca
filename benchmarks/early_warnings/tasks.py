"""What the models learn: the next byte of a text, the bytes of a text of which some were replaced, or the class of
made-up images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.early_warnings.settings import Setting
from foretrain.core.streams import stream

CONTEXT, BATCH = 64, 8  # of text
REPLACED = 0.25  # share of the bytes that an encoder has to restore, without being told which
CLASSES, IMAGES, SIDE, PATCH = 8, 48, 24, 6
SMOOTHING = 0.4  # of the labels of images: so the loss stays far above 0, and a rise of 10 % is more than noise


@dataclass
class Task:
    """Makes batches of (inputs, targets), with the faults of a setting in them."""

    setting: Setting
    text: Tensor  # symbols from 0 on
    random: torch.Generator

    @property
    def symbols(self) -> int:
        return int(self.text.max()) + 1

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Of the model: how many symbols or pixels it reads at a place, how many answers it has, how many places."""
        if self.setting.architecture == "vision":
            return PATCH * PATCH, CLASSES, (SIDE // PATCH) ** 2
        return self.symbols, self.symbols, CONTEXT

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        inputs, targets = self._images() if self.setting.architecture == "vision" else self._text()
        answers = self.sizes[1]
        share = 1.0 if step == self.setting.corrupted else self.setting.noise_at(step)
        if share:
            targets = self._replaced(targets, share, answers)
        if step == self.setting.corrupted:  # the same byte everywhere, or pixels of 0 to 255 that should be of 0 to 1
            inputs = 255 * inputs if inputs.is_floating_point() else torch.zeros_like(inputs)
        return inputs, targets

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        smoothing = SMOOTHING if self.setting.architecture == "vision" else 0.0
        flat = outputs.reshape(-1, outputs.shape[-1])
        return F.cross_entropy(flat, targets.flatten(), label_smoothing=smoothing)

    def _replaced(self, values: Tensor, share: float, kinds: int) -> Tensor:
        chosen = torch.rand(values.shape, generator=self.random) < share
        return torch.where(chosen, torch.randint(kinds, values.shape, generator=self.random), values)

    def _text(self) -> tuple[Tensor, Tensor]:
        starts = torch.randint(0, len(self.text) - CONTEXT, (BATCH, 1), generator=self.random)
        read = self.text[starts + torch.arange(CONTEXT + 1)]
        if self.setting.architecture == "decoder":
            return read[:, :-1], read[:, 1:]
        return self._replaced(read[:, 1:], REPLACED, self.symbols), read[:, 1:]

    def _images(self) -> tuple[Tensor, Tensor]:
        """Waves in one of eight directions, of any phase and of two widths, under noise, cut into patches."""
        labels = torch.randint(CLASSES, (IMAGES,), generator=self.random)
        phase = 6.283 * torch.rand(IMAGES, generator=self.random)
        width = 0.6 + 0.4 * torch.rand(IMAGES, generator=self.random)
        angle = labels * (3.1416 / CLASSES)
        y, x = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
        along = angle.cos()[:, None, None] * x + angle.sin()[:, None, None] * y
        waves = (width[:, None, None] * along + phase[:, None, None]).sin()
        pixels = 0.5 + 0.25 * waves + 0.15 * torch.randn(waves.shape, generator=self.random)
        return F.unfold(pixels[:, None], PATCH, stride=PATCH).mT, labels


def read_text(path: Path | None) -> bytes:
    return made_up_text() if path is None else path.read_bytes()


def symbols_of(text: bytes) -> Tensor:
    """The text as numbers from 0 on, one for each byte that occurs in it."""
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long().unique(return_inverse=True)[1]


def made_up_text(words: int = 200_000) -> bytes:
    """Sentences over 500 made-up words with Zipf's frequencies; each word is followed most often by one of three."""
    random = stream("benchmarks/early_warnings", "text")
    letters = random.choice(list("eeettaaooinnshrdlu"), (500, 9))
    lengths = random.integers(2, 9, 500)
    vocabulary = ["".join(row[:length]) for row, length in zip(letters, lengths, strict=True)]
    weights = 1 / (1 + random.permutation(500))
    drawn = random.choice(500, words, p=weights / weights.sum())
    followers, follow, which = (
        random.integers(0, 500, (500, 3)),
        random.random(words) < 0.6,
        random.integers(0, 3, words),
    )
    for i in range(1, words):
        if follow[i]:
            drawn[i] = followers[drawn[i - 1], which[i]]
    return " ".join(vocabulary[word] for word in drawn).encode()
