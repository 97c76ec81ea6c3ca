"""Fig 7 and 10: attention of encoders trained on WikiText-2 with plain SGD."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float, Int
from torch import Tensor, nn

from foretrain.core.trajectory import trajectory
from foretrain.language.batches import validation_windows
from foretrain.language.experiment_cell import MADE_UP, WIKITEXT, Kind, Source, as_trajectory, text_for, trained
from foretrain.language.models import PostNormEncoder, build
from foretrain.language.setting import LanguageSetting
from foretrain.language.text import TokenText
from foretrain.language.training import train_language_model
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, Positive, about

# The authors' setting, but for `vocabulary`, which is 33 278 there.
ENCODER = LanguageSetting(
    model="post-norm", tokens="words", vocabulary=33_278, layers=1, width=200, heads=1, hidden=200, context=35,
    batch=20, dropout=0.3, order="sequential", optimizer="sgd", rate=5.0, warm_up=0, weight_decay=0.0, clip=0.5,
    steps=58_000,
)  # fmt: skip
Steps = Annotated[Count, about("Length of training.", unit="steps")]
Words = Annotated[Count, about("Most frequent words that are kept.", unit="words")]
Rate = Annotated[Positive, about("SGD's learning rate.")]


def fig7(
    depth: Annotated[Count, about("Depth of the encoder.", unit="layers")],
    rate: Rate,
    seed: int,
    steps: Steps = ENCODER.steps,
    vocabulary: Words = ENCODER.vocabulary,
    marks: Annotated[Count, about("How often the attention is looked at, evenly along training.", unit="times")] = 20,
    source: Source = WIKITEXT,
) -> xr.Dataset:
    """How far the first layer's attention moves between marks, and how sparse it is: [step].

    `movement` is the total variation distance between the attention of a query at this mark and at the one before, on
    validation text, as a mean over queries, per 100 steps.
    """
    setting = replace(ENCODER, layers=depth, rate=rate, seed=seed, vocabulary=vocabulary)
    text = text_for(setting, source=source)
    windows = validation_windows(text.valid, ENCODER.context)[:, :-1]
    at = np.linspace(0, steps, min(marks, steps) + 1).astype(int)
    maps, entropies = [], []
    with tempfile.TemporaryDirectory() as folder:
        for step in at:  # goes on with the same training, to the bit
            until = replace(setting, steps=max(1, int(step)))
            model = build(until, text.vocabulary) if step == 0 else go_on(until, text, Path(folder) / "run")
            maps.append(first_attention(model, windows))
            entropies.append(float(-(maps[-1] * maps[-1].clamp(min=1e-30).log()).sum(-1).mean()))
    moved = [float((new - old).abs().sum(-1).mean() / 2) for old, new in pairwise(maps)]
    per_100 = [np.nan, *(100 * np.array(moved) / np.diff(at))]
    return trajectory(
        {"entropy": ("step", entropies), "movement": ("step", per_100)},
        {"step": at},
        {"entropy": "nats", "movement": "total variation per 100 steps"},
        setting=ENCODER,
    )


def fig10(
    rate: Rate,
    text: Annotated[Kind, about("The text as it is, or its tokens shuffled, which leaves nothing to attend to.")],
    seed: int,
    steps: Steps = ENCODER.steps,
    vocabulary: Words = ENCODER.vocabulary,
    source: Source = WIKITEXT,
) -> xr.Dataset:
    """Entropy of one layer's attention on validation text, before and after training: [step]."""
    setting = replace(ENCODER, rate=rate, seed=seed, steps=steps, vocabulary=vocabulary)
    _, evaluated = trained(setting, text_for(setting, text, source), every=10**9, evaluations=1)
    entropy = evaluated.attention_entropy.mean("head").isel(layer=0, drop=True)
    run = xr.Dataset({"entropy": entropy, "validation_loss": evaluated.loss})
    return as_trajectory(run, {"entropy": "nats", "validation_loss": "nats per token"}, setting=ENCODER)


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
        axes={"depth": (1, 3), "rate": (5.0,), "seed": 3},
        settings={
            "fast": {"depth": (1,), "seeds": 1, "steps": 8, "vocabulary": 60, "marks": 4, "source": MADE_UP},
            "full": {"rate": (0.05, 5.0), "seeds": 2, "steps": 2500, "vocabulary": 4096},
        },
    ),
    Experiment(
        "scan_snap/fig10",
        "Entropy of attention after training on WikiText-2 with SGD at several rates",
        fig10,
        axes={"rate": (0.5, 1, 2, 5, 10), "text": ("real",), "seed": 5},
        settings={
            "fast": {"rate": (1.0, 5.0), "seeds": 1, "steps": 8, "vocabulary": 60, "source": MADE_UP},
            "full": {"rate": (0.5, 1.5, 5.0), "steps": 1000, "vocabulary": 4096},
        },
    ),
]
