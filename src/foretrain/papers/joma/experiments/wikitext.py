"""Fig 6 and 8: the entropy of attention while a post-LN encoder is trained on WikiText-2 with Adam."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import xarray as xr

from foretrain.language.experiment_cell import (
    MADE_UP,
    WIKITEXT,
    Kind,
    Source,
    as_trajectory,
    text_for,
    trained,
    with_room,
)
from foretrain.language.setting import LanguageSetting
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, Positive, about

# The authors' setting, but for `vocabulary`, which is 33 278 there. They make Adam anew every epoch; here it goes on.
ENCODER = LanguageSetting(
    model="post-norm", tokens="words", vocabulary=33_278, layers=1, width=200, heads=1, hidden=200, context=35,
    batch=20, dropout=0.2, order="sequential", optimizer="adam", rate=1e-4, warm_up=0, weight_decay=0.0, clip=0.5,
    steps=58_000,
)  # fmt: skip


def fig8(
    depth: Annotated[Count, about("Depth of the encoder.", unit="layers")],
    rate: Annotated[Positive, about("Adam's learning rate.")],
    text: Annotated[Kind, about("The text as it is, or its tokens shuffled, which leaves nothing to attend to.")],
    seed: int,
    steps: Annotated[Count, about("Length of training.", unit="steps")] = ENCODER.steps,
    vocabulary: Annotated[Count, about("Most frequent words that are kept.", unit="words")] = ENCODER.vocabulary,
    evaluations: Annotated[Count, about("How often the validation text is read.", unit="times")] = 58,
    deepest: Annotated[Count, about("Room for layers in the result.", unit="layers")] = 3,
    source: Source = WIKITEXT,
) -> xr.Dataset:
    """Entropy of attention on the validation text, and its loss: [step, layer].

    Entropy is the mean over query positions and heads, in nats. Layers are numbered from the bottom.
    """
    base = replace(ENCODER, steps=steps, vocabulary=vocabulary)
    setting = replace(base, layers=depth, rate=rate, seed=seed)
    _, evaluated = trained(setting, text_for(setting, text, source), every=steps, evaluations=evaluations)
    entropy = evaluated.attention_entropy.mean("head").drop_vars("head", errors="ignore")
    run = with_room(xr.Dataset({"entropy": entropy, "validation_loss": evaluated.loss}), deepest)
    return as_trajectory(run, {"entropy": "nats", "validation_loss": "nats per token"}, setting=base)


EXPERIMENTS = [
    Experiment(
        "joma/fig8",
        "Entropy of attention and validation loss of encoders trained on WikiText-2 at several rates (also Fig 6)",
        fig8,
        axes={"depth": (1, 3), "rate": (1e-6, 1e-5, 1e-4, 1e-3, 1e-2), "text": ("real",), "seed": 3},
        settings={
            "fast": {
                "depth": (1,),
                "rate": (1e-3,),
                "seeds": 1,
                "steps": 20,
                "vocabulary": 60,
                "evaluations": 4,
                "source": MADE_UP,
            },
            "full": {"rate": (1e-4, 1e-3, 1e-2), "seeds": 2, "steps": 4000, "vocabulary": 4096, "evaluations": 40},
        },
    )
]
