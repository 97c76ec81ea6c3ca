"""A model and its data after the one pass that every forecast needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foretrain.core.errors import InputError, require, require_whole
from foretrain.core.streams import stream
from foretrain.data.labelled_texts import LabelledTexts
from foretrain.forecast.finetuning.classifier import Classifier, from_module
from foretrain.forecast.finetuning.dynamics import FinetuneSetting, forecast_outputs
from foretrain.forecast.finetuning.midpoint import length_of_path, midpoint
from foretrain.forecast.finetuning.probe import fit_probe, put_into
from foretrain.forecast.finetuning.samples import lookups, trained_parameters
from foretrain.forecast.finetuning.tangent import COORDINATES, Tangent, linearise
from foretrain.forecast.finetuning.texts import from_body, from_hugging_face

MEMORY = 3e9  # bytes for the gradients at both points of the path
ROWS = 256  # training rows, unless told otherwise; 60 % of a smaller corpus
MOST_CLASSES = 100
FEWEST = 30_000  # coordinates; with fewer, the sample is too rough
SERVES = (0.3, 1.5)  # lengths of paths for which a middle serves, in lengths of its own
FEW_ROWS = 0.25  # of the training rows: a what-if that changes more of them has a middle of its own
Model = str | Path | nn.Module | tuple[nn.Module, Any]


@dataclass(frozen=True)
class Middle:
    """The gradients halfway along a path, and the path's length."""

    tangent: Tangent
    length: float


@dataclass(frozen=True)
class WhatIf:
    """Training rows that are left out, and training rows that have another label."""

    dropped: tuple[int, ...] = ()
    relabelled: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Pass:
    """What a pass over the rows found: training rows first, then test rows; the head holds the linear probe, and
    gradients are taken there."""

    labels: Int[Tensor, "row"]
    train: int  # rows
    classes: tuple[str, ...]
    start: Tangent
    texts: LabelledTexts | None = None  # of every row
    name: str = "the model"

    def labels_if(self, what: WhatIf) -> Int[Tensor, "train"]:
        labels = self.labels[: self.train].clone()
        for row, label in what.relabelled:
            labels[row] = label
        return labels

    def rows_if(self, what: WhatIf) -> Int[np.ndarray, "kept"]:
        return np.setdiff1d(np.arange(self.train), np.asarray(what.dropped, int))

    def check(self, what: WhatIf) -> WhatIf:
        """Refuse rows and labels that do not exist, and what leaves nothing to learn."""
        for row in [*what.dropped, *(row for row, _ in what.relabelled)]:
            require(0 <= row < self.train, f"There is no training row {row}; they are numbered 0 to {self.train - 1}.")
        for _, label in what.relabelled:
            require(
                0 <= label < len(self.classes), f"There is no class {label}; they are 0 to {len(self.classes) - 1}."
            )
        both = sorted(set(what.dropped) & {row for row, _ in what.relabelled})
        require(not both, f"Training row {both[0] if both else ''} cannot be both dropped and relabelled.")
        left = self.labels_if(what)[self.rows_if(what)]
        require(len(torch.unique(left)) >= 2, "The training rows that are left all have one label.")
        return what

    def from_start(
        self, setting: FinetuneSetting, record_at: Sequence[int], what: WhatIf | None = None
    ) -> Float[Tensor, "time row output"]:
        """The forecast with the gradients of the start alone."""
        what = what or WhatIf()
        return forecast_outputs(self.start, self.labels_if(what), setting, list(record_at), keep=self.rows_if(what))

    def middle_for(self, setting: FinetuneSetting, what: WhatIf) -> tuple[Tangent, float]:
        """Gradients in the middle of a path, and how long this setting's path is in lengths of that one."""
        raise NotImplementedError

    def along_path(
        self, setting: FinetuneSetting, record_at: Sequence[int], middle: Tangent, reach: float, what: WhatIf
    ) -> Float[Tensor, "time row output"]:
        """The forecast along the path through the middle."""
        return forecast_outputs(
            self.start,
            self.labels_if(what),
            setting,
            list(record_at),
            middle=middle,
            reach=reach,
            keep=self.rows_if(what),
        )


