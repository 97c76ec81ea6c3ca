"""The forecast that a user sees: learning curves, what they mean in a sentence, and how far to trust them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import torch
import xarray as xr
from torch import nn

from foretrain.core.errors import require, require_whole
from foretrain.core.files import write_text
from foretrain.core.tables import csv_text
from foretrain.forecast.finetuning import words
from foretrain.forecast.finetuning.curves import curves, recorded_steps, score
from foretrain.forecast.finetuning.dynamics import FinetuneSetting
from foretrain.forecast.finetuning.prepared import (
    ModelSource,
    Pass,
    WhatIf,
    prepare_tensors,
    prepare_texts,
    with_model,
)
from foretrain.forecast.finetuning.training import train_outputs
from foretrain.forecast.finetuning.trust import Trust, trust_after_steps, trust_in
from foretrain.forecast.sources import further_texts, texts_of


@dataclass(frozen=True)
class FinetuneForecast:
    """What fine-tuning will do, for one setting and several orders of the batches.

    The dataset has loss and accuracy [part, order, step] and the logits of every row at the end [order, row, output];
    after a real training, the same with the prefix `real_`.
    """

    prepared: Pass
    setting: FinetuneSetting
    what_if: WhatIf
    dataset: xr.Dataset
    trust: Trust

    @property
    def summary(self) -> str:
        """One paragraph: what will happen, where the test loss is lowest, and whether to believe it."""
        return words.summary(self.dataset, self.trust)

    @cached_property
    def table(self) -> pd.DataFrame:
        """Accuracy and loss on the test rows: probe, forecast with its spread over batch orders, real training."""
        return words.table(self.dataset)

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Every row: where it is in the file, its part and class, and the logits of probe and forecast."""
        return words.rows(self.prepared, self.what_if, self.dataset)

    def rows_on(self, lines: Iterable[int]) -> list[int]:
        """The training rows that stand on these lines of the file."""
        texts = self.prepared.texts
        drawn = texts.lines[: self.prepared.train] if texts is not None else ()
        for line in lines:
            require(
                line in drawn,
                f"Line {line} is not among the {len(drawn)} rows drawn for training; --rows FILE.csv, without --drop "
                "and --relabel, writes which lines are.",
            )
        return [drawn.index(line) for line in lines]

    def without(self, rows: Sequence[int]) -> FinetuneForecast:
        """What if these training rows (numbered as in `rows`) were dropped?"""
        return self._again(what_if=replace(self.what_if, dropped=tuple({*self.what_if.dropped, *map(int, rows)})))

    def relabelled(self, labels: Mapping[int, int]) -> FinetuneForecast:
        """What if these training rows had other labels?"""
        other = {**dict(self.what_if.relabelled), **labels}
        return self._again(what_if=replace(self.what_if, relabelled=tuple(other.items())))

    def with_setting(self, **changes: Any) -> FinetuneForecast:
        """The forecast for another rate, schedule, number of steps, …: about a second for each order of batches."""
        return self._again(setting=FinetuneSetting.of(**{**self.setting.as_dict(), **changes}))

    def _again(self, **changes: Any) -> FinetuneForecast:
        given = {"setting": self.setting, "what_if": self.what_if, **changes}
        return forecast_with(self.prepared, orders=self.dataset.sizes["order"], **given)

    def train(self) -> FinetuneForecast:
        """Run the real thing for the first order of batches, and keep both."""
        steps = self.dataset["step"].values.tolist()
        prepared = with_model(self.prepared)
        labels, keep = prepared.labels_if(self.what_if), prepared.rows_if(self.what_if)
        real = train_outputs(prepared.classifier, labels, self.setting, steps, keep=keep)
        measured = curves(prepared.labels, prepared.train, [real], steps).isel(order=0)
        return replace(self, dataset=self.dataset.assign({f"real_{name}": measured[name] for name in measured}))

    @property
    def score(self) -> dict[str, float]:
        """How well the forecast met the real training; see `foretrain.forecast.finetuning.curves.score`."""
        require("real_logits" in self.dataset, "There is no real training to compare with; call .train() first.")
        return score(self.dataset)

    def checked(self, steps: int = 4) -> FinetuneForecast:
        """Run a few real steps, and trust the forecast only if they moved the outputs as it says."""
        require_whole("steps", steps, 1)
        trust = trust_after_steps(with_model(self.prepared), self.setting, self.what_if, self.trust, steps)
        return replace(self, trust=trust)

    def numbers(self) -> dict[str, Any]:
        """The forecast as plain data, for JSON."""
        return words.numbers(self)

    def write_rows(self, path: str | Path) -> None:
        """Write the table of every row as csv."""
        write_text(Path(path), csv_text(self.rows, index=True))

    def keep(self, path: str | Path) -> None:
        """Save the pass, so that `foretrain explore --kept` forecasts other settings without the model."""
        from foretrain.forecast.finetuning.kept import kept_pass, save_pass

        save_pass(kept_pass(with_model(self.prepared), self.setting), path)

    def figure(self) -> go.Figure:
        """Accuracy and loss against steps, on training and test rows."""
        from foretrain.forecast.finetuning.figures import learning_curves

        return learning_curves(self.dataset)

    def report(self, path: str | Path) -> None:
        """Write a page with the answer, how far to trust it, the table and the curves."""
        from foretrain.forecast.finetuning.figures import page

        write_text(Path(path), page(self))

    def _repr_html_(self) -> str:
        from foretrain.forecast.finetuning.figures import fragment

        return fragment(self)


