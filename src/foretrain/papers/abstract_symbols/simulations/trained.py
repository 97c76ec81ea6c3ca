"""How every network of this paper is trained: a cell is one task, architecture and n, and a grid has many cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import xarray as xr

from foretrain.core.errors import require, require_known, require_whole
from foretrain.core.streams import seed_list, stream
from foretrain.data import template_examples
from foretrain.data.template_files import read_task
from foretrain.data.template_task import TemplateTask
from foretrain.dynamics.protocols import OutputModel
from foretrain.dynamics.validated import Schedule, best_rate, train_validated
from foretrain.kernels.sample_need import sample_need
from foretrain.models.sequence_baselines import KINDS, BaselineRuns
from foretrain.models.stacked.transformer_runs import LastLayerRuns, TransformerRuns
from foretrain.models.transformer import TransformerShape
from foretrain.papers.abstract_symbols.experiments.parameters import MOST_SAMPLES
from foretrain.papers.abstract_symbols.setting import SETTINGS, TrainingSetting

VANILLA, WITH_A, WITH_B, WITH_AB = "transformer", "transformer + aI", "transformer + bI", "transformer + aI + bI"
TRANSFORMERS = (VANILLA, WITH_A, WITH_B, WITH_AB)
ARCHITECTURES = (*TRANSFORMERS, *KINDS)
RATES = (1e-5, 1e-4, 1e-3, 1e-2)
TASKS: dict[str, Callable[[], TemplateTask]] = {
    **{name: make for name, make in template_examples.NAMED.items() if name not in ("majority", "majority_token")},
    **{f"majority_{length}": partial(template_examples.majority, length) for length in range(2, 11)},
    "majority_token_3": partial(template_examples.majority_token, 3),
}
MOST_PARAMETERS = 200_000_000  # of one network: memory holds five copies of them
SCALARS = (
    "test_loss", "test_accuracy", "train_loss", "final_train_loss", "validation_loss", "epoch", "epochs_done",
    "diverged_at",
)  # fmt: skip


def task_called(name: str) -> tuple[TemplateTask, int | None]:
    """A task by name or from a TOML file, and the size of the alphabet if the file gives one."""
    if name.endswith(".toml"):
        file = read_task(name)
        return file.task, file.alphabet
    require_known("task", name, TASKS, "; a file of your own ends in .toml")
    return TASKS[name](), None


def setting_called(name: str, **changes: Any) -> TrainingSetting:
    """A setting by name, with some of its fields changed; None leaves a field as it is."""
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
) -> OutputModel:
    """A network for tasks with n training tokens; `options` are those of `TransformerShape`, and `last_layer`.

    It has embeddings for at least `regular_tokens` regular tokens. Tasks that are drawn at random need not use all of
    them, and the initial weights of one seed must not depend on the tasks of the others.
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
        # Embeddings start as N(0, 1), so unscaled scores would start between √d and d, where cross-entropy hardly moves
        # them. If the answer is the last symbol, the residual stream holds it there before any training: read at CLS.
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
        f"This network has {count:,} parameters, of at most {MOST_PARAMETERS:,}; set a smaller n, embedding, heads "
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
    **options: Any,
) -> xr.Dataset:
    """Networks trained on n samples, one for each rate and seed, with their loss curves.

    The data of a seed is the same for every architecture and rate. A run stops when its validation loss reaches
    `good_enough`, or has not improved for `patience` epochs.
    """
    s = setting or TrainingSetting()
    require_whole("n", n, 1)
    require(n <= MOST_SAMPLES, f"n must be at most {MOST_SAMPLES:,}; got {n:,}.")
    listed = seed_list(seeds)
    alphabet: int | None = None
    if isinstance(task, str):
        one, alphabet = task_called(task)
        tasks = (one,) * len(listed)
    else:
        tasks = task
    most = max(one_task.wildcard_count for one_task in tasks)
    require(
        alphabet is not None or n >= most,
        f"n must be at least {most}, so that its n training tokens fill the wildcards of {tasks[0].name}; got {n}.",
    )
    size = n if alphabet is None else alphabet
    splits = [
        one_task.split(
            n,
            stream("abstract_symbols/train", seed, one_task.name, n),
            alphabet=size,
            held_out=s.held_out,
            held_out_alphabet=s.held_out,
        )
        for seed, one_task in zip(listed, tasks, strict=True)
    ]
    runs = train_validated(
        network(tasks, architecture, size, s, **options),
        splits,
        rates=rates or (s.learning_rate,),
        schedule=Schedule(s.epochs, s.batch, patience, good_enough),
        seeds=listed,
        experiment=f"abstract_symbols/{tasks[0].name}/{n}",
    )
    last = runs.train_curve.isel(epoch_done=-1, drop=True)  # `train_loss` is that of the chosen epoch
    runs = runs.assign(final_train_loss=last)
    return runs.assign_attrs(setting_attrs(s, rates, patience), task=tasks[0].name, architecture=architecture, n=n)


def setting_attrs(s: TrainingSetting, rates: Sequence[float] = (), patience: int | None = None) -> dict[str, Any]:
    """Attributes that describe the networks of a trajectory; a grid keeps those that all its cells share."""
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
    """`cell` without its curves, trained once per process however the arguments are written.

    Figures and claims share these runs.
    """
    s = setting or TrainingSetting()
    network_arguments: dict[str, Any] = {
        "seeds": tuple(seed_list(seeds)),
        "setting": s,
        "rates": tuple(rates) or (s.learning_rate,),
    }
    if isinstance(task, str) and task.endswith(".toml"):  # the file may change between calls
        return cell(task, architecture, good_enough=good_enough, **network_arguments, **others)[list(SCALARS)]
    return _kept(task, architecture, tuple(sorted({**network_arguments, "good_enough": good_enough, **others}.items())))


def at_best_rate(task: Task, architecture: str = VANILLA, **arguments: Any) -> xr.Dataset:
    """`summary` at the rate with the lowest validation loss, which becomes a variable."""
    return best_rate(summary(task, architecture, **arguments))


def at_its_rate(task: Task, architecture: str = VANILLA, **arguments: Any) -> xr.Dataset:
    """`summary` at the rate of the setting, without an axis for the rate."""
    return summary(task, architecture, **arguments).isel(rate=0, drop=True)


def n_needed(curves: xr.Dataset, loss: float = 0.1) -> xr.DataArray:
    """The number of samples from which on the test loss stays below `loss`, see `sample_need`: the median over seeds.

    It is the median because some tasks are learned at once or not at all; for an even number of seeds it is the
    geometric mean of the two in the middle.
    """
    require(loss > 0, f"loss must be above 0; got {loss}.")
    require("n" in curves.test_loss.dims, "n_needed takes a trajectory over n; this one has no such axis.")

    def one(losses: np.ndarray) -> float:
        return sample_need(curves.n.values, losses, loss)

    needs = xr.apply_ufunc(one, curves.test_loss, input_core_dims=[["n"]], vectorize=True).rename("n_needed")
    if "seed" not in needs.dims:
        return needs
    lower, higher = (needs.quantile(0.5, "seed", method=side).drop_vars("quantile") for side in ("lower", "higher"))
    return np.sqrt(lower * higher)
