"""Fig 10: MLP neurons that fire for several unrelated combinations of tokens, in a small GPT trained on WikiText-2."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.language.experiment_cell import MADE_UP, WIKITEXT, Kind, Source, text_for, trained
from foretrain.language.models import build
from foretrain.language.neurons import cut_windows, study_neurons
from foretrain.language.setting import LanguageSetting
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, about

Model = Literal["trained", "untrained"]
Tokens = Literal["byte pairs", "words"]
# The paper looks at Pythia-70M and Pythia-160M, trained for 143 000 steps on 300 billion tokens; this is a small GPT.
GPT = LanguageSetting(layers=4, context=128, batch=20, steps=10_000, schedule="cosine")
VARIABLES = ("superposed", "superposed_by_chance", "grouped", "with_pattern", "score")


def fig10(
    model: Annotated[Model, about("The model after training, or as it starts, with random weights.")],
    text: Annotated[Kind, about("The text as it is, or its tokens shuffled, which leaves no combinations to learn.")],
    seed: int,
    steps: Annotated[Count, about("Length of training.", unit="steps")] = GPT.steps,
    layers: Annotated[Count, about("Depth of the model.", unit="layers")] = GPT.layers,
    width: Annotated[Count, about("Width of the model; it has four times as many neurons per layer.")] = GPT.width,
    source: Source = WIKITEXT,
    tokens: Annotated[Tokens, about("How the text is cut into tokens.")] = "byte pairs",
    vocabulary: Annotated[Count, about("Different tokens.", unit="tokens")] = GPT.vocabulary,
    context: Annotated[Count, about("Length of a window.", unit="tokens")] = GPT.context,
    windows: Annotated[Count, about("Windows that are searched for what makes neurons fire.")] = 16_384,
) -> xr.Dataset:
    """Shares of neurons [layer]; layers are numbered from the bottom.

    superposed             two or more unrelated patterns
    superposed_by_chance   the same after each context is replaced by a random position with the same token
    grouped                two or more unrelated groups of tokens, whatever they attend to
    with_pattern           one pattern or more
    score                  mean chance that two contexts of a neuron belong to different patterns
    """
    base = replace(
        GPT, steps=steps, layers=layers, width=width, hidden=4 * width, tokens=tokens, vocabulary=vocabulary,
        context=context,
    )  # fmt: skip
    setting = replace(base, seed=seed)
    read = text_for(setting, text, source)
    untrained = model == "untrained"
    studied = (
        build(setting, read.vocabulary) if untrained else trained(setting, read, every=steps, evaluations=1)[0].model
    )
    study = study_neurons(studied, cut_windows(read.train, context, windows), seed=seed)
    shares = [
        [each.superposed, each.superposed_by_chance, each.grouped, each.with_pattern, each.scores.mean()]
        for each in study.layers
    ]
    return trajectory(
        {name: ("layer", values) for name, values in zip(VARIABLES, np.transpose(shares), strict=True)},
        {"layer": np.arange(layers)},
        dict.fromkeys(VARIABLES[:-1], "share of neurons"),
        setting=base,
    )


def _conclusion(data: xr.Dataset) -> str:
    means = data["superposed"].mean(("seed", "layer"))
    shares = [
        f"{100 * float(means.sel(model=model, text=text)):.1f} % ({model}, {text} text)"
        for model in data["model"].values
        for text in data["text"].values
    ]
    return f"Neurons that fire for two or more unrelated patterns: {', '.join(shares)}."


EXPERIMENTS = [
    Experiment(
        "joma/fig10",
        "Pattern superposition: neurons of a small GPT that fire for several unrelated combinations of tokens",
        fig10,
        axes={"model": ("trained", "untrained"), "text": ("real", "shuffled"), "seed": 3},
        settings={
            "fast": {
                "seeds": 1, "steps": 10, "layers": 1, "width": 16, "source": MADE_UP, "tokens": "words",
                "vocabulary": 50, "context": 32, "windows": 160,
            },
            "full": {
                "seeds": 2, "steps": 700, "layers": 2, "width": 128, "source": WIKITEXT, "tokens": "byte pairs",
                "vocabulary": 2048, "context": 64, "windows": 4096,
            },
        },
        concludes=_conclusion,
    ),
]  # fmt: skip
