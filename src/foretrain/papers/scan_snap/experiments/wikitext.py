"""Fig 7 and 10: attention of encoders trained on WikiText-2 with plain SGD."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from foretrain.core.streams import seed_list
from foretrain.language.batches import validation_windows
from foretrain.language.experiment_cell import MADE_UP, WIKITEXT, Kind, Source, as_trajectory, over, text_for, trained
from foretrain.language.models import PostNormEncoder, build
from foretrain.language.setting import LanguageSetting
from foretrain.language.text import TokenText
from foretrain.language.training import train_language_model
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, Positive, Seeds, about

# The authors' setting, but for `vocabulary`, which is 33 278 there.
ENCODER = LanguageSetting(
    model="post-norm", tokens="words", vocabulary=33_278, layers=1, width=200, heads=1, hidden=200, context=35,
    batch=20, dropout=0.3, order="sequential", optimizer="sgd", rate=5.0, warm_up=0, weight_decay=0.0, clip=0.5,
    steps=58_000,
)  # fmt: skip
Steps = Annotated[Count, about("Length of training.", unit="steps")]
Words = Annotated[Count, about("Most frequent words that are kept.", unit="words")]
Texts = Annotated[
    Sequence[Kind],
    Field(min_length=1),
    about("The text as it is, or its tokens shuffled, which leaves nothing to attend to."),
]


def fig7(
    layers: Annotated[Sequence[Count], Field(min_length=1), about("Depths of the encoder.", unit="layers")] = (1, 3),
    rates: Annotated[Sequence[Positive], Field(min_length=1), about("SGD's learning rates.")] = (5.0,),
    seeds: Seeds = 3,
    steps: Steps = ENCODER.steps,
    vocabulary: Words = ENCODER.vocabulary,
    marks: Annotated[Count, about("How often the attention is looked at, evenly along training.", unit="times")] = 20,
    source: Source = WIKITEXT,
) -> xr.Dataset:
    """How far the first layer's attention moves between marks, and how sparse it is: [depth, rate, seed, step].

    `movement` is the total variation distance between the attention of a query at this mark and at the one before, on
    validation text, as a mean over queries, per 100 steps.
    """
    if marks > steps:
        marks = steps

    def cell(depth: int, rate: float, seed: int) -> xr.Dataset:
        own = {**ENCODER.as_dict(), "layers": depth, "rate": rate, "seed": seed, "vocabulary": vocabulary}
        text = text_for(LanguageSetting(**own), source=source)
        windows = validation_windows(text.valid, ENCODER.context)[:, :-1]
        at = np.linspace(0, steps, marks + 1).astype(int)
        maps, entropies = [], []
        with tempfile.TemporaryDirectory() as folder:
            for step in at:  # goes on with the same training, to the bit
                setting = LanguageSetting(**{**own, "steps": max(1, int(step))})
                model = build(setting, text.vocabulary) if step == 0 else go_on(setting, text, Path(folder) / "run")
                maps.append(first_attention(model, windows))
                entropies.append(float(-(maps[-1] * maps[-1].clamp(min=1e-30).log()).sum(-1).mean()))
        moved = [float((new - old).abs().sum(-1).mean() / 2) for old, new in pairwise(maps)]
        per_100 = [np.nan, *(100 * np.array(moved) / np.diff(at))]
        return xr.Dataset({"entropy": ("step", entropies), "movement": ("step", per_100)}, {"step": at})

    runs = over(cell, depth=layers, rate=rates, seed=seed_list(seeds))
    units = {"entropy": "nats", "movement": "total variation per 100 steps"}
    return as_trajectory(runs, units, setting=ENCODER)


def fig10(
    rates: Annotated[Sequence[Positive], Field(min_length=1), about("SGD's learning rates.")] = (0.5, 1, 2, 5, 10),
    texts: Texts = ("real",),
    seeds: Seeds = 5,
    steps: Steps = ENCODER.steps,
    vocabulary: Words = ENCODER.vocabulary,
    source: Source = WIKITEXT,
) -> xr.Dataset:
    """Entropy of one layer's attention on validation text, before and after training: [rate, text, seed, step]."""

    def cell(rate: float, kind: Kind, seed: int) -> xr.Dataset:
        more = {"rate": rate, "seed": seed, "steps": steps, "vocabulary": vocabulary}
        setting = LanguageSetting(**{**ENCODER.as_dict(), **more})
        _, evaluated = trained(setting, text_for(setting, kind, source), every=10**9, evaluations=1)
        entropy = evaluated.attention_entropy.mean("head").isel(layer=0, drop=True)
        return xr.Dataset({"entropy": entropy, "validation_loss": evaluated.loss})

    runs = over(cell, rate=rates, text=texts, seed=seed_list(seeds))
    return as_trajectory(runs, {"entropy": "nats", "validation_loss": "nats per token"}, setting=ENCODER)


def go_on(setting: LanguageSetting, text: TokenText, folder: Path) -> nn.Module:
    """The model after the next stretch of its training."""
    return train_language_model(setting, text, folder, every=10**9, evaluations=1, checkpoints=False).model


@torch.no_grad()
def first_attention(model: nn.Module, windows: Int[Tensor, "window token"]) -> Float[Tensor, "window head q k"]:
    """The attention weights of the first layer."""
    assert isinstance(model, PostNormEncoder)
    model.eval()
    x = model.embedded(windows)
    attention: Any = model.layers[0].attention
    q, k, _ = (part.unflatten(-1, (attention.heads, -1)).transpose(1, 2) for part in attention.qkv(x).chunk(3, dim=-1))
    logits = q @ k.mT / q.shape[-1] ** 0.5
    later = torch.full(logits.shape[-2:], -torch.inf).triu(1)
    return (logits + later).softmax(-1)


EXPERIMENTS = [
    Experiment(
        "scan_snap/fig7",
        "How the first layer's attention moves while encoders are trained on WikiText-2 with SGD",
        fig7,
        batched={"layers": "depth", "rates": "rate", "seeds": "seed"},
        settings={
            "fast": {"layers": (1,), "seeds": 1, "steps": 8, "vocabulary": 60, "marks": 4, "source": MADE_UP},
            "full": {"rates": (0.05, 5.0), "seeds": 2, "steps": 2500, "vocabulary": 4096},
        },
    ),
    Experiment(
        "scan_snap/fig10",
        "Entropy of attention after training on WikiText-2 with SGD at several rates",
        fig10,
        batched={"rates": "rate", "texts": "text", "seeds": "seed"},
        settings={
            "fast": {"rates": (1.0, 5.0), "seeds": 1, "steps": 8, "vocabulary": 60, "source": MADE_UP},
            "full": {"rates": (0.5, 1.5, 5.0), "steps": 1000, "vocabulary": 4096},
        },
    ),
]
