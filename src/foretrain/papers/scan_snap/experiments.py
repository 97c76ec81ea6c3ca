"""One function per figure of Scan and Snap; each returns a trajectory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from foretrain.data import SequenceClasses
from foretrain.dynamics import SGD, Adam, train
from foretrain.dynamics.optimizers import Optimizer
from foretrain.errors import require, require_at_least, require_known, require_positive
from foretrain.experiment import Experiment
from foretrain.measures import entropy
from foretrain.models import Bilinear
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.setting import ETA_Z, QUERIES, RATIO, TRAINING, TRANSITION
from foretrain.trajectory import trajectory

Seeds = int | Sequence[int]
THRESHOLDS = tuple(np.linspace(0, 4, 41))  # of the recall curves, in units of 1/M


def fig3(
    eta_y: Sequence[float] = (0.1, 0.2, 0.5, 1.0, 2.0),
    eta_z: float = TRANSITION.eta_z,
    vocab: int = TRANSITION.vocab,
    classes: int = TRANSITION.classes,
    c0: float = TRANSITION.c0,
    until: float = 4000.0,
) -> xr.Dataset:
    """Fig 3: the growth factor χ of a distinct token at fixed η_Z, by η_Y, with the time t0 of the snap.

    χ is the upper bound e^{2B} of eq. 12, which a token reaches that holds all of its class's attention.
    """
    require_positive("until", until)
    rates, time = _rates("eta_y", eta_y), _axis("time", np.linspace(0, until, 401))
    grown = theory.attention_growth(
        time.values, eta_y=rates.values[:, None], eta_z=eta_z, vocab=vocab, classes=classes, c0=c0
    )
    return trajectory(
        {
            "growth": (("eta_y", "time"), grown),
            "growth_factor": (("eta_y", "time"), np.exp(2 * grown)),
            "snap_time": ("eta_y", theory.snap_time(eta_y=rates.values, vocab=vocab, classes=classes)),
        },
        {"eta_y": rates, "time": time},
        {"time": "steps", "snap_time": "steps"},
        experiment="scan_snap/fig3", eta_z=eta_z, vocab=vocab, classes=classes, c0=c0,
    )  # fmt: skip


def fig9(
    eta_z: Sequence[float] = (0.1, 0.2, 0.5, 1.0, 2.0),
    ratio: float = 1.0,
    vocab: int = TRANSITION.vocab,
    classes: int = TRANSITION.classes,
    c0: float = TRANSITION.c0,
    until: float = 4000.0,
) -> xr.Dataset:
    """Fig 9: B_n by η_Z at fixed ratio η_Y/η_Z, and its value at the snap, which is the same for all."""
    require_positive("until", until)
    require_positive("ratio", ratio)
    rates, time = _rates("eta_z", eta_z), _axis("time", np.linspace(0, until, 401))
    snap = theory.snap_time(eta_y=ratio * rates.values, vocab=vocab, classes=classes)

    def growth(t: np.ndarray) -> np.ndarray:
        z = rates.values[:, None]
        return theory.attention_growth(t, eta_y=ratio * z, eta_z=z, vocab=vocab, classes=classes, c0=c0)

    return trajectory(
        {
            "growth": (("eta_z", "time"), growth(time.values)),
            "snap_time": ("eta_z", snap),
            "growth_at_snap": ("eta_z", growth(snap[:, None])[:, 0]),
        },
        {"eta_z": rates, "time": time},
        {"time": "steps", "snap_time": "steps"},
        experiment="scan_snap/fig9", ratio=ratio, vocab=vocab, classes=classes, c0=c0,
    )  # fmt: skip


def fig8(eta_y: Sequence[float] = (0.1, 0.5, 1.0, 5.0), vocab: int = TRANSITION.vocab, steps: int = 400) -> xr.Dataset:
    """Fig 8: the decoder growth per step, h*, and in continuous time, h, with the gap between them."""
    require_at_least("steps", steps, 1)
    rates, time = _rates("eta_y", eta_y), np.arange(steps + 1)
    discrete = np.stack([theory.decoder_growth_discrete(steps, eta_y=rate, vocab=vocab) for rate in rates.values])
    continuous = theory.decoder_growth(time, eta_y=rates.values[:, None], vocab=vocab)
    axes = ("eta_y", "time")
    return trajectory(
        {"h_discrete": (axes, discrete), "h": (axes, continuous), "gap": (axes, discrete - continuous)},
        {"eta_y": rates, "time": time},
        {"time": "steps"},
        experiment="scan_snap/fig8", vocab=vocab,
    )  # fmt: skip


def fig4(
    eta_y: Sequence[float] = (1.0, 10.0), eta_z: float = 1.0, seeds: Seeds = 10, steps: int = TRAINING.steps
) -> xr.Dataset:
    """Fig 4: Syn-Small with SGD: attention on every token over training, by η_Y.

    mass, top and entropy tell what c_n does on the distinct tokens of class n: their sum, the largest of them, and
    the entropy of their shares.
    """
    optimizer = SGD({"Y": _rates("eta_y", eta_y), "Z": eta_z}, momentum=TRAINING.momentum)
    run, own = _syn_small("fig4", optimizer, seeds, steps)
    entropies = (own.dims[:-1], entropy(own.values), {"units": "nats"})
    return run.assign(mass=own.sum("slot", skipna=False), top=own.max("slot", skipna=False), entropy=entropies)


def fig5(
    rate: Sequence[float] = (0.1, 0.5, 1.0),
    optimizer: str = "adam",
    seeds: Seeds = 10,
    steps: int = TRAINING.steps,
    chosen: int = 3,
) -> xr.Dataset:
    """Fig 5: Syn-Small with η_Y = η_Z: which distinct tokens get most attention, and do the rates agree on them.

    `overlap` is the share of the `chosen` top tokens that two rates have in common, run by run (the rates share
    their data).
    """
    require_known("optimizer", optimizer, ("adam", "sgd"))
    require(1 <= chosen <= 10, f"chosen must be between 1 and 10, the distinct tokens of a class; got {chosen}.")
    rates = _rates("rate", rate)
    require(len(rates) >= 2, f"rate must name at least two rates to compare; got {rates.values.tolist()}.")
    method = Adam(rates) if optimizer == "adam" else SGD(rates, momentum=TRAINING.momentum)
    run, own = _syn_small("fig5", method, seeds, steps)
    last = own.isel(time=-1)
    place = (-last.values).argsort(axis=-1).argsort(axis=-1)  # 0 for the token with most attention
    top = last.copy(data=place < chosen)
    pairs = list(combinations(range(len(rates)), 2))
    shared = np.stack([(top.values[i] & top.values[j]).sum(axis=-1) / chosen for i, j in pairs])
    lost = np.isnan(last.values).any(axis=-1)
    shared = np.where(np.stack([lost[i] | lost[j] for i, j in pairs]), np.nan, shared)
    names = [f"{rates.values[i]:g} and {rates.values[j]:g}" for i, j in pairs]
    return run.assign(overlap=(("pair", *top.dims[1:-1]), shared)).assign_coords(pair=names)


def fig6(
    queries: Sequence[int] = QUERIES,
    eta_z: Sequence[float] = ETA_Z,
    ratio: Sequence[float] = RATIO,
    seeds: Seeds = 10,
    steps: int = TRAINING.steps,
) -> xr.Dataset:
    """Fig 6: Syn-Medium: entropy of attention on the distinct tokens, by η_Z and η_Y/η_Z."""
    run = syn_medium(queries, eta_z, ratio, seeds, steps, experiment="scan_snap/fig6")
    return run.drop_vars(["recall", "threshold"])


def fig11(
    queries: Sequence[int] = QUERIES,
    ratio: Sequence[float] = RATIO,
    eta_z: float = 1.0,
    seeds: Seeds = 10,
    steps: int = TRAINING.steps,
) -> xr.Dataset:
    """Fig 11: recall of the distinct tokens over the threshold on attention, by η_Y/η_Z."""
    run = (
        syn_medium(queries, [eta_z], ratio, seeds, steps, experiment="scan_snap/fig11")
        .isel(eta_z=0)
        .drop_vars("entropy")
    )
    return run.assign(area=recall_area(run["recall"]))


def fig12(
    queries: Sequence[int] = QUERIES,
    eta_z: Sequence[float] = ETA_Z,
    ratio: float = 2.0,
    seeds: Seeds = 10,
    steps: int = TRAINING.steps,
) -> xr.Dataset:
    """Fig 12: recall of the distinct tokens over the threshold on attention, by η_Z."""
    run = (
        syn_medium(queries, eta_z, [ratio], seeds, steps, experiment="scan_snap/fig12")
        .isel(ratio=0)
        .drop_vars("entropy")
    )
    return run.assign(area=recall_area(run["recall"]))


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
    """Syn-Medium trained for every cell: what Fig 6, 11 and 12 are drawn from.

    entropy  of c_n on the distinct tokens of class n, scaled to sum 1; mean over classes
    recall   share of distinct tokens whose softmax value (of their query's row of Z) exceeds `threshold`/M
    """
    require(len(queries) >= 1, "queries must name at least one number of query tokens; got none.")
    rates_z, ratios = _rates("eta_z", eta_z), _rates("ratio", ratio)
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
        own = model.attention(parameters)[..., torch.arange(len(tokens))[:, None], tokens]
        return (), entropy(own).mean(-1)

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
    """Area under the recall curve from 1/M on, the softmax value of a token that is treated like any other."""
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


def _rates(name: str, values: Sequence[float] | np.ndarray) -> xr.DataArray:
    """A sweep axis of learning rates, or of their ratios."""
    axis = _axis(name, values)
    for value in axis.values:
        require_positive(name, float(value))
    return axis


def _axis(name: str, values: Sequence[float] | np.ndarray) -> xr.DataArray:
    """A sweep axis: its values are its coordinate."""
    array = np.asarray(values, dtype=np.float64)
    require(array.ndim == 1 and array.size >= 1, f"{name} must be a list of numbers; got {values!r}.")
    require(len(set(array.tolist())) == array.size, f"{name} must not name a value twice; got {array.tolist()}.")
    return xr.DataArray(array, dims=name, coords={name: array}, name=name)


_FEW = {"seeds": 2, "steps": 20}
_FEWER = {**_FEW, "queries": (1, 3)}
_RUNS = ("queries", "seeds")

EXPERIMENTS = [
    Experiment("scan_snap/fig3", "Growth factor of a distinct token over time, by η_Y at fixed η_Z.", fig3, ("eta_y",)),
    Experiment(
        "scan_snap/fig4", "Syn-Small with SGD: attention over training, by η_Y.", fig4, ("eta_y", "seeds"), _FEW
    ),
    Experiment("scan_snap/fig5", "Syn-Small with Adam: each rate picks other distinct tokens.", fig5, ("seeds",), _FEW),
    Experiment("scan_snap/fig6", "Syn-Medium: entropy of attention, by η_Z and η_Y/η_Z.", fig6, _RUNS, _FEWER),
    Experiment("scan_snap/fig8", "Decoder growth per step and in continuous time, by η_Y.", fig8, ("eta_y",)),
    Experiment("scan_snap/fig9", "B_n over time, by η_Z at fixed η_Y/η_Z.", fig9, ("eta_z",)),
    Experiment("scan_snap/fig11", "Syn-Medium: recall over the threshold, by η_Y/η_Z.", fig11, _RUNS, _FEWER),
    Experiment("scan_snap/fig12", "Syn-Medium: recall over the threshold, by η_Z.", fig12, _RUNS, _FEWER),
]
