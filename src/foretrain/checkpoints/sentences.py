"""What an analysis says in words and in a table: first what is wrong or missing, then what changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from foretrain.checkpoints.fault import Fault
from foretrain.checkpoints.matrix_names import GROUPS, by_group, layer_number
from foretrain.checkpoints.measure_checkpoint import has_attention
from foretrain.checkpoints.scales import chance_of_mean, identity_chances, largest_ranks
from foretrain.checkpoints.series import Measured
from foretrain.core.errors import visible

CHANGED = 0.05  # share by which a number must change to be called a change
BRIEF = 2  # faults that the summary names
PRODUCTS = {"query_key": "W_Q·W_Kᵀ", "value_output": "W_V·W_O"}


def summary(analysis: Measured) -> str:
    """A few sentences that answer: is the series sound, how large is the model, what changed."""
    return visible(" ".join([*_no_attention(analysis), _soundness(analysis), _size(analysis), *_changes(analysis)]))


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


def chance(deviation: float) -> str:
    """How large identity shares are by chance, for a heading or beside a number."""
    return f"chance ±{deviation:.2g}" if math.isfinite(deviation) else "chance unknown"


def layer_table(analysis: Measured) -> tuple[list[str], list[list[Any]]]:
    """A row per layer: medians of its matrices and means over its heads, at the first and the last step."""
    dataset, last = analysis.by_name, analysis.records[-1]
    columns: dict[str, dict[int, np.ndarray]] = {}
    for group in GROUPS:
        ranks = by_group(dataset, "stable_rank", group)
        title = f"stable rank, {group} (of at most {largest_ranks(last, group)})"
        columns[title] = _per_layer(ranks, "matrix", np.nanmedian)
    by_chance = max((chance_of_mean([pair]) for pair in identity_chances(last).values()), default=math.nan)
    for name, product in PRODUCTS.items():
        if f"identity_{name}" in dataset:
            title = f"identity in {product} ({chance(by_chance)})"
            columns[title] = _per_layer(dataset[f"identity_{name}"].mean("head"), "layer", np.nanmean)
    if "attention_entropy" in dataset:
        columns["entropy (nats)"] = _per_layer(dataset["attention_entropy"].mean("head"), "layer", np.nanmean)
    numbers = sorted({number for column in columns.values() for number in column})
    used = [title for title, column in columns.items() if column]
    return ["layer", *used], [[n, *(_first_last(title, columns[title].get(n)) for title in used)] for n in numbers]


def matrix_table(analysis: Measured) -> tuple[list[str], list[list[Any]]]:
    """A row per matrix, at the first and the last step: for models whose names say nothing of layers."""
    dataset, tensors = analysis.by_name, analysis.records[-1]["tensors"]
    rows: list[list[Any]] = []
    for name in analysis.records[-1]["weights"]:
        of_matrix = dataset.sel(matrix=name)
        rows.append([
            name, *(_first_last(measure, of_matrix[measure].values) for measure in ("norm", "stable_rank")),
            min(tensors[name]["shape"]),
        ])  # fmt: skip
    return ["matrix", "norm", "stable rank", "of at most"], rows


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


def _no_attention(analysis: Measured) -> list[str]:
    if any(has_attention(record["tensors"]) for record in analysis.records):
        return []
    return [f"In {analysis.name} no attention layer was found; only its matrices are measured."]


def _soundness(analysis: Measured) -> str:
    """What could not be measured, and the faults of the rest."""
    absent, total = len(analysis.unmeasured), analysis.total
    faults = analysis.faults[absent:]
    if total == 1:
        start = f"{_named(faults)} in {analysis.name}"
        return _listing(start, faults) if faults else f"{analysis.name}: no faults found."
    steps = sorted([*(record["step"] for record in analysis.records), *analysis.unmeasured])
    first, last = shown(steps[0]), shown(steps[-1])
    if absent:
        out = "it" if absent == 1 else "them"
        missing = f"Incomplete: {absent} of {total} checkpoints (steps {first} to {last}) could not be measured"
        others = _listing(_named(faults, " other"), faults) if faults else "No other faults."
        return f"{missing}; the rest leaves {out} out. {others}"
    if not faults:
        return f"{total} checkpoints from step {first} to {last}, no faults found."
    return _listing(f"{_named(faults)} in {total} checkpoints (steps {first} to {last})", faults)


def _named(faults: Sequence[Fault], other: str = "") -> str:
    return f"One{other} fault" if len(faults) == 1 else f"{len(faults)}{other} faults"


def _listing(start: str, faults: Sequence[Fault]) -> str:
    """The first faults, each without its explanation, which follows a colon."""
    briefly = [fault.sentence.split(": ")[0].removesuffix(".") for fault in faults[:BRIEF]]
    briefly = [f"the {text.removeprefix('The ')}" if text.startswith("The ") else text for text in briefly]
    more = [f"and {len(faults) - BRIEF} more"] if len(faults) > BRIEF else []
    return f"{start}: {'; '.join([*briefly, *more])}."


def _size(analysis: Measured) -> str:
    last = analysis.records[-1]
    layers = len(last["identity"])
    heads = max((len(v) for shares in last["identity"].values() for v in shares.values()), default=0)
    who = "It" if analysis.total == 1 else "Each"
    layer, head = "layer" if layers == 1 else "layers", "head" if heads == 1 else "heads"
    parameters = shown(last["parameters"] / 1e6)
    attention = f" and {layers} attention {layer} of {heads} {head}" if layers else ""
    quantised = last.get("quantised", 0)
    matrices = "matrix is" if quantised == 1 else "matrices are"
    left_out = f" {quantised} {matrices} quantised to whole numbers, and left out of all this." if quantised else ""
    return f"{who} has {parameters} M parameters{attention}.{left_out}"


def _changes(analysis: Measured) -> list[str]:
    dataset, sentences = analysis.by_name, []
    steps = dataset["step"].values
    for group in GROUPS:
        ranks = by_group(dataset, "stable_rank", group)
        if ranks.sizes["matrix"]:
            what = f"The stable rank of the {group} matrices (median)"
            scale = f" of at most {largest_ranks(analysis.records[-1], group)}"
            sentences.append(_change(what, steps, ranks.median("matrix").values, scale))
    for name, product in PRODUCTS.items():
        if f"identity_{name}" in dataset and len(steps) == 1:
            mean = share(float(dataset[f"identity_{name}"].mean()))
            by_chance = chance(chance_of_mean(identity_chances(analysis.records[-1]).values()))
            sentences.append(f"The identity's share of {product} is {mean} ({by_chance}), averaged over all heads.")
    if "attention_entropy" in dataset:
        entropy = dataset["attention_entropy"].mean(("layer", "head")).values
        sentences.append(_change("The entropy of attention (mean, in nats)", steps, entropy))
    if np.isfinite(dataset["loss"]).any():
        sentences.append(_change("The loss on the text", steps, dataset["loss"].values))
    return sentences


def _change(what: str, steps: np.ndarray, values: np.ndarray, scale: str = "") -> str:
    """A sentence on how a number went from the first step to the last, and when half of that had happened."""
    first, last = float(values[0]), float(values[-1])
    if len(values) == 1:
        return f"{what} is {shown(first)}{scale}."
    if abs(last - first) <= CHANGED * abs(first):
        return f"{what} stays near {shown(first)}{scale}."
    verb = "falls" if last < first else "rises"
    sentence = f"{what} {verb} from {shown(first)} to {shown(last)}{scale}"
    half = int(np.argmax((values - first) / (last - first) >= 0.5))
    early = 0 < half < len(values) - 1
    return f"{sentence}, half of it by step {shown(float(steps[half]))}." if early else f"{sentence}."