@dataclass(frozen=True)
class Prepared(Pass):
    """A pass, and the model that it was made with."""

    classifier: Classifier = field(kw_only=True)
    _middles: dict[tuple[str, WhatIf], Middle] = field(default_factory=dict, repr=False, kw_only=True)

    def middle_for(self, setting: FinetuneSetting, what: WhatIf) -> tuple[Tangent, float]:
        """Gradients in the middle of a path, and how long this setting's path is in lengths of that one.

        The middle of one path serves others that are not much longer or shorter, and what-ifs that change few rows.
        """
        changed = len(what.dropped) + len(what.relabelled)
        own = what if changed > FEW_ROWS * self.train else WhatIf()
        length, key = length_of_path(setting), (setting.optimizer, own)
        middle = self._middles.get(key)
        if middle is None or not SERVES[0] <= length / middle.length <= SERVES[1]:
            self._middles.clear()  # one fits in memory
            labels, keep = self.labels_if(own), self.rows_if(own)
            tangent = midpoint(self.classifier, self.start, labels, setting, keep=keep)
            require(
                bool(tangent.jacobian.isfinite().all()),
                f"At rate {setting.rate:g} the weights leave the range of numbers; give a smaller rate.",
            )
            middle = self._middles[key] = Middle(tangent, length)
        return middle.tangent, length / middle.length


def with_model(own: Pass) -> Prepared:
    """The pass with its model; refused if only the pass was kept."""
    if not isinstance(own, Prepared):
        raise InputError("Real steps need the model, and this pass was kept without it; forecast the model itself.")
    return own


@torch.inference_mode(mode=False)
def prepare(
    model: Model | Classifier,
    data: LabelledTexts | tuple[Any, Any] | Int[Tensor, "row"],
    *,
    rows: int | None = None,
    test: int = 200,
    length: int = 64,
    seed: int = 1,
    tokenizer: Any = None,
    test_data: LabelledTexts | tuple[Any, Any] | None = None,
    head: nn.Linear | None = None,
) -> Prepared:
    """Choose rows, fit the probe, and take the gradients there.

    model      a folder or hub name, a Hugging Face body with its `tokenizer`, or any torch module with a linear head
    data       labelled texts; for a torch module, a pair (inputs, labels), of which the first `rows` are trained on
    rows       training rows (256, or 60 % of fewer), drawn at random; `test` rows come from the rest, or `test_data`
    """
    if rows is None:
        known = len(data) if isinstance(data, LabelledTexts) else len(_pair(data)[1])
        rows = ROWS if known >= ROWS + test else max(2, int(0.6 * known))
    require_whole("rows", rows, 2)
    require_whole("test", test, 1)
    require_whole("length", length, 1)
    if isinstance(model, Classifier):
        assert isinstance(data, Tensor)
        return _prepared(model, data, rows, tuple(str(k) for k in range(model.classes)), None, "the model")
    if not isinstance(data, LabelledTexts):
        return _from_tensors(model, data, rows, test, test_data, head)
    further = test_data if isinstance(test_data, LabelledTexts) else None
    chosen = _chosen(data, further, rows, test, seed)
    classes = len(chosen.classes)
    require(
        classes <= MOST_CLASSES, f"There are {classes} classes, at most {MOST_CLASSES} are possible; is --label right?"
    )
    require(classes >= 2, f"There is only one class, {chosen.classes[0]!r}; a classifier needs two or more.")
    _affordable(len(chosen), 1 if classes == 2 else classes)
    if isinstance(model, tuple):
        model, tokenizer = model
    if isinstance(model, str | Path):
        require(tokenizer is None, "A model given by name comes with its tokenizer; give both as objects, or neither.")
        classifier, name = from_hugging_face(str(model), chosen.texts, classes, length=length), Path(model).name
    else:
        require(tokenizer is not None, "To read texts the model needs a tokenizer; give tokenizer=….")
        classifier, name = from_body(model, tokenizer, chosen.texts, classes, length=length), type(model).__name__
    return _prepared(classifier, torch.from_numpy(chosen.labels), rows, chosen.classes, chosen, name)


