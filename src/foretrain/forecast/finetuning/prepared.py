"""A model and its data after the one pass that every forecast needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
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
from foretrain.forecast.finetuning.classifier import HeadedModel, from_module
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
REUSABLE_LENGTHS = (0.3, 1.5)  # lengths of other paths that may use the middle of one, in lengths of that one
FEW_ROWS = 0.25  # of the training rows: a what-if that changes more of them has a middle of its own
ModelSource = str | Path | nn.Module | tuple[nn.Module, Any]


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
class Pass(ABC):
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

    @abstractmethod
    def middle_for(self, setting: FinetuneSetting, what: WhatIf) -> tuple[Tangent, float]:
        """Gradients in the middle of a path, and how long this setting's path is in lengths of that one."""

    def along_path(
        self, setting: FinetuneSetting, record_at: Sequence[int], middle: Tangent, reach: float, what: WhatIf
    ) -> Float[Tensor, "time row output"]:
        """The forecast along the path through the middle."""
        path: dict[str, Any] = {"middle": middle, "reach": reach, "keep": self.rows_if(what)}
        return forecast_outputs(self.start, self.labels_if(what), setting, list(record_at), **path)


@dataclass(frozen=True)
class LivePass(Pass):
    """A pass, and the model that it was made with."""

    classifier: HeadedModel = field(kw_only=True)
    _middles: dict[tuple[str, WhatIf], Middle] = field(default_factory=dict, repr=False, kw_only=True)

    def middle_for(self, setting: FinetuneSetting, what: WhatIf) -> tuple[Tangent, float]:
        """Gradients in the middle of a path, and how long this setting's path is in lengths of that one.

        The middle of one path serves others that are not much longer or shorter, and what-ifs that change few rows.
        """
        changed = len(what.dropped) + len(what.relabelled)
        served = what if changed > FEW_ROWS * self.train else WhatIf()
        length, key = length_of_path(setting), (setting.optimizer, served)
        middle = self._middles.get(key)
        if middle is None or not REUSABLE_LENGTHS[0] <= length / middle.length <= REUSABLE_LENGTHS[1]:
            self._middles.clear()  # one fits in memory
            labels, keep = self.labels_if(served), self.rows_if(served)
            tangent = midpoint(self.classifier, self.start, labels, setting, keep=keep)
            require(
                bool(tangent.jacobian.isfinite().all()),
                f"At rate {setting.rate:g} the weights leave the range of numbers; give a smaller rate.",
            )
            middle = self._middles[key] = Middle(tangent, length)
        return middle.tangent, length / middle.length


def with_model(prepared: Pass) -> LivePass:
    """The pass with its model; refused if only the pass was kept."""
    if not isinstance(prepared, LivePass):
        raise InputError("Real steps need the model, and this pass was kept without it; forecast the model itself.")
    return prepared


@torch.inference_mode(mode=False)
def prepare(
    classifier: HeadedModel, labels: Int[Tensor, "row"], rows: int, texts: LabelledTexts | None = None, name: str = ""
) -> LivePass:
    """Fit the probe on the first `rows`, put it into the head, and take the gradients of all rows there."""
    require_whole("rows", rows, 2)
    require(len(labels) == len(classifier), f"There are {len(labels)} labels for {len(classifier)} rows.")
    require(rows < len(labels), f"All {len(labels)} rows are for training; leave some to test on.")
    present = torch.unique(labels[:rows])
    require(len(present) >= 2, "All training rows have the same label; a classifier needs two classes or more.")
    trained = trained_parameters(classifier.module)
    require(bool(trained), "All weights of the model are frozen; nothing would be trained.")
    coordinates = _affordable(len(classifier), classifier.outputs, classifier.head.weight.element_size())
    with lookups(classifier.module) as looked_up:
        features = classifier.features()
    head = classifier.head
    put_into(head, fit_probe(features[:rows], labels[:rows], classifier.classes, bias=head.bias is not None))
    start = linearise(classifier, coordinates=coordinates, looked_up=looked_up)
    names = texts.classes if texts is not None else tuple(map(str, range(classifier.classes)))
    return LivePass(labels, rows, names, start, texts, name or "the model", classifier=classifier)


@torch.inference_mode(mode=False)
def prepare_texts(
    model: ModelSource,
    texts: LabelledTexts,
    *,
    rows: int | None = None,
    test: int | LabelledTexts = 200,
    length: int = 64,
    seed: int = 1,
    tokenizer: Any = None,
) -> LivePass:
    """The pass of an encoder or decoder over labelled texts, of which each is cut after `length` tokens.

    model  a folder or hub name, a Hugging Face body with its `tokenizer`, or a pair of both
    rows   training rows (256, or 60 % of fewer), drawn at random; `test` rows come from the rest, or are other texts
    """
    further = test if isinstance(test, LabelledTexts) else None
    number = test if isinstance(test, int) else max(1, len(test))
    rows = _rows(rows, len(texts), number)
    require_whole("length", length, 1)
    chosen = _chosen(texts, further, rows, number, seed)
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
    return prepare(classifier, torch.from_numpy(chosen.labels), rows, chosen, name)


def prepare_tensors(
    model: Any, data: Any, *, rows: int | None = None, test: Any = 200, head: nn.Linear | None = None
) -> LivePass:
    """The pass of any torch classifier over a pair (inputs, labels), of which the first `rows` are trained on.

    test  how many of the following rows to test on, or another such pair
    """
    require(isinstance(model, nn.Module), "Inputs and labels as tensors need a torch module as the model.")
    inputs, labels = _pair(data)
    further = None if isinstance(test, int) else _pair(test)
    number = test if isinstance(test, int) else len(test)
    rows = _rows(rows, len(labels), number)
    if further is None:
        inputs, labels = {name: value[: rows + number] for name, value in inputs.items()}, labels[: rows + number]
    else:
        more, more_labels = further
        require(set(more) == set(inputs), f"The test inputs are {sorted(more)}, not {sorted(inputs)}.")
        rows = min(rows, len(labels))
        inputs = {name: torch.cat([inputs[name][:rows], more[name]]) for name in inputs}
        labels = torch.cat([labels[:rows], more_labels])
    classifier = from_module(model, inputs, max(2, int(labels.max()) + 1), head=head)
    return prepare(classifier, labels.long(), rows, name=type(model).__name__)


def _rows(asked: int | None, known: int, test: int) -> int:
    """How many rows to train on: as asked, or 256, or 60 % of fewer."""
    require_whole("test", test, 1)
    if asked is None:
        return ROWS if known >= ROWS + test else max(2, int(0.6 * known))
    require_whole("rows", asked, 2)
    return asked


def _pair(data: Any) -> tuple[dict[str, Tensor], Tensor]:
    """Inputs by name ("" for the only one) and labels."""
    pair = isinstance(data, tuple | list) and len(data) == 2
    require(pair, "Give texts with labels, or a pair (inputs, labels) of tensors.")
    given, labels = data[0], torch.as_tensor(data[1]).cpu()
    inputs = {str(k): torch.as_tensor(v).cpu() for k, v in given.items()} if isinstance(given, Mapping) else None
    inputs = inputs if inputs is not None else {"": torch.as_tensor(given).cpu()}
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
    trained = texts.select(order[:rows])
    tested = others.select(stream("forecast/finetuning", "test", seed).permutation(len(others))[:test])
    labels = np.concatenate([trained.labels, tested.labels])
    return replace(trained, texts=trained.texts + tested.texts, labels=labels, lines=trained.lines + tested.lines)


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
