"""Fig 7: stable rank of the lower MLP matrices and entropy of attention over a series of checkpoints.

The paper reads OPT-2.7B and Pythia. Here a small GPT is trained on WikiText-2 and its checkpoints are read.
`foretrain analyze` does the same with public series.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import xarray as xr
from safetensors.torch import load_file
from torch import Tensor

from foretrain.core.streams import torch_stream
from foretrain.core.trajectory import trajectory
from foretrain.language.experiment_cell import MADE_UP, WIKITEXT, Source, text_for, trained
from foretrain.language.models import build
from foretrain.language.setting import LanguageSetting
from foretrain.language.text import TokenText
from foretrain.language.training import evaluate
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, about
from foretrain.measures import stable_rank

Weights = dict[str, Tensor]
WEIGHTS = ("trained", "random walk")
LOWER = "mlp.c_fc"  # from the residual stream to the hidden neurons


def fig7(
    seed: int,
    steps: Annotated[Count, about("Length of training.", unit="steps")] = 20_000,
    layers: Annotated[Count, about("Depth of the model.", unit="layers")] = 6,
    width: Annotated[Count, about("Width of the model; the MLP is four times as wide.")] = 512,
    vocabulary: Annotated[Count, about("Size of the vocabulary of byte pairs.", unit="tokens")] = 8192,
    source: Source = WIKITEXT,
) -> xr.Dataset:
    """Stable rank of the lower MLP matrix, and entropy of attention: [weights, step, layer].

    Steps are log-spaced. `weights` are the trained ones, or a random walk from the same start whose steps are as long
    as those of training.
    """
    setting = LanguageSetting(
        layers=layers, width=width, hidden=4 * width, heads=max(1, width // 32), vocabulary=vocabulary,
        steps=steps, seed=seed,
    )  # fmt: skip
    text = text_for(setting, source=source)
    with tempfile.TemporaryDirectory() as folder:
        run, _ = trained(setting, text, every=10**9, evaluations=1, folder=Path(folder))
        at = [int(checkpoint.name.removeprefix("step-")) for checkpoint in run.checkpoints]
        series = [load_file(checkpoint / "model.safetensors") for checkpoint in run.checkpoints]
    walk = _random_walk(series, seed)
    measured = [[_measured(weights, setting, text) for weights in kind] for kind in (series, walk)]
    ranks, entropies = np.moveaxis(np.array(measured), 2, 0)
    axes = ("weights", "step", "layer")
    return trajectory(
        {"stable_rank": (axes, ranks), "entropy": (axes, entropies)},
        {"weights": list(WEIGHTS), "step": at, "layer": np.arange(layers)},
        {"entropy": "nats"},
    )


def _measured(weights: Weights, setting: LanguageSetting, text: TokenText) -> tuple[list[float], list[float]]:
    """Stable rank of the lower MLP matrix of every layer, and entropy of its attention on the validation text."""
    model = build(setting, text.vocabulary)
    model.load_state_dict(weights, strict=False)  # the output layer shares its weights with the embedding
    ranks = [float(stable_rank(W)) for name, W in model.state_dict().items() if f"{LOWER}.weight" in name]
    attention: Any = evaluate(model, text, setting)["attention"]
    return ranks, [float(np.mean(layer["entropy"])) for layer in attention.values()]


def _random_walk(series: Sequence[Weights], seed: int) -> list[Weights]:
    """Weights that move as far as the trained ones from one checkpoint to the next, in random directions."""
    walk = [dict(series[0])]
    for number, (before, now) in enumerate(pairwise(series)):
        moved = {}
        for name, W in now.items():
            noise = torch.randn(W.shape, generator=torch_stream("joma/fig7", seed, name, number))
            moved[name] = walk[-1][name] + noise * (W - before[name]).norm() / noise.norm()
        walk.append(moved)
    return walk


EXPERIMENTS = [
    Experiment(
        "joma/fig7",
        "Stable rank of the lower MLP matrices and entropy of attention over a series of checkpoints",
        fig7,
        axes={"seed": 3},
        settings={
            "fast": {"seeds": 1, "steps": 4, "layers": 1, "width": 32, "vocabulary": 300, "source": MADE_UP},
            "full": {"seeds": 3, "steps": 1000, "layers": 4, "width": 128},
        },
    ),
]  # fmt: skip