def finetune(
    model: ModelSource,
    data: Any,
    *,
    text: str | int | None = None,
    label: str | int | None = None,
    n: int | None = None,
    test: int | Any = 200,
    length: int = 64,
    tokenizer: Any = None,
    head: nn.Linear | None = None,
    orders: int = 3,
    seed: int = 1,
    **setting: Any,
) -> FinetuneForecast:
    """What will fine-tuning do to this model on this data? The head starts at a linear probe, and dropout is off.

    The first setting costs about as much as training it, each further one (`with_setting`, `without`) about a second.

    model      folder or hub name of an encoder or decoder; a Hugging Face model, with its tokenizer; or any torch
               classifier with a linear head
    data       sst2, imdb or ag_news; a file, data frame, dataset or list with texts and labels (columns `text` and
               `label`); for a torch classifier, a pair (inputs, labels), of which the first n rows are trained on and
               the others tested
    n          training rows; by default 256, or 60 % of a smaller corpus
    test       how many of the other rows to test on, or test data of the same kind
    length     texts are cut after this many tokens
    tokenizer  for a model given as an object: a Hugging Face tokenizer, or a function from a text to token numbers
    orders     orders of the batches; their spread is shown
    seed       which rows are drawn, and in what order they are trained on
    setting    how the model is fine-tuned, see `FinetuneSetting`: optimizer="adamw", rate=2e-5, steps=48, batch=16,
               schedule="constant", warm_up=0, weight_decay=0, momentum=0
    """
    chosen = FinetuneSetting.of(**setting, seed=seed)
    require_whole("orders", orders, 1)
    if _tensors(data):
        prepared = prepare_tensors(model, data, rows=n, test=test, head=head)
    else:
        columns: dict[str, Any] = {"text": text, "label": label}
        texts = texts_of(data, **columns)
        tested = test if isinstance(test, int) else further_texts(test, texts, **columns)
        prepared = prepare_texts(model, texts, rows=n, test=tested, length=length, seed=seed, tokenizer=tokenizer)
    return forecast_with(prepared, chosen, orders=orders)


def _tensors(data: Any) -> bool:
    """Whether the data are a pair of inputs and labels as arrays."""
    return isinstance(data, tuple | list) and len(data) == 2 and hasattr(data[1], "shape")


@torch.inference_mode(mode=False)
def forecast_with(
    prepared: Pass, setting: FinetuneSetting, *, orders: int = 3, what_if: WhatIf | None = None
) -> FinetuneForecast:
    """The forecast for a setting; `orders` different orders of the batches give its spread."""
    require_whole("orders", orders, 1)
    what = prepared.check(what_if or WhatIf())
    steps = recorded_steps(setting.steps)
    plain = prepared.from_start(setting, [0, setting.steps], what)
    middle, reach = prepared.middle_for(setting, what)
    outputs = [
        prepared.along_path(replace(setting, seed=setting.seed + order), steps, middle, reach, what)
        for order in range(orders)
    ]
    dataset = curves(prepared.labels, prepared.train, outputs, steps)
    trust = trust_in(prepared, setting, what, plain, outputs[0])
    constants = {key: list(v) if isinstance(v, tuple) else v for key, v in setting.as_dict().items()}
    named = {"model": prepared.name, "rows": prepared.train, "classes": list(prepared.classes), **constants}
    dataset = dataset.assign_attrs(named)
    return FinetuneForecast(prepared, setting, what, dataset, trust)


def accuracy_by_rows(model: ModelSource, data: Any, sizes: Sequence[int], **options: Any) -> pd.DataFrame:
    """Forecast accuracy against the number of training rows; every size needs a pass of its own, with its own probe."""
    require(len(sizes) > 0, "Give at least one number of rows.")
    by_rows = {}
    for size in sizes:
        accuracy = finetune(model, data, n=size, **options).dataset["accuracy"].sel(part="test")
        start, end = accuracy.isel(step=0), accuracy.isel(step=-1)
        by_rows[size] = {
            "linear probe": float(start.mean()), "forecast": float(end.mean()), "spread": float(end.std())
        }  # fmt: skip
    return pd.DataFrame(by_rows).T.rename_axis("rows")
