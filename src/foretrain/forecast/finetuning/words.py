"""The forecast in words and tables."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import xarray as xr

from foretrain.forecast.clustered_errors import SIDES, mean_and_error
from foretrain.forecast.finetuning.curves import guesses, score
from foretrain.forecast.finetuning.dynamics import FinetuneSetting
from foretrain.forecast.finetuning.prepared import Pass, WhatIf
from foretrain.forecast.finetuning.trust import Trust


@runtime_checkable
class ShownForecast(Protocol):
    """What terminal, page and notebook show of a forecast."""

    @property
    def prepared(self) -> Pass: ...
    @property
    def setting(self) -> FinetuneSetting: ...
    @property
    def what_if(self) -> WhatIf: ...
    @property
    def dataset(self) -> xr.Dataset: ...
    @property
    def trust(self) -> Trust: ...
    @property
    def summary(self) -> str: ...
    @property
    def table(self) -> pd.DataFrame: ...


def summary(data: xr.Dataset, trust: Trust) -> str:
    """One paragraph: what will happen, where the test loss is lowest, and whether to believe it."""
    test = data.sel(part="test").mean("order")
    losses, steps = test["loss"].values, data["step"].values
    if not np.isfinite(losses).all():
        return "Do not trust this forecast: at this rate its numbers overflow. Give a smaller rate."
    before, after = 100 * float(test["accuracy"][0]), 100 * float(test["accuracy"][-1])
    rows = int((data["where"] == "test").sum())
    error = 100 * SIDES * np.sqrt(max(after / 100 * (1 - after / 100), 1e-4) / max(1, rows))
    change, change_error = _change(data)
    if abs(change) <= change_error:
        answer = (
            f"Fine-tuning will leave accuracy about where a linear probe has it: {before:.0f} % before, {after:.0f} % "
            f"after, a difference that may be chance with {rows} test rows"
        )
    else:
        moved = "lift" if after > before else "lower"
        answer = (
            f"Fine-tuning will {moved} accuracy from {before:.0f} % (linear probe) to about {after:.0f} % on rows it "
            f"has not seen (± {error:.0f} at 95 %, because there are {rows} test rows)"
        )
    largest = 100 * _largest(data)[0]
    if after < largest + error:
        answer += f"; always guessing the largest class gets {largest:.0f} %"
    lowest = int(np.argmin(losses))
    if lowest == len(losses) - 1:
        answer += f"; the test loss is still falling at step {steps[-1]}."
    elif lowest == 0:
        answer += "; the test loss rises from the start."
    else:
        answer += f"; the test loss is lowest near step {steps[lowest]} and rises after that."
    if trust.holds:
        return answer
    return f"Do not trust this forecast; a smaller rate or fewer steps would make it safer. It says: {answer}"


def _change(data: xr.Dataset) -> tuple[float, float]:
    """By how much accuracy changes on the test rows, and half of the 95 % interval: both have the same rows."""
    test = data.where(data["where"] == "test", drop=True)
    labels = test["label"].values
    right = np.mean([guesses(logits) == labels for logits in test["logits"].values], axis=0)
    changes = right - (guesses(test["probe_logits"].values) == labels)
    change, error = mean_and_error(changes, np.arange(len(changes)))
    return change, max(error, 1 / len(changes))  # one row more or less says nothing


def trust_words(forecast: ShownForecast) -> str:
    """How far to trust it, and what it does not cover."""
    left = forecast.prepared.start.left_out
    uncovered = "dropout" + (f", and these weights, which it keeps fixed: {', '.join(left)}" if left else "")
    verdict = "good" if forecast.trust.holds else "none"
    return f"Trust: {verdict}; {forecast.trust.reason} Not covered: {uncovered}."


def score_words(forecast: ShownForecast) -> str:
    """How well it met the real training; empty without one."""
    if "real_logits" not in forecast.dataset:
        return ""
    scores = score(forecast.dataset)
    return (
        f"Compared with real training: the forecast and the real change of the test logits have correlation "
        f"{scores['correlation']:.3f}, and the forecast change is {scores['scale']:.2f} times as large. The forecast "
        f"gives the same class as the fine-tuned model on {100 * scores['agreement']:.0f} % of the test rows, the "
        f"linear probe on {100 * scores['probe_agreement']:.0f} %."
    )


def setting_words(forecast: ShownForecast) -> str:
    """The setting, and what was assumed."""
    setting, data = forecast.setting, forecast.prepared
    schedule = f"{setting.schedule} rate" + (f" after {setting.warm_up} steps of warm-up" if setting.warm_up else "")
    more = [f"weight decay {setting.weight_decay:g}"] * bool(setting.weight_decay)
    more += [f"momentum {setting.momentum:g}"] * bool(setting.momentum)
    dropped, relabelled = len(forecast.what_if.dropped), len(forecast.what_if.relabelled)
    more += [f"without {dropped} training row{'s' * (dropped != 1)}"] * bool(dropped)
    more += [f"{relabelled} row{'s' * (relabelled != 1)} relabelled"] * bool(relabelled)
    orders, listed = (
        forecast.dataset.sizes["order"],
        ", ".join([f"{setting.steps} steps of {setting.batch} rows", *more]),
    )
    return (
        f"{data.name}, {data.train} training and {len(data.labels) - data.train} test rows; {setting.optimizer}, rate "
        f"{setting.rate:g}, {schedule}, {listed}. All weights are trained, the head starts at the linear probe, and "
        f"dropout is off. Bands, and ± in the table, show the spread over {orders} batch orders."
    )


def table(data: xr.Dataset) -> pd.DataFrame:
    """Accuracy and test loss of the simplest guess, probe, forecast (with its spread) and real training."""
    test = data.sel(part="test")
    start, end = test.isel(step=0), test.isel(step=-1)

    def spread(values: xr.DataArray) -> float:
        return float(values.std("order", ddof=1)) if values.sizes["order"] > 1 else np.nan

    rows: dict[str, list[float]] = {
        "always the largest class": [*_largest(data)],
        "linear probe": [float(start["accuracy"].mean()), np.nan, float(start["loss"].mean()), np.nan],
        "forecast": [value for name in ("accuracy", "loss") for value in (float(end[name].mean()), spread(end[name]))],
    }
    if "real_loss" in data:
        real = data[["real_accuracy", "real_loss"]].sel(part="test").isel(step=-1)
        rows["real training"] = [float(real["real_accuracy"]), np.nan, float(real["real_loss"]), np.nan]
    return pd.DataFrame(rows, index=["accuracy", "accuracy spread", "test loss", "test loss spread"]).T


def _largest(data: xr.Dataset) -> tuple[float, float, float, float]:
    """The largest class of the training rows, on the test rows; the loss is that of the classes' shares."""
    train, test = (data["label"].values[data["where"].values == part] for part in ("train", "test"))
    counts = np.bincount(train, minlength=int(data["label"].max()) + 1) + 1
    shares = counts / counts.sum()
    return float((test == shares.argmax()).mean()), np.nan, float(-np.log(shares[test]).mean()), np.nan


