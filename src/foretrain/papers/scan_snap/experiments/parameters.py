"""What the experiments of Scan and Snap take: the type, range, unit and meaning of every parameter they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from foretrain.ledger.parameters import Count, Positive, WholeNumber, about

OptimizerName = Literal["adam", "sgd"]

SeveralRates = Annotated[Sequence[Positive], Field(min_length=1)]  # each value once: the axis refuses a repeated one

DecoderRates = Annotated[SeveralRates, about("Learning rates η_Y of the decoder, each once.")]
AttentionRates = Annotated[SeveralRates, about("Learning rates η_Z of the attention logits, each once.")]
AttentionRate = Annotated[Positive, about("Learning rate η_Z of the attention logits.")]
Ratios = Annotated[SeveralRates, about("Ratios η_Y/η_Z of the two learning rates, each once.")]
Ratio = Annotated[Positive, about("Ratio η_Y/η_Z of the two learning rates.")]

Vocab = Annotated[
    int,
    Field(ge=4, le=10**9),  # below 4 there is no snap: Lemma 8 has no zeros
    about("Size M of the vocabulary.", unit="tokens"),
]
Classes = Annotated[int, Field(ge=2, le=10**9), about("Number K of sequence classes.")]
Common = Annotated[
    float,
    Field(gt=0, lt=1),
    about("Probability of the common token in every class; two distinct tokens have .7 and .3 of the rest."),
]
Until = Annotated[
    Positive, about("Time at which the curves end.", unit="steps of one sample, or of a batch whose loss is averaged")
]

Queries = Annotated[
    Sequence[Count],
    Field(min_length=1),
    about("Numbers of query tokens; each query has two next tokens.", unit="tokens"),
]
TrainingSteps = Annotated[WholeNumber, about("Length of training.", unit="steps")]
