"""What an analysis says in words and in a table: first what is missing, then what changed, then what is wrong."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import xarray as xr

from foretrain.checkpoints.configs import LAYER
from foretrain.checkpoints.measured import Measured
from foretrain.core.errors import visible

GROUPS = {
    "attention": re.compile(r"attn|attention|q_proj|k_proj|v_proj|o_proj|query|key|value"),
    "MLP": re.compile(r"mlp|ffn|feed_forward|\bfc\d?\b|c_fc|up_proj|down_proj|gate_proj|w[123]\b|dense"),
}
CHANGED = 0.05  # share by which a number must change to be called a change


def summary(analysis: Measured) -> str:
    """A few sentences that answer: how much was measured, what changed, how many faults."""
    return visible(" ".join([_missing(analysis), _counted(analysis), *_changes(analysis), _faults(analysis)]).strip())


def group_of(matrix: str) -> str | None:
    """Whether a matrix belongs to attention or to an MLP, by its name inside a layer; None for others."""
    match = LAYER.match(matrix)
    inside = matrix[match.end() :] if match else ""
    return next((group for group, pattern in GROUPS.items() if pattern.search(inside)), None)


def layer_number(name: str) -> int | None:
    """The number of the layer that a matrix or module is in."""
    match = LAYER.match(f"{name}.")
    return int(match["number"]) if match else None


def by_group(dataset: xr.Dataset, measure: str, group: str) -> xr.DataArray:
    """A measure of the matrices of one group, over (step, matrix)."""
    chosen = [name for name in dataset["matrix"].values.tolist() if group_of(name) == group]
    return dataset[measure].sel(matrix=chosen)


def shown(value: float) -> str:
    """A number with three digits, and spaces between thousands."""
    if not math.isfinite(value):
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}"


def share(value: float) -> str:
    """A number between −1 and 1, of which only three places behind the point matter."""
    return f"{value + 0.0:.3f}" if math.isfinite(value) else "–"


def layer_table(analysis: Measured) -> tuple[list[str], list[list[Any]]]:
    """A row per layer: medians of its matrices and means over its heads, at the first and the last step."""
    dataset = analysis.dataset
    columns: dict[str, dict[int, np.ndarray]] = {}
    for group in GROUPS:
        ranks = by_group(dataset, "stable_rank", group)
        columns[f"stable rank, {group}"] = _per_layer(ranks, "matrix", np.nanmedian)
    for name, title in (("query_key", "identity in W_Q·W_Kᵀ"), ("value_output", "identity in W_V·W_O")):
        if f"identity_{name}" in dataset:
            columns[title] = _per_layer(dataset[f"identity_{name}"].mean("head"), "layer", np.nanmean)
    if "attention_entropy" in dataset:
        columns["entropy (nats)"] = _per_layer(dataset["attention_entropy"].mean("head"), "layer", np.nanmean)
    numbers = sorted({number for column in columns.values() for number in column})
    used = [title for title, column in columns.items() if column]
    return ["layer", *used], [[n, *(_first_last(title, columns[title].get(n)) for title in used)] for n in numbers]


def _per_layer(values: xr.DataArray, axis: str, middle: Any) -> dict[int, np.ndarray]:
    places: dict[int, list[int]] = {}
    for index, name in enumerate(values[axis].values.tolist()):
        number = layer_number(name)
        if number is not None and np.isfinite(values.isel({axis: index})).any():
            places.setdefault(number, []).append(index)
    ordered = values.transpose("step", axis).values
    return {number: middle(ordered[:, chosen], axis=1) for number, chosen in places.items()}


def _first_last(title: str, values: np.ndarray | None) -> str:
    if values is None:
        return ""
    written = share if title.startswith("identity") else shown
    ends = [written(float(value)) for value in (values[0], values[-1])]
    return ends[0] if len(values) == 1 or ends[0] == ends[1] else f"{ends[0]} → {ends[1]}"


def _missing(analysis: Measured) -> str:
    absent = analysis.total - len(analysis.records)
    if not absent:
        return ""
    left_out = "it" if absent == 1 else "them"
    missing = f"{absent} of {analysis.total} checkpoints could not be measured"
    return f"Incomplete: {missing}; what follows is without {left_out}."


def _counted(analysis: Measured) -> str:
    last = analysis.records[-1]
    layers = len(last["identity"])
    heads = max((len(v) for shares in last["identity"].values() for v in shares.values()), default=0)
    model = f"{shown(last['parameters'] / 1e6)} M parameters, {layers} attention layers of {heads} heads"
    if analysis.total == 1:
        return f"{analysis.name}: {model}."
    steps = [record["step"] for record in analysis.records]
    return f"{len(steps)} checkpoints from step {shown(steps[0])} to {shown(steps[-1])} ({model})."


def _changes(analysis: Measured) -> list[str]:
    dataset, sentences = analysis.dataset, []
    steps = dataset["step"].values
    for group in GROUPS:
        ranks = by_group(dataset, "stable_rank", group)
        if ranks.sizes["matrix"]:
            what = f"The stable rank of the {group} matrices (median)"
            sentences.append(_change(what, steps, ranks.median("matrix").values))
    for name, title in (("query_key", "W_Q·W_Kᵀ"), ("value_output", "W_V·W_O")):
        if f"identity_{name}" in dataset and len(steps) == 1:
            shares = dataset[f"identity_{name}"][0]
            sentences.append(f"The identity's share of {title} is {share(float(shares.mean()))} on average.")
    if "attention_entropy" in dataset:
        entropy = dataset["attention_entropy"].mean(("layer", "head")).values
        sentences.append(_change("The entropy of attention (mean, in nats)", steps, entropy))
    if np.isfinite(dataset["loss"]).any():
        sentences.append(_change("The loss on the text", steps, dataset["loss"].values))
    return sentences


def _change(what: str, steps: np.ndarray, values: np.ndarray) -> str:
    """A sentence on how a number went from the first step to the last, and when half of that had happened."""
    first, last = float(values[0]), float(values[-1])
    if len(values) == 1:
        return f"{what} is {shown(first)}."
    if abs(last - first) <= CHANGED * abs(first):
        return f"{what} stays near {shown(first)}."
    verb = "falls" if last < first else "rises"
    sentence = f"{what} {verb} from {shown(first)} to {shown(last)}"
    half = int(np.argmax((values - first) / (last - first) >= 0.5))
    early = 0 < half < len(values) - 1
    return f"{sentence}, half of it by step {shown(float(steps[half]))}." if early else f"{sentence}."


def _faults(analysis: Measured) -> str:
    count = len(analysis.faults) - len(analysis.unmeasured)
    more = "" if analysis.complete else " more"
    if not count:
        return f"No{more} faults found."
    return f"One{more} fault." if count == 1 else f"{count}{more} faults."
