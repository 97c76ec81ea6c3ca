"""Fig 6 and 8: the entropy of attention while a post-LN encoder is trained on WikiText-2 with Adam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import xarray as xr
from pydantic import Field

from foretrain.core.streams import seed_list
from foretrain.language.experiment_cell import (
    MADE_UP,
    WIKITEXT,
    Kind,
    Source,
    as_trajectory,
    over,
    text_for,
    trained,
    with_room,
)
from foretrain.language.setting import LanguageSetting
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, Positive, Seeds, about

# The authors' setting, but for `vocabulary`, which is 33 278 there. They make Adam anew every epoch; here it goes on.
ENCODER = LanguageSetting(
    model="post-norm", tokens="words", vocabulary=33_278, layers=1, width=200, heads=1, hidden=200, context=35,
    batch=20, dropout=0.2, order="sequential", optimizer="adam", rate=1e-4, warm_up=0, weight_decay=0.0, clip=0.5,
    steps=58_000,
)  # fmt: skip
RATES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
TEXTS: tuple[Kind, ...] = ("real",)


def fig8(
    layers: Annotated[Sequence[Count], Field(min_length=1), about("Depths of the encoder.", unit="layers")] = (1, 3),
    rates: Annotated[Sequence[Positive], Field(min_length=1), about("Adam's learning rates.")] = RATES,
    texts: Annotated[
        Sequence[Kind],
        Field(min_length=1),
        about("The text as it is, or its tokens shuffled, which leaves nothing to attend to."),
    ] = TEXTS,
    seeds: Seeds = 3,
    steps: Annotated[Count, about("Length of training.", unit="steps")] = ENCODER.steps,
    vocabulary: Annotated[Count, about("Most frequent words that are kept.", unit="words")] = ENCODER.vocabulary,
    evaluations: Annotated[Count, about("How often the validation text is read.", unit="times")] = 58,
    deepest: Annotated[Count, about("Room for layers in the result.", unit="layers")] = 3,
    source: Source = WIKITEXT,
) -> xr.Dataset:
    """Entropy of attention on the validation text, and its loss: [depth, rate, text, seed, step, layer].

    Entropy is the mean over query positions and heads, in nats. Layers are numbered from the bottom.
    """
    setting = LanguageSetting(**{**ENCODER.as_dict(), "steps": steps, "vocabulary": vocabulary})

    def cell(depth: int, rate: float, text: Kind, seed: int) -> xr.Dataset:
        own = LanguageSetting(**{**setting.as_dict(), "layers": depth, "rate": rate, "seed": seed})
        _, evaluated = trained(own, text_for(own, text, source), every=steps, evaluations=evaluations)
        entropy = evaluated.attention_entropy.mean("head").drop_vars("head", errors="ignore")
        return with_room(xr.Dataset({"entropy": entropy, "validation_loss": evaluated.loss}), deepest)

    runs = over(cell, depth=layers, rate=rates, text=texts, seed=seed_list(seeds))
    return as_trajectory(runs, {"entropy": "nats", "validation_loss": "nats per token"}, setting=setting)


EXPERIMENTS = [
    Experiment(
        "joma/fig8",
        "Entropy of attention and validation loss of encoders trained on WikiText-2 at several rates (also Fig 6)",
        fig8,
        batched={"layers": "depth", "rates": "rate", "texts": "text", "seeds": "seed"},
        settings={
            "fast": {
                "layers": (1,),
                "rates": (1e-3,),
                "seeds": 1,
                "steps": 20,
                "vocabulary": 60,
                "evaluations": 4,
                "source": MADE_UP,
            },
            "full": {
                "rates": (1e-4, 1e-3, 1e-2),
                "seeds": 2,
                "steps": 4000,
                "vocabulary": 4096,
                "evaluations": 40,
            },
        },
    ),
]