def table_rows(table: pd.DataFrame) -> list[tuple[str, str, str]]:
    """The table as text: name, accuracy and test loss; a forecast comes with its spread over batch orders."""

    def cell(row: pd.Series, name: str) -> str:
        spread = row[f"{name} spread"]
        return f"{row[name]:.3f}" + ("" if np.isnan(spread) else f" ± {spread:.3f}")

    return [(str(name), cell(row, "accuracy"), cell(row, "test loss")) for name, row in table.iterrows()]


def rows(prepared: Pass, what: WhatIf, data: xr.Dataset) -> pd.DataFrame:
    """Every row: its line in the file, part, class, text, the class that is forecast, and the logits of probe and
    forecast. A row that a what-if leaves out has the part "dropped"; a relabelled one has its new class."""
    labels = data["label"].values.copy()
    for row, label in what.relabelled:
        labels[row] = label
    part = np.where(np.isin(np.arange(len(labels)), what.dropped), "dropped", data["where"].values)
    columns: dict[str, Any] = {"part": part, "class": [prepared.classes[k] for k in labels]}
    if prepared.texts is not None:
        lines = {"line": list(prepared.texts.lines)} if prepared.texts.lines else {}
        columns = {**lines, **columns, "text": list(prepared.texts.texts)}
    names = [""] if data.sizes["output"] == 1 else [f" {name}" for name in prepared.classes]
    mean = data["logits"].mean("order")
    columns["forecast class"] = [prepared.classes[k] for k in guesses(mean.values)]
    for k, name in enumerate(names):
        columns[f"probe logit{name}"] = data["probe_logits"].isel(output=k).values
        columns[f"forecast logit{name}"] = mean.isel(output=k).values
        if "real_logits" in data:
            columns[f"real logit{name}"] = data["real_logits"].isel(output=k).values
    return pd.DataFrame(columns).rename_axis("row")


def numbers(forecast: ShownForecast) -> dict[str, Any]:
    """The forecast as plain numbers, for JSON."""
    data = forecast.dataset
    trust = {name: getattr(forecast.trust, name) for name in ("holds", "first_step", "change", "bend", "turn")}
    curves = {
        f"{name} {part}": data[name].sel(part=part)
        for name in ("accuracy", "loss", "real_accuracy", "real_loss")
        if name in data
        for part in data["part"].values.tolist()
    }
    return {
        "summary": forecast.summary,
        "trust": {**trust, "reason": forecast.trust.reason},
        "setting": forecast.setting.as_dict(),
        "step": data["step"].values.tolist(),
        "curves": {k: (v.mean("order") if "order" in v.dims else v).values.tolist() for k, v in curves.items()},
        "score": score(data) if "real_logits" in data else None,
    }
