"""Neurons as people look at them: their patterns, each with a short label and with contexts as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from foretrain.language.neurons import LayerStudy, NeuronStudy

EXAMPLES = 4  # contexts to show for each pattern
BEFORE, AFTER = 48, 4  # tokens that are shown around the one that fires


@dataclass(frozen=True)
class Piece:
    """A token of a context: its text, the attention to it, and whether it fires."""

    text: str
    weight: float
    fires: bool


@dataclass(frozen=True)
class ShownPattern:
    """A pattern of a neuron: how many contexts it has, what it is in a few tokens, and some of its contexts."""

    contexts: int
    label: str
    examples: list[list[Piece]]


@dataclass(frozen=True)
class ShownNeuron:
    """A neuron with its patterns."""

    layer: int
    index: int
    score: float
    contexts: int
    patterns: list[ShownPattern]


def shown_neurons(study: NeuronStudy, pieces: Mapping[int, str], *, most: int) -> list[ShownNeuron]:
    """The neurons of all layers with the highest scores, best first; only those with two or more patterns.

    `pieces` has the text of each token.
    """
    ranked = [
        (-score, number, index)
        for number, layer in enumerate(study.layers)
        for index, score in enumerate(layer.scores)
        if score > 0
    ]
    counts = np.bincount(study.windows.ravel())
    surprise = np.log(study.windows.size / np.maximum(counts, 1))
    writers = [_Writer(layer, study.windows, pieces, surprise) for layer in study.layers]
    return [writers[number].neuron(index) for _, number, index in sorted(ranked)[:most]]


@dataclass(frozen=True)
class _Writer:
    """Writes contexts of one layer as text."""

    layer: LayerStudy
    windows: np.ndarray
    pieces: Mapping[int, str]
    surprise: np.ndarray  # by token, in nats: attention to frequent tokens says little

    def neuron(self, index: int) -> ShownNeuron:
        read, groups = self.layer.contexts, self.layer.groupings[index]
        firing = read.values[index] > 0
        places = np.stack([read.windows[index][firing], read.positions[index][firing]], axis=1)
        members = [places[groups.patterns == number].tolist() for number in range(groups.count)]
        shown = [
            ShownPattern(len(each), self.label(each), [self.context(*place) for place in each[:EXAMPLES]])
            for each in members
        ]
        return ShownNeuron(read.layer.index, index, groups.score, len(places), shown)

    def label(self, places: list[list[int]]) -> str:
        """The tokens that fire most often, and those that they attend to most, as in "am ← c, S"."""
        firing, attended = np.zeros(len(self.surprise)), np.zeros(len(self.surprise))
        for window, position in places:
            firing[self.windows[window, position]] += 1
            tokens = self.windows[window, self.layer.contexts.attended[window, position]]
            np.add.at(attended, tokens, self.layer.contexts.weights[window, position] * self.surprise[tokens])
        return f"{self.largest(firing, 2)} ← {self.largest(attended, 3)}"

    def largest(self, amounts: np.ndarray, most: int) -> str:
        order = np.argsort(-amounts, kind="stable")[:most]
        texts = [self.pieces[int(token)] for token in order if amounts[token] > 0]
        return ", ".join(text.strip() or repr(text) for text in texts)

    def context(self, window: int, position: int) -> list[Piece]:
        read = self.layer.contexts
        attended, weights = read.attended[window, position].tolist(), read.weights[window, position].tolist()
        amount = dict(zip(attended, weights, strict=True))
        around = range(max(0, position - BEFORE), min(self.windows.shape[1], position + AFTER + 1))
        texts = [self.pieces[int(self.windows[window, place])] for place in around]
        return [
            Piece(text, amount.get(place, 0.0), place == position) for text, place in zip(texts, around, strict=True)
        ]
