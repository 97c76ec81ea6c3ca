"""Fig 7: stable rank of the lower MLP matrices and entropy of attention over a series of checkpoints.

The paper reads OPT-2.7B and Pythia. Here a small GPT is trained on WikiText-2 and its checkpoints are read.
`foretrain analyze` does the same with public series.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
import xarray as xr
from pydantic import Field
from safetensors.torch import load_file, save_file

from foretrain.core.streams import seed_list, torch_stream
from foretrain.language.cells import MADE_UP, WIKITEXT, Source, as_trajectory, over, text_for, trained
from foretrain.language.setting import LanguageSetting
from foretrain.language.training import LanguageRun
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, Seeds, about
from foretrain.measures import stable_rank

Weights = Literal["trained", "random walk"]
LOWER = "mlp.c_fc"  # from the residual stream to the hidden neurons


def fig7(
    weights: Annotated[
        Sequence[Weights],
        Field(min_length=1),
        about("The checkpoints, or a random walk from the first one with steps of the same size."),
    ] = ("trained",),
    seeds: Seeds = 3,
    steps: Annotated[Count, about("Length of training.", unit="steps")] = 20_000,
    layers: Annotated[Count, about("Depth of the model.", unit="layers")] = 6,
    width: Annotated[Count, about("Width of the model; the MLP is four times as wide.")] = 512,
    vocabulary: Annotated[Count, about("Size of the vocabulary of byte pairs.", unit="tokens")] = 8192,
    source: Source = WIKITEXT,
) -> xr.Dataset:
    """Stable rank of the lower MLP matrix of every layer at log-spaced steps: [weights, seed, step, layer]."""

    def cell(kind: Weights, seed: int) -> xr.Dataset:
        setting = LanguageSetting(
            layers=layers, width=width, hidden=4 * width, heads=max(1, width // 32), vocabulary=vocabulary,
            steps=steps, seed=seed,
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            run, _ = trained(
                setting, text_for(setting, source=source), every=10**9, evaluations=1, folder=folder / "run"
            )
            series = _random_walk(run, folder / "walk") if kind == "random walk" else run.folder / "checkpoints"
            names = [checkpoint.name for checkpoint in run.checkpoints]
            ranks = [_lower_ranks(series / name) for name in names]
        at = [int(name.removeprefix("step-")) for name in names]
        coordinates = {"step": at, "layer": np.arange(layers)}
        return xr.Dataset({"stable_rank": (("step", "layer"), ranks)}, coordinates)

    runs = over(cell, weights=weights, seed=seed_list(seeds))
    return as_trajectory(runs, {})


def _lower_ranks(checkpoint: Path) -> list[float]:
    """Stable rank of the lower MLP matrix of every layer, as `foretrain analyze` gives it too."""
    tensors = load_file(checkpoint / "model.safetensors")
    return [float(stable_rank(W)) for name, W in tensors.items() if f"{LOWER}.weight" in name]


def _random_walk(run: LanguageRun, folder: Path) -> Path:
    """Checkpoints whose weights move as far as the trained ones from one to the next, in random directions."""
    before: dict[str, torch.Tensor] = {}
    walked: dict[str, torch.Tensor] = {}
    for checkpoint in run.checkpoints:
        now = load_file(checkpoint / "model.safetensors")
        for name, W in now.items():
            if name in before:
                noise = torch.randn(
                    W.shape, generator=torch_stream("joma/fig7", run.setting.seed, name, checkpoint.name)
                )
                walked[name] = walked[name] + noise * (W - before[name]).norm() / noise.norm()
            else:
                walked[name] = W
        before = now
        copy = folder / checkpoint.name
        shutil.copytree(checkpoint, copy)
        save_file(walked, copy / "model.safetensors", metadata={"format": "pt"})
    return folder


EXPERIMENTS = [
    Experiment(
        "joma/fig7",
        "Stable rank of the lower MLP matrices over a series of checkpoints",
        fig7,
        cut={"weights": "weights", "seeds": "seed"},
        settings={
            "fast": {"seeds": 1, "steps": 4, "layers": 1, "width": 32, "vocabulary": 300, "source": MADE_UP},
            "full": {
                "weights": ("trained", "random walk"), "seeds": 2, "steps": 1500, "layers": 4, "width": 128,
            },
        },
    ),
]  # fmt: skip