def _from_tensors(model: Any, data: Any, rows: int, test: int, test_data: Any, head: nn.Linear | None) -> Prepared:
    """The first rows are trained on; the next ones, or those of `test_data`, are tested."""
    require(isinstance(model, nn.Module), "Inputs and labels as tensors need a torch module as the model.")
    inputs, labels = _pair(data)
    rows = min(rows, len(labels)) if test_data is not None else rows
    if test_data is not None:
        more, more_labels = _pair(test_data)
        require(set(more) == set(inputs), f"The test inputs are {sorted(more)}, not {sorted(inputs)}.")
        inputs = {name: torch.cat([inputs[name][:rows], more[name]]) for name in inputs}
        labels = torch.cat([labels[:rows], more_labels])
    else:
        inputs, labels = {name: value[: rows + test] for name, value in inputs.items()}, labels[: rows + test]
    classes = max(2, int(labels.max()) + 1)
    classifier = from_module(model, inputs, classes, head=head)
    return _prepared(classifier, labels.long(), rows, tuple(map(str, range(classes))), None, type(model).__name__)


def _pair(data: Any) -> tuple[dict[str, Tensor], Tensor]:
    """Inputs by name ("" for the only one) and labels."""
    pair = isinstance(data, tuple | list) and len(data) == 2
    require(pair, "Give texts with labels, or a pair (inputs, labels) of tensors.")
    given, labels = data[0], torch.as_tensor(data[1])
    inputs = {str(k): torch.as_tensor(v) for k, v in given.items()} if isinstance(given, Mapping) else None
    inputs = inputs if inputs is not None else {"": torch.as_tensor(given)}
    whole = labels.ndim == 1 and not labels.is_floating_point() and len(labels) > 0
    require(whole, "Labels must be whole numbers from 0, one per row.")
    require(int(labels.min()) >= 0, f"Labels are numbered from 0; got {int(labels.min())}.")
    sizes = {len(value) for value in inputs.values()}
    require(sizes == {len(labels)}, f"There are {len(labels)} labels for {', '.join(map(str, sorted(sizes)))} rows.")
    return inputs, labels


def _chosen(texts: LabelledTexts, others: LabelledTexts | None, rows: int, test: int, seed: int) -> LabelledTexts:
    """Training rows, then test rows."""
    order = stream("forecast/finetuning", "rows", seed).permutation(len(texts))
    if others is None:
        require(
            len(texts) >= rows + min(test, 20),
            f"There are {len(texts)} rows; {rows} for training leave too few to test on; give a smaller --n.",
        )
        number = min(test, len(texts) - rows)  # drawn first, so that they are the same for any number of training rows
        return texts.select(np.concatenate([order[number : number + rows], order[:number]]))
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
    classifier: Classifier, labels: Tensor, train: int, names: Sequence[str], texts: LabelledTexts | None, name: str
) -> Prepared:
    require(len(labels) == len(classifier), f"There are {len(labels)} labels for {len(classifier)} rows.")
    require(train < len(labels), f"All {len(labels)} rows are for training; leave some to test on.")
    present = torch.unique(labels[:train])
    require(len(present) >= 2, "All training rows have the same label; a classifier needs two classes or more.")
    require(
        bool(trained_parameters(classifier.module)), "All weights of the model are frozen; nothing would be trained."
    )
    coordinates = _affordable(len(classifier), classifier.outputs, classifier.head.weight.element_size())
    with lookups(classifier.module) as looked_up:
        features = classifier.features()
    head = classifier.head
    put_into(head, fit_probe(features[:train], labels[:train], classifier.classes, bias=head.bias is not None))
    start = linearise(classifier, coordinates=coordinates, looked_up=looked_up)
    return Prepared(labels, train, tuple(names), start, texts, name, classifier=classifier)


def _affordable(rows: int, outputs: int, size: int = 4) -> int:
    """As many coordinates of `size` bytes as fit in memory; a refusal if there are too few."""
    fit = int(MEMORY / (2 * size * rows * outputs))
    most = int(MEMORY / (2 * size * FEWEST * outputs))
    if fit < FEWEST:
        raise InputError(
            f"{rows} rows with {outputs} outputs do not fit in memory; {most} rows (training and test) would: give a "
            "smaller --n or --test."
        )
    return min(COORDINATES, fit)
