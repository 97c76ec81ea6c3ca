"""Section 4: the stable rank of the lower MLP matrix along training, in one layer and in a small transformer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, get_args

import torch
import xarray as xr
from torch import Tensor

from foretrain.core.streams import seed_list
from foretrain.core.trajectory import trajectory
from foretrain.dynamics.optimizers import Adam
from foretrain.dynamics.train import train
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, Seeds, about
from foretrain.measures import stable_rank
from foretrain.models.causal_transformer import CausalTransformer
from foretrain.papers.joma.experiments.layer import even_times, train_layer
from foretrain.papers.joma.experiments.parameters import Activation, Activations, ClassKind
from foretrain.papers.joma.experiments.table1 import BATCH, VOCAB, SetUnionTask
from foretrain.papers.joma.setting import LayerTraining, RankTransformer, Table1Data

LAYER = LayerTraining(temperature=1.0, rate=0.4, steps=6000)  # longer than Fig 2, at the theorems' temperature
TRANSFORMER = RankTransformer()
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)


def layer_rank(
    activations: Sequence[Activation] = ACTIVATIONS,
    kind: ClassKind = "smooth",
    seeds: Sequence[int] = range(1, 9),
    steps: int = LAYER.steps,
) -> xr.Dataset:
    """Stable rank of W in the layer of Fig 2: [activation, time, seed]."""
    setting = LayerTraining(temperature=LAYER.temperature, rate=LAYER.rate, steps=steps)
    times = even_times(steps, 61)
    runs = [train_layer(kind, activation, setting, tuple(seeds), times)[2]["W"] for activation in activations]
    return trajectory(
        {"stable_rank": (("activation", "time", "seed"), torch.stack([stable_rank(W) for W in runs]).numpy())},
        {"activation": list(activations), "time": list(times), "seed": list(seeds)},
        setting=setting,
        kind=kind,
    )


def transformer_rank(
    activations: Sequence[Activation] = ACTIVATIONS,
    seeds: Sequence[int] = range(1, 9),
    steps: int = TRANSFORMER.steps,
    configuration: str = TRANSFORMER.configuration,
) -> xr.Dataset:
    """Stable rank of the lower MLP matrix in every layer of a transformer, trained on the data of Table 1."""
    setting = RankTransformer(steps=steps, configuration=configuration)
    data = Table1Data.named(setting.configuration)

    def ranks(parameters: Mapping[str, Tensor]) -> tuple[tuple[str, ...], Tensor]:
        parts = [stable_rank(parameters[f"lower_{layer}"]) for layer in range(setting.layers)]
        return ("layer",), torch.stack(parts, dim=-1)

    runs = []
    for activation in activations:
        model = CausalTransformer(
            vocab=VOCAB,
            classes=data.classes,
            layers=setting.layers,
            width=setting.width,
            hidden=setting.hidden,
            activation=activation,
            lower_start=setting.lower_start,
        )
        run = train(
            model,
            SetUnionTask(data),
            optimizer=Adam(setting.rate),
            steps=steps,
            batch=BATCH,
            seeds=seeds,
            seeds_at_once=len(seeds),
            record={"stable_rank": ranks},
            save_at=even_times(steps, 31),
            experiment="joma/rank",
        )
        runs.append(run[["stable_rank"]])
    joined = xr.concat(runs, xr.IndexVariable("activation", list(activations)))
    return joined.assign_coords(layer=range(setting.layers))


def rank(
    activations: Activations = ACTIVATIONS,
    seeds: Seeds = 8,
    steps: Annotated[Count, about("Length of training of the single layer.", unit="steps")] = LAYER.steps,
    transformer_steps: Annotated[
        Count, about("Length of training of the transformer.", unit="steps")
    ] = TRANSFORMER.steps,
) -> xr.Dataset:
    """Section 4: `stable_rank` of the layer, and `transformer_rank` with its own `transformer_time`."""
    numbers = seed_list(seeds)
    layer = layer_rank(activations, seeds=numbers, steps=steps)
    transformer = transformer_rank(activations, numbers, transformer_steps)["stable_rank"]
    result = layer.assign(transformer_rank=transformer.rename(time="transformer_time"))
    for axis in ("time", "transformer_time"):
        result[axis].attrs["units"] = "steps"
    return result


EXPERIMENTS = [
    Experiment(
        "joma/rank",
        "Stable rank of the lower MLP matrix along training, in one layer and in a small transformer",
        rank,
        batched={"activations": "activation"},
        settings={"fast": {"steps": 100, "transformer_steps": 10, "seeds": 2}, "full": {}},
    )
]
