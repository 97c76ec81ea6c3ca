"""A model and its data after the one pass that every forecast needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foretrain.core.errors import InputError, require, require_whole
from foretrain.core.streams import stream
from foretrain.data.labelled_texts import LabelledTexts
from foretrain.forecast.finetuning.classifier import Classifier, from_body, from_hugging_face
from foretrain.forecast.finetuning.dynamics import FinetuneSetting, forecast_outputs
from foretrain.forecast.finetuning.midpoint import midpoint
from foretrain.forecast.finetuning.probe import fit_probe
from foretrain.forecast.finetuning.tangent import COORDINATES, Tangent, linearise

MEMORY = 3e9  # bytes for the gradients at both points of the path
FEWEST = 30_000  # coordinates; with fewer, the sample is too rough


@dataclass(frozen=True)
class Middle:
    """The gradients halfway along a path, and how far its end is: the root mean square change of the outputs."""

    tangent: Tangent
    change: float


@dataclass(frozen=True)
class Prepared:
    """Training rows first, then test rows; the head holds the linear probe, and gradients are taken there."""

    classifier: Classifier
    labels: Int[Tensor, "row"]
    train: int  # rows
    classes: tuple[str, ...]
    start: Tangent
    lines: tuple[int, ...] = ()  # of every row in the user's file
    name: str = "the model"
    _middles: list[Middle] = field(default_factory=list, repr=False)

    @property
    def training_labels(self) -> Int[Tensor, "train"]:
        return self.labels[: self.train]

    def outputs(
        self,
        setting: FinetuneSetting,
        record_at: list[int],
        *,
        keep: Any = None,
        relabelled: dict[int, int] | None = None,
    ) -> Float[Tensor, "time row output"]:
        """The forecast along a path through the midpoint, which is computed once and serves all settings."""
        labels = self.training_labels.clone()
        for row, label in (relabelled or {}).items():
            labels[row] = label
        plain = forecast_outputs(self.start, labels, setting, [0, setting.steps], keep=keep)
        change = plain[-1] - plain[0]
        size = float(change.square().mean().sqrt())
        if not self._middles:
            self._middles.append(Middle(midpoint(self.classifier, self.start, labels, setting, change), size))
        middle = self._middles[0]
        reach = size / middle.change if middle.change > 0 else 1.0
        return forecast_outputs(self.start, labels, setting, record_at, middle=middle.tangent, reach=reach, keep=keep)

    def first_step(self, setting: FinetuneSetting) -> float:
        """How far the first step moves the outputs of the test rows (root mean square, in logits)."""
        one = replace(setting, steps=1, warm_up=min(setting.warm_up, 1), schedule="constant")
        moved = forecast_outputs(self.start, self.training_labels, one, [0, 1])
        return float((moved[1] - moved[0])[self.train :].square().mean().sqrt())


def prepare(
    model: str | tuple[nn.Module, Any] | Classifier,
    texts: LabelledTexts | Int[Tensor, "row"],
    *,
    rows: int = 256,
    test: int = 200,
    length: int = 64,
    seed: int = 1,
    test_texts: LabelledTexts | None = None,
) -> Prepared:
    """Choose rows, fit the probe, and take the gradients there.

    model   a folder or hub name, a pair (body, tokenizer), or a Classifier whose rows are all used, in their order
    texts   labelled texts; for a Classifier, its labels
    rows    training rows, drawn at random; `test` rows are drawn from the rest, or from `test_texts`
    """
    require_whole("rows", rows, 2)
    require_whole("test", test, 1)
    if isinstance(model, Classifier):
        assert isinstance(texts, Tensor)
        names = tuple(str(k) for k in range(model.classes))
        return _prepared(model, texts, rows, names, (), "the model")
    assert isinstance(texts, LabelledTexts)
    chosen = _chosen(texts, test_texts, rows, test, seed)
    classes = len(chosen.classes)
    require(classes >= 2, f"There is only one class, {chosen.classes[0]!r}; a classifier needs two or more.")
    if isinstance(model, str):
        classifier, name = from_hugging_face(model, chosen.texts, classes, length=length), model
    else:
        classifier, name = from_body(*model, chosen.texts, classes, length=length), type(model[0]).__name__
    return _prepared(classifier, torch.from_numpy(chosen.labels), rows, chosen.classes, chosen.lines, name)


def _chosen(texts: LabelledTexts, others: LabelledTexts | None, rows: int, test: int, seed: int) -> LabelledTexts:
    """Training rows, then test rows."""
    order = stream("forecast/finetuning", "rows", seed).permutation(len(texts))
    if others is None:
        require(
            len(texts) >= rows + min(test, 20),
            f"There are {len(texts)} rows; {rows} for training leave too few to test on; give a smaller --n.",
        )
        return texts.select(order[: rows + test])
    require(len(texts) >= rows, f"There are {len(texts)} rows, fewer than the {rows} to train on; give a smaller --n.")
    require(others.classes == texts.classes, f"The test file has the classes {others.classes}, not {texts.classes}.")
    own = texts.select(order[:rows])
    picked = others.select(stream("forecast/finetuning", "test", seed).permutation(len(others))[:test])
    return replace(
        own,
        texts=own.texts + picked.texts,
        labels=np.concatenate([own.labels, picked.labels]),
        lines=own.lines + picked.lines,
    )


def _prepared(
    classifier: Classifier, labels: Tensor, train: int, names: Sequence[str], lines: tuple[int, ...], name: str
) -> Prepared:
    require(len(labels) == len(classifier), f"There are {len(labels)} labels for {len(classifier)} rows.")
    require(train < len(labels), f"All {len(labels)} rows are for training; leave some to test on.")
    present = torch.unique(labels[:train])
    require(len(present) >= 2, "All training rows have the same label; a classifier needs two classes or more.")
    coordinates = _affordable(len(classifier), classifier.outputs)
    with torch.no_grad():
        probe = fit_probe(classifier.features()[:train], labels[:train], classifier.classes)
        classifier.head.weight.copy_(probe.weight)
        classifier.head.bias.copy_(probe.bias)
    start = linearise(classifier, coordinates=coordinates)
    return Prepared(classifier, labels, train, tuple(names), start, lines, name)


def _affordable(rows: int, outputs: int) -> int:
    """As many coordinates as fit in memory; a refusal if there are too few."""
    fit = int(MEMORY / (2 * 4 * rows * outputs))
    most = int(MEMORY / (2 * 4 * FEWEST * outputs))
    if fit < FEWEST:
        raise InputError(f"{rows} rows with {outputs} outputs do not fit in memory; {most} rows would.")
    return min(COORDINATES, fit)
