"""Predicted scores of further texts, and the training rows that each of them comes from.

The score of a text x is Σ_i Θ(x, x_i)·a_i over the training rows, where a_i is what row i has pulled during the flow
(its residuals, added up over time). So every score is a sum of one contribution per training row, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray as Array
from scipy.special import expit, softmax

from foretrain.core.progress import Progress, tell
from foretrain.data.tokens import TokenTexts
from foretrain.forecast.corpora.baselines import guesses
from foretrain.forecast.corpora.scores import Architecture, Setup, TrainingSet, set_up

DRIVERS = 3  # training rows named for each score


@dataclass(frozen=True)
class Answered:
    """What one architecture will say about further texts."""

    setup: Setup
    pulls: Float[Array, "row output"]
    logits: Float[Array, "text output"]  # two classes have one output: above 0 is for the second class

    @property
    def guesses(self) -> Int[Array, "text"]:
        return guesses(self.logits)

    @property
    def probabilities(self) -> Float[Array, "text class"]:
        if self.logits.shape[1] == 1:
            second = expit(self.logits[:, 0])
            return np.column_stack([1 - second, second])
        return np.asarray(softmax(self.logits, axis=1))

    def contributions(self, text: int) -> Float[Array, "row output"]:
        """What every training row adds to the score of a text; they sum to the score. Rows are `setup.chosen`."""
        return self.setup.between(text)[:, None] * self.pulls

    def drivers(self, text: int, output: int, count: int = DRIVERS) -> list[tuple[int, float]]:
        """The training rows that add most to the score of one output, for or against, with their contribution."""
        shares = self.contributions(text)[:, output]
        order = np.argsort(-np.abs(shares), kind="stable")[:count]
        return [(int(self.setup.chosen[k]), float(shares[k])) for k in order]


def answers(
    kinds: Mapping[str, Architecture], training: TrainingSet, further: TokenTexts, times: Mapping[str, float]
) -> dict[str, Answered]:
    """What each architecture will say about further texts once it has been trained for its time."""
    result = {}
    for done, (name, kind) in enumerate(kinds.items()):
        tell(Progress(done, len(kinds), f"test rows, {name}", inner=True))
        setup = set_up(kind, training, further)
        pulls = setup.pulls_after(training, times[name])
        result[name] = Answered(setup, pulls, setup.cross(pulls))
    return result


def records(
    result: Mapping[str, Answered], labels: Int[Array, "text"] | None, classes: Sequence[str]
) -> list[dict[str, Any]]:
    """One record per text: the guess and score of every architecture, whether it is an error, and what drives it."""
    first = next(iter(result.values()))
    listed = []
    for row in range(len(first.logits)):
        by_network = {}
        for name, answered in result.items():
            guess = int(answered.guesses[row])
            output = guess if answered.logits.shape[1] > 1 else 0
            by_network[name] = {
                "guess": classes[guess],
                "probability": float(answered.probabilities[row, guess]),
                "score": float(answered.logits[row, output]),
                "drivers": [{"row": k, "adds": value} for k, value in answered.drivers(row, output)],
            }
        record: dict[str, Any] = {"row": row, "networks": by_network}
        if labels is not None:
            record["label"] = classes[labels[row]]
            record["errors"] = [name for name, said in by_network.items() if said["guess"] != record["label"]]
        listed.append(record)
    return listed
