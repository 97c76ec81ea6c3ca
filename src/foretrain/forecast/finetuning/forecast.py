"""The forecast that a user sees: learning curves, what they mean in a sentence, and how far to trust them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import torch
import xarray as xr
from torch import Tensor

from foretrain.core.trajectory import trajectory
from foretrain.forecast.finetuning.dynamics import FinetuneSetting
from foretrain.forecast.finetuning.prepared import Prepared
from foretrain.forecast.finetuning.probe import log_loss
from foretrain.forecast.finetuning.training import train_outputs
from foretrain.forecast.finetuning.trust import Trust, trust_in

PARTS = ("train", "test")


@dataclass(frozen=True)
class FinetuneForecast:
    """What fine-tuning will do, for one setting and several orders of the batches.

    The dataset has loss and accuracy [part, step, order] and the logits of every row at the end [row, output]; after a
    real training, the same with the prefix `real_`.
    """

    prepared: Prepared
    setting: FinetuneSetting
    dataset: xr.Dataset
    trust: Trust

    @cached_property
    def table(self) -> pd.DataFrame:
        """Loss and accuracy on the test rows: probe, forecast with its spread over batch orders, real training."""
        rows = {"linear probe": self._at(0, "")}
        rows["forecast"] = self._at(-1, "")
        if "real_loss" in self.dataset:
            rows["real training"] = self._at(-1, "real_")
        return pd.DataFrame(rows, index=["accuracy", "test loss"]).T

    def _at(self, moment: int, prefix: str) -> list[float]:
        end = self.dataset.isel(step=moment).sel(part="test").mean("order")
        return [float(end[f"{prefix}accuracy"]), float(end[f"{prefix}loss"])]

    @property
    def summary(self) -> str:
        """One paragraph: what will happen, where the test loss is lowest, and whether to believe it."""
        test = self.dataset.sel(part="test").mean("order")
        before, after = float(test["accuracy"][0]), float(test["accuracy"][-1])
        error = 100 * np.sqrt(after * (1 - after) / max(1, len(self.prepared.labels) - self.prepared.train))
        moved = "lift" if after > before else "lower" if after < before else "leave"
        words = (
            f"Fine-tuning will {moved} accuracy from {100 * before:.0f} % (linear probe) to about {100 * after:.0f} % "
            f"(± {error:.0f}) on held-out rows"
            if moved != "leave"
            else f"Fine-tuning will leave accuracy at about {100 * after:.0f} % (± {error:.0f}), that of a linear probe"
        )
        losses, steps = test["loss"].values, self.dataset["step"].values
        lowest = int(np.argmin(losses))
        if lowest == len(losses) - 1:
            words += f"; the test loss is still falling at step {steps[-1]}."
        else:
            words += f"; the test loss is lowest at step {steps[lowest]} and rises after that."
        return words if self.trust.holds else f"Do not trust this forecast: {self.trust.reason} {words}"

    def without(self, rows: Sequence[int]) -> FinetuneForecast:
        """What if these training rows (numbered from 0, see `rows`) were dropped?"""
        keep = np.setdiff1d(np.arange(self.prepared.train), np.asarray(rows))
        return forecast_with(self.prepared, self.setting, orders=self.dataset.sizes["order"], keep=keep)

    def relabelled(self, labels: dict[int, int]) -> FinetuneForecast:
        """What if these training rows had other labels?"""
        return forecast_with(self.prepared, self.setting, orders=self.dataset.sizes["order"], relabelled=labels)

    def with_setting(self, **changes: Any) -> FinetuneForecast:
        """The forecast for another rate, schedule, number of steps, …: about a second each."""
        setting = FinetuneSetting(**{**self.setting.as_dict(), **changes})
        return forecast_with(self.prepared, setting, orders=self.dataset.sizes["order"])

    def train(self) -> FinetuneForecast:
        """Run the real thing for the first order of batches, and keep both."""
        steps = self.dataset["step"].values.tolist()
        real = train_outputs(self.prepared.classifier, self.prepared.training_labels, self.setting, steps)
        measured = _curves(self.prepared, [real], steps)
        both = self.dataset.assign({f"real_{name}": values for name, values in measured.items()})
        return FinetuneForecast(self.prepared, self.setting, both, self.trust)

    def rows(self) -> list[tuple[str, str, str]]:
        """The table in words: name, accuracy and test loss; a forecast comes with its spread over batch orders."""
        spread = self.dataset[["accuracy", "loss"]].isel(step=-1).sel(part="test").std("order")
        rows = []
        for name, (right, loss) in self.table.iterrows():
            more = name == "forecast" and self.dataset.sizes["order"] > 1
            shown = [f"{right:.3f}", f"{loss:.3f}"]
            if more:
                shown = [f"{right:.3f} ± {float(spread['accuracy']):.3f}", f"{loss:.3f} ± {float(spread['loss']):.3f}"]
            rows.append((str(name), shown[0], shown[1]))
        return rows

    def figure(self) -> go.Figure:
        from foretrain.forecast.finetuning.figures import learning_curves

        return learning_curves(self.dataset)

    def report(self, path: str | Path) -> None:
        """Write a page with the answer, how far to trust it, the table and the curves."""
        from foretrain.core.files import write_text
        from foretrain.forecast.finetuning.figures import page

        write_text(
            Path(path),
            page(self.summary, self.trust.reason, self.rows(), self.setting.as_dict(), self.dataset),
        )

    def _repr_html_(self) -> str:
        from foretrain.forecast.finetuning.figures import fragment

        return fragment(self.summary, self.trust.reason, self.rows())


def forecast_with(
    prepared: Prepared,
    setting: FinetuneSetting,
    *,
    orders: int = 3,
    keep: Any = None,
    relabelled: dict[int, int] | None = None,
) -> FinetuneForecast:
    """The forecast for a setting; `orders` different orders of the batches give its spread."""
    steps = recorded_steps(setting.steps)
    outputs = []
    for order in range(orders):
        own = FinetuneSetting(**{**setting.as_dict(), "seed": setting.seed + order})
        outputs.append(prepared.outputs(own, steps, keep=keep, relabelled=relabelled))
    dataset = _curves(prepared, outputs, steps)
    return FinetuneForecast(prepared, setting, dataset, trust_in(prepared, setting))


def recorded_steps(steps: int) -> list[int]:
    """The start, the end, and about a dozen steps between them, closer together at the start."""
    between = np.geomspace(1, steps, 12).round().astype(int).tolist() if steps > 1 else []
    return sorted({0, *between, steps})


def _curves(prepared: Prepared, outputs: Sequence[Tensor], steps: Sequence[int]) -> xr.Dataset:
    """Loss and accuracy [part, step, order] from outputs [step, row, output] of every order; logits at the end."""
    labels = prepared.labels.numpy()
    parts = (slice(0, prepared.train), slice(prepared.train, None))
    stacked = torch.stack(list(outputs)).double().numpy()  # [order, step, row, output]
    loss = [[[log_loss(z[part], labels[part]) for z in order] for order in stacked] for part in parts]
    right = [[[accuracy(z[part], labels[part]) for z in order] for order in stacked] for part in parts]
    axes = ("part", "order", "step")
    where = np.where(np.arange(len(labels)) < prepared.train, *PARTS)
    return trajectory(
        {
            "loss": (axes, np.array(loss)),
            "accuracy": (axes, np.array(right)),
            "logits": (("row", "output"), stacked[:, -1].mean(0)),
            "probe_logits": (("row", "output"), stacked[:, 0].mean(0)),
            "label": ("row", labels),
            "where": ("row", where),
        },
        {"part": list(PARTS), "order": list(range(len(outputs))), "step": list(steps)},
        {"loss": "nats"},
    )


def accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    guess = (logits[:, 0] > 0).astype(int) if logits.shape[1] == 1 else logits.argmax(1)
    return float((guess == labels).mean())
