"""Figures 4, 5, 6, 11 and 12: training on Syn-Small and Syn-Medium."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Annotated, Any

import numpy as np
import torch
import xarray as xr
from pydantic import Field
from torch import Tensor

from foretrain.core.errors import require, require_known
from foretrain.core.trajectory import trajectory
from foretrain.data import SequenceClasses
from foretrain.dynamics.optimizers import SGD, Adam
from foretrain.dynamics.protocols import Optimizer
from foretrain.dynamics.train import train
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Positive, Seeds, about
from foretrain.measures import entropy
from foretrain.models import Bilinear
from foretrain.papers.scan_snap.experiments.axes import rate_axis
from foretrain.papers.scan_snap.experiments.parameters import (
    AttentionRate,
    AttentionRates,
    DecoderRates,
    OptimizerName,
    Queries,
    Ratio,
    Ratios,
    TrainingSteps,
)
from foretrain.papers.scan_snap.setting import ETA_Z, QUERIES, RATIO, TRAINING

THRESHOLDS = tuple(np.linspace(0, 4, 41))  # of the recall curves, in units of 1/M


def fig4(
    eta_y: DecoderRates = (1.0, 10.0),
    eta_z: AttentionRate = 1.0,
    seeds: Seeds = 10,
    steps: TrainingSteps = TRAINING.steps,
) -> xr.Dataset:
    """Fig 4: attention on every token while Syn-Small is trained with SGD, by η_Y.

    On the distinct tokens of class n, `mass` is the sum of c_n, `top` its largest value, and `entropy` the entropy of
    c_n scaled to sum 1.
    """
    optimizer = SGD({"Y": rate_axis("eta_y", eta_y), "Z": eta_z}, momentum=TRAINING.momentum)
    run, distinct = _syn_small("fig4", optimizer, seeds, steps)
    entropies = (distinct.dims[:-1], entropy(distinct.values), {"units": "nats"})
    return run.assign(
        mass=distinct.sum("slot", skipna=False), top=distinct.max("slot", skipna=False), entropy=entropies
    )


def fig5(
    rate: Annotated[
        Sequence[Positive], Field(min_length=2), about("Learning rates η_Y = η_Z to compare, each once; two at least.")
    ] = (0.1, 0.5, 1.0),
    optimizer: Annotated[OptimizerName, about("How Y and Z are updated.")] = "adam",
    seeds: Seeds = 10,
    steps: TrainingSteps = TRAINING.steps,
    chosen: Annotated[
        int,
        Field(ge=1, le=10),
        about("How many top tokens of a class are compared; a class has ten distinct tokens.", unit="tokens"),
    ] = 3,
) -> xr.Dataset:
    """Fig 5: which distinct tokens of Syn-Small get most attention with η_Y = η_Z, and whether the rates agree.

    `overlap` is the share of the `chosen` top tokens that two rates have in common, by run: all rates see the same
    data.
    """
    require_known("optimizer", optimizer, ("adam", "sgd"))
    require(1 <= chosen <= 10, f"chosen must be between 1 and 10, the distinct tokens of a class; got {chosen}.")
    rates = rate_axis("rate", rate)
    require(len(rates) >= 2, f"rate must name at least two rates to compare; got {rates.values.tolist()}.")
    method = Adam(rates) if optimizer == "adam" else SGD(rates, momentum=TRAINING.momentum)
    run, distinct = _syn_small("fig5", method, seeds, steps)
    last = distinct.isel(time=-1)
    rank = (-last.values).argsort(axis=-1).argsort(axis=-1)  # 0 for the token with most attention
    top = last.copy(data=rank < chosen)
    pairs = list(combinations(range(len(rates)), 2))
    shared = np.stack([(top.values[i] & top.values[j]).sum(axis=-1) / chosen for i, j in pairs])
    diverged = np.isnan(last.values).any(axis=-1)
    shared = np.where(np.stack([diverged[i] | diverged[j] for i, j in pairs]), np.nan, shared)
    names = [f"{rates.values[i]:g} and {rates.values[j]:g}" for i, j in pairs]
    return run.assign(overlap=(("pair", *top.dims[1:-1]), shared)).assign_coords(pair=names)


def fig6(
    queries: Queries = QUERIES,
    eta_z: AttentionRates = ETA_Z,
    ratio: Ratios = RATIO,
    seeds: Seeds = 10,
    steps: TrainingSteps = TRAINING.steps,
) -> xr.Dataset:
    """Fig 6: entropy of attention on the distinct tokens of Syn-Medium, by η_Z and η_Y/η_Z."""
    run = syn_medium(queries, eta_z, ratio, seeds, steps, experiment="scan_snap/fig6")
    return run.drop_vars(["recall", "threshold"])


def fig11(
    queries: Queries = QUERIES,
    ratio: Ratios = RATIO,
    eta_z: AttentionRate = 1.0,
    seeds: Seeds = 10,
    steps: TrainingSteps = TRAINING.steps,
) -> xr.Dataset:
    """Fig 11: recall of the distinct tokens of Syn-Medium by the threshold on attention, by η_Y/η_Z."""
    run = syn_medium(queries, [eta_z], ratio, seeds, steps, experiment="scan_snap/fig11").isel(eta_z=0)
    return run.drop_vars("entropy").assign(area=recall_area(run["recall"]))


def fig12(
    queries: Queries = QUERIES,
    eta_z: AttentionRates = ETA_Z,
    ratio: Ratio = 2.0,
    seeds: Seeds = 10,
    steps: TrainingSteps = TRAINING.steps,
) -> xr.Dataset:
    """Fig 12: recall of the distinct tokens of Syn-Medium by the threshold on attention, by η_Z."""
    run = syn_medium(queries, eta_z, [ratio], seeds, steps, experiment="scan_snap/fig12").isel(ratio=0)
    return run.drop_vars("entropy").assign(area=recall_area(run["recall"]))


def syn_medium(
    queries: Sequence[int],
    eta_z: Sequence[float],
    ratio: Sequence[float],
    seeds: Seeds,
    steps: int = TRAINING.steps,
    *,
    start: str = "uniform",
    experiment: str = "scan_snap/syn_medium",
) -> xr.Dataset:
    """Syn-Medium trained for every combination of queries, η_Z and ratio: the runs behind Fig 6, 11 and 12.

    entropy  of c_n on the distinct tokens of class n, scaled to sum 1; mean over classes
    recall   share of distinct tokens whose softmax value (of their query's row of Z) exceeds `threshold`/M
    """
    require(len(queries) >= 1, "queries must name at least one number of query tokens; got none.")
    rates_z, ratios = rate_axis("eta_z", eta_z), rate_axis("ratio", ratio)
    parts = []
    for number in queries:
        task = SequenceClasses.syn_medium(number, length=TRAINING.length)
        model = Bilinear(task, start=start)
        part = train(
            model,
            task,
            optimizer=SGD({"Y": ratios * rates_z, "Z": rates_z}, momentum=TRAINING.momentum),
            steps=steps,
            batch=TRAINING.batch,
            seeds=seeds,
            record={"entropy": _distinct_entropy(model), "recall": _recall(model)},
            save_at=[steps],
            experiment=f"scan_snap/syn_medium/{number}",
        )
        parts.append(part.isel(time=0, drop=True).transpose("eta_z", "ratio", "seed", ...))
    together = xr.concat(parts, xr.DataArray(list(queries), dims="queries", name="queries"), combine_attrs="drop")
    together = together.assign_coords(threshold=("threshold", list(THRESHOLDS), {"units": "1/M"}))
    together["entropy"].attrs["units"] = "nats"
    return trajectory({str(name): together[name] for name in together}, experiment=experiment, steps=steps, start=start)


def _distinct_entropy(model: Bilinear) -> Callable[[dict[str, Tensor]], tuple[tuple[str, ...], Tensor]]:
    """Entropy of c_n on the distinct tokens of class n (eq. 5), averaged over classes."""
    tokens = torch.from_numpy(np.stack(model.task.distinct_tokens))

    def measure(parameters: dict[str, Tensor]) -> tuple[tuple[str, ...], Tensor]:
        distinct = model.attention(parameters)[..., torch.arange(len(tokens))[:, None], tokens]
        return (), entropy(distinct).mean(-1)

    return measure


def _recall(model: Bilinear) -> Callable[[dict[str, Tensor]], tuple[tuple[str, ...], Tensor]]:
    tokens, query = torch.from_numpy(np.stack(model.task.distinct_tokens)), model.query_of[:, None]
    cuts = torch.tensor(THRESHOLDS, dtype=torch.float64) / model.task.vocab

    def measure(parameters: dict[str, Tensor]) -> tuple[tuple[str, ...], Tensor]:
        softmax = torch.softmax(model.attention_logits(parameters).double(), dim=-1)
        values = softmax[..., query, tokens].flatten(-2)
        return ("threshold",), (values.unsqueeze(-2) > cuts[:, None]).double().mean(-1)

    return measure


def recall_area(recall: xr.DataArray) -> xr.DataArray:
    """Area under the recall curve from 1/M upwards; 1/M is the softmax value of every token under even attention."""
    above = recall.sel(threshold=recall["threshold"] >= 1)
    return above.integrate("threshold").assign_attrs(units="1/M")


def _syn_small(figure: str, optimizer: Optimizer, seeds: Seeds, steps: int) -> tuple[xr.Dataset, xr.DataArray]:
    """Syn-Small trained from zero: attention on all context tokens, and on the distinct tokens of each class."""
    task = SequenceClasses.syn_small(length=TRAINING.length)
    model, tokens = Bilinear(task), np.flatnonzero(task.occurs.any(axis=0))
    run = train(
        model,
        task,
        optimizer=optimizer,
        steps=steps,
        batch=TRAINING.batch,
        seeds=seeds,
        record={"attention": lambda p: (("class", "token"), model.attention(p)[..., tokens])},
        save_at=range(steps + 1),
        experiment=f"scan_snap/{figure}",
    ).assign_coords({"class": np.arange(task.classes) + 1, "token": tokens})
    slots = xr.DataArray(np.searchsorted(tokens, np.stack(task.distinct_tokens)), dims=("class", "slot"))
    numbers = xr.DataArray(np.arange(task.classes), dims="class")
    return run, run["attention"].isel({"class": numbers, "token": slots}).drop_vars("token")


_SMALL: dict[str, Any] = {"together": 8, "settings": {"fast": {"seeds": 2, "steps": 20}, "full": {}}}
_MEDIUM: dict[str, Any] = {
    "batched": {"queries": "queries", "seeds": "seed"},
    "together": 8,
    "settings": {"fast": {"seeds": 2, "steps": 20, "queries": (1, 3)}, "full": {}},
}
_BY_RATE = {"eta_y": "eta_y", "seeds": "seed"}

EXPERIMENTS = [
    Experiment(
        "scan_snap/fig4", "Syn-Small with SGD: attention over training, by η_Y.", fig4, batched=_BY_RATE, **_SMALL
    ),
    Experiment(
        "scan_snap/fig5",
        "Syn-Small with Adam: each rate picks other distinct tokens.",
        fig5,
        batched={"seeds": "seed"},
        **_SMALL,
    ),
    Experiment("scan_snap/fig6", "Syn-Medium: entropy of attention, by η_Z and η_Y/η_Z.", fig6, **_MEDIUM),
    Experiment("scan_snap/fig11", "Syn-Medium: recall over the threshold, by η_Y/η_Z.", fig11, **_MEDIUM),
    Experiment("scan_snap/fig12", "Syn-Medium: recall over the threshold, by η_Z.", fig12, **_MEDIUM),
]
