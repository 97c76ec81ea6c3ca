"""The one way in which every trained network of this paper is made: a cell (task, architecture, n), a grid of cells."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import xarray as xr

from foretrain.core.errors import require, require_known, require_whole
from foretrain.core.streams import seed_list, stream
from foretrain.data import template_tasks
from foretrain.data.template_files import read_task
from foretrain.data.templates import TemplateTask
from foretrain.dynamics.run_samples import RunsModel
from foretrain.dynamics.validated import Progress, Schedule, best_rate, train_validated
from foretrain.models.sequence_baselines import KINDS, BaselineRuns
from foretrain.models.stacked.transformer_runs import LastLayerRuns, TransformerRuns
from foretrain.models.transformer import TransformerShape
from foretrain.papers.abstract_symbols.setting import SETTINGS, TrainingSetting

VANILLA, WITH_A, WITH_B, WITH_AB = "transformer", "transformer + aI", "transformer + bI", "transformer + aI + bI"
TRANSFORMERS = (VANILLA, WITH_A, WITH_B, WITH_AB)
ARCHITECTURES = (*TRANSFORMERS, *KINDS)
RATES = (1e-5, 1e-4, 1e-3, 1e-2)
TASKS: dict[str, Callable[[], TemplateTask]] = {
    **{name: make for name, make in template_tasks.NAMED.items() if name not in ("majority", "majority_token")},
    **{f"majority_{length}": partial(template_tasks.majority, length) for length in range(2, 11)},
    "majority_token_3": partial(template_tasks.majority_token, 3),
}
MOST_SAMPLES, MOST_PARAMETERS = 1_000_000, 200_000_000  # which memory holds, with five copies of parameters
SCALARS = ("test_loss", "test_accuracy", "train_loss", "validation_loss", "epoch", "epochs_done", "diverged_at")


def task_called(name: str) -> tuple[TemplateTask, int | None]:
    """A task by name, or from the TOML file at that path, with the alphabet the file asks for."""
    if name.endswith(".toml"):
        file = read_task(name)
        return file.task, file.alphabet
    require_known("task", name, TASKS, "; a file of your own ends in .toml")
    return TASKS[name](), None


def setting_called(name: str, **changes: Any) -> TrainingSetting:
    require_known("setting", name, SETTINGS)
    return replace(SETTINGS[name], **{key: value for key, value in changes.items() if value is not None})


def network(
    tasks: Sequence[TemplateTask],
    architecture: str,
    n: int,
    s: TrainingSetting,
    *,
    regular_tokens: int = 0,
    **options: Any,
) -> RunsModel:
    """A network for tasks with n training tokens; `options` are those of `TransformerShape`, and `last_layer`.

    There is room for so many `regular_tokens` at least: where tasks are drawn not each of them has all, and what a seed
    begins with must not depend on the other seeds.
    """
    require_known("architecture", architecture, ARCHITECTURES)
    require_whole("embedding", s.embedding, 1)
    task = tasks[0]
    regular, wild = max(len(one.vocabulary) for one in tasks), max(one.wildcard_count for one in tasks)
    tokens = max(regular, regular_tokens) + 2 * max(s.held_out, wild) + n
    if architecture in KINDS:
        require(task.kind == "regression", f"{architecture} answers with a number; {task.name} asks for a token.")
        baseline = BaselineRuns(architecture, tokens=tokens, length=task.length, embedding=s.embedding, hidden=s.mlp)
        _require_fewer_parameters(baseline.parameters)
        return baseline
    if task.kind == "next-token":
        # Embeddings begin at N(0, 1): without the scale scores begin at √d to d, and cross-entropy hardly moves them.
        # Where the answer is the last symbol itself, the residual stream holds it there before any training.
        last = (
            "cls"
            if all(t.symbols[-1] == label for t, label in zip(task.templates, task.labels, strict=True))
            else "last"
        )
        options = {"output": "token", "tied": True, "readout": last, "score_scale": s.embedding**-0.5, **options}
    last_layer = options.pop("last_layer", False)
    shape = TransformerShape(
        tokens=tokens,
        length=task.length,
        depth=s.depth,
        heads=s.heads,
        embedding=s.embedding,
        head=s.head,
        **{
            "mlp": s.mlp,
            "scaling_multiplier": s.scaling_multiplier,
            "attention_multiplier": s.attention_multiplier,
            "identity_kq": architecture in (WITH_A, WITH_AB),
            "identity_vo": architecture in (WITH_B, WITH_AB),
            **options,
        },
    )
    _require_fewer_parameters(shape.parameters)
    return LastLayerRuns(shape) if last_layer else TransformerRuns(shape)


def _require_fewer_parameters(count: int) -> None:
    require(
        count <= MOST_PARAMETERS,
        f"Such a network has {count:,} parameters, of at most {MOST_PARAMETERS:,}; set a smaller n, embedding, heads "
        "or depth.",
    )


Task = str | tuple[TemplateTask, ...]  # a name, the path of a TOML file, or one task per seed


def cell(
    task: Task,
    architecture: str = VANILLA,
    *,
    n: int,
    seeds: int | Sequence[int] = 5,
    setting: TrainingSetting | None = None,
    rates: Sequence[float] = (),
    good_enough: float = 0.0,
    patience: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> xr.Dataset:
    """Networks trained on n samples at every rate, over (rate, seed), with their curves.

    The data of a seed is the same for every architecture and rate. A run is done when its validation loss is
    `good_enough`, or has not become better for `patience` epochs.
    """
    s = setting or TrainingSetting()
    require_whole("n", n, 1)
    require(n <= MOST_SAMPLES, f"n must be at most {MOST_SAMPLES:,}; got {n:,}.")
    listed = seed_list(seeds)
    alphabet: int | None = None
    if isinstance(task, str):
        one, alphabet = task_called(task)
        made = (one,) * len(listed)
    else:
        made = task
    most = max(own.wildcard_count for own in made)
    require(
        alphabet is not None or n >= most,
        f"n must be at least {most}, so that its n training tokens fill the wildcards of {made[0].name}; got {n}.",
    )
    size = n if alphabet is None else alphabet
    splits = [
        own.split(
            n,
            stream("abstract_symbols/train", seed, own.name, n),
            alphabet=size,
            held_out=s.held_out,
            held_out_alphabet=s.held_out,
        )
        for seed, own in zip(listed, made, strict=True)
    ]
    found = train_validated(
        network(made, architecture, size, s, **options),
        splits,
        rates=rates or (s.learning_rate,),
        schedule=Schedule(s.epochs, s.batch, patience, good_enough),
        seeds=listed,
        experiment=f"abstract_symbols/{made[0].name}/{n}",
        progress=progress,
    )
    return found.assign_attrs(setting_attrs(s, rates, patience), task=made[0].name, architecture=architecture, n=n)


def setting_attrs(s: TrainingSetting, rates: Sequence[float] = (), patience: int | None = None) -> dict[str, Any]:
    """What a trajectory says of its networks; a grid keeps what all its cells have in common."""
    sizes = {name: value for name, value in asdict(s).items() if name != "learning_rate"}
    ended = {} if patience is None else {"patience": patience}
    return {**sizes, "rates": ", ".join(f"{rate:g}" for rate in rates or (s.learning_rate,)), **ended}


@lru_cache(maxsize=512)
def _kept(task: Task, architecture: str, frozen: tuple[tuple[str, Any], ...]) -> xr.Dataset:
    return cell(task, architecture, **dict(frozen))[list(SCALARS)]


def summary(
    task: Task,
    architecture: str = VANILLA,
    *,
    seeds: int | Sequence[int] = 5,
    setting: TrainingSetting | None = None,
    rates: Sequence[float] = (),
    good_enough: float = 0.0,
    **others: Any,
) -> xr.Dataset:
    """`cell` without its curves, computed once per process, however it is asked for: figures and claims share runs."""
    s = setting or TrainingSetting()
    same: dict[str, Any] = {"seeds": tuple(seed_list(seeds)), "setting": s, "rates": tuple(rates) or (s.learning_rate,)}
    if isinstance(task, str) and task.endswith(".toml"):  # what the file says may change
        return cell(task, architecture, good_enough=good_enough, **same, **others)[list(SCALARS)]
    return _kept(task, architecture, tuple(sorted({**same, "good_enough": good_enough, **others}.items())))


def at_best_rate(task: Task, architecture: str = VANILLA, **arguments: Any) -> xr.Dataset:
    """`summary` at the rate of least validation loss, which becomes a variable."""
    return best_rate(summary(task, architecture, **arguments))


def at_its_rate(task: Task, architecture: str = VANILLA, **arguments: Any) -> xr.Dataset:
    """`summary` at the one rate of the setting, which then is no axis."""
    return summary(task, architecture, **arguments).isel(rate=0, drop=True)


def grid(axes: Mapping[str, Sequence[Any]], make: Callable[..., xr.Dataset]) -> xr.Dataset:
    """`make(axis=value, …)` at every point of the axes, as one trajectory."""
    for axis, values in axes.items():
        require(len(values) >= 1, f"{axis} must have at least one value; got none.")
    parts = []
    for values in itertools.product(*axes.values()):
        point = dict(zip(axes, values, strict=True))
        parts.append(make(**point).expand_dims({axis: [value] for axis, value in point.items()}))
    whole = xr.combine_by_coords(parts, combine_attrs="drop_conflicts")
    assert isinstance(whole, xr.Dataset)
    return whole.sel({axis: list(values) for axis, values in axes.items()})


def n_needed(found: xr.Dataset, loss: float = 0.1) -> xr.DataArray:
    """The samples from which on the test loss stays below `loss`: the median over seeds, for every other axis.

    Between two sizes of the grid it is interpolated in log n and log loss, where a loss below a tenth of `loss` counts
    as that tenth: how far below says little about where between them it fell. Infinite where the last size does not
    reach `loss`, and the first size where all do. A run that diverged has not learned. The median, because some tasks
    are learned at once or not at all; of an even number of seeds it is the geometric mean of the two in the middle.
    """
    require(loss > 0, f"loss must be above 0; got {loss}.")
    require("n" in found.test_loss.dims, "n_needed takes a trajectory over n; this one has no such axis.")
    losses = found.test_loss.fillna(np.inf)
    sizes = np.asarray(found.n.values, dtype=np.float64)

    def one(curve: np.ndarray) -> float:
        above = np.flatnonzero(~(curve < loss))
        if len(above) == 0:
            return float(sizes[0])
        last = int(above[-1])
        if last == len(sizes) - 1:
            return float("inf")
        high, low = np.log(np.maximum(curve[last : last + 2], loss / 10))
        share = (high - np.log(loss)) / (high - low) if np.isfinite(high) else 1.0
        return float(np.exp(np.log(sizes[last]) + share * np.log(sizes[last + 1] / sizes[last])))

    needs = xr.apply_ufunc(one, losses, input_core_dims=[["n"]], vectorize=True).rename("n_needed")
    if "seed" not in needs.dims:
        return needs
    lower, higher = (needs.quantile(0.5, "seed", method=side).drop_vars("quantile") for side in ("lower", "higher"))
    return np.sqrt(lower * higher)
