"""Pattern superposition (JoMA, Fig 10): do neurons of an MLP fire for several unrelated combinations of tokens?

`study_neurons` takes any decoder, sorts the contexts that make each neuron fire most into patterns, and counts neurons
with two or more. `foretrain.language.patterns` defines what a pattern is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from numpy import ndarray
from torch import nn

from foretrain.core.errors import require
from foretrain.core.streams import stream
from foretrain.language.mlp_layers import chosen_layers, mlp_layers
from foretrain.language.neuron_contexts import FIRST, LayerContexts, read_contexts
from foretrain.language.patterns import Grouping, Positions, Scale, grouping, same_tokens_elsewhere, scale_of
from foretrain.language.token_vectors import token_vectors

WINDOWS = 2048  # of the text, at most, unless more are asked for
LEAST_WINDOWS = 80


@dataclass(frozen=True)
class LayerStudy:
    """The neurons of one layer, each with its contexts sorted into patterns."""

    contexts: LayerContexts
    scale: Scale
    groupings: list[Grouping]  # of every neuron
    shuffled: list[Grouping]  # the control: each context is replaced by a random position with the same token

    @property
    def superposed(self) -> float:
        """The share of neurons that fire for two or more unrelated patterns."""
        return float(np.mean([each.superposed for each in self.groupings]))

    @property
    def superposed_by_chance(self) -> float:
        """The same for the control: the same tokens, but anywhere in the text, attending to whatever is there."""
        return float(np.mean([each.superposed for each in self.shuffled]))

    @property
    def grouped(self) -> float:
        """The share of neurons that fire for two or more unrelated groups of tokens, whatever these attend to."""
        return float(np.mean([each.groups.max(initial=-1) > 0 for each in self.groupings]))

    @property
    def with_pattern(self) -> float:
        """The share of neurons with at least one pattern."""
        return float(np.mean([each.count > 0 for each in self.groupings]))

    @property
    def scores(self) -> np.ndarray:
        return np.array([each.score for each in self.groupings])


@dataclass(frozen=True)
class NeuronStudy:
    """What the neurons of a model fire for on a text."""

    windows: Int[ndarray, "window token"]
    layers: list[LayerStudy]

    @property
    def neurons(self) -> int:
        return sum(len(layer.groupings) for layer in self.layers)

    @property
    def superposed(self) -> float:
        """The share of all neurons that fire for two or more unrelated patterns."""
        return sum(layer.superposed * len(layer.groupings) for layer in self.layers) / self.neurons


def study_neurons(
    model: nn.Module,
    windows: Int[ndarray, "window token"],
    *,
    layers: Sequence[int] | None = None,
    contexts: int | None = None,
    seed: int = 1,
) -> NeuronStudy:
    """Sort what makes each neuron fire into patterns, for every neuron of these layers (from 0 at the bottom).

    Windows are token numbers; `cut_windows` makes them from a text. A neuron fires where its activation is large and
    above 0. Each window counts once, at the neuron's best position there, so that one passage is not counted often.
    A neuron has `contexts` contexts, by default one for every 16 windows, from 10 to 64. With more text and more
    contexts more patterns stand out from chance: the share of superposed neurons is a lower bound.
    """
    contexts = min(64, max(10, len(windows) // 16)) if contexts is None else contexts
    require(contexts >= 4, f"contexts must be at least 4; got {contexts}.")
    vectors = token_vectors(windows, int(windows.max()) + 1)
    chosen = chosen_layers(mlp_layers(model), layers)
    read = read_contexts(model, torch.from_numpy(windows), chosen, torch.from_numpy(vectors), contexts=contexts)
    return NeuronStudy(windows, [_study(each, windows, vectors, contexts, seed) for each in read])


def cut_windows(tokens: Int[ndarray, "length"], context: int, most: int = WINDOWS) -> Int[ndarray, "window token"]:
    """Windows of `context` tokens that do not overlap; if there are more than `most`, some, evenly spaced."""
    count = len(tokens) // context
    require(
        count >= LEAST_WINDOWS,
        f"The text has {len(tokens):,} tokens, but {LEAST_WINDOWS} windows of {context} tokens need "
        f"{LEAST_WINDOWS * context:,}; give more text or a smaller context.",
    )
    chosen = np.linspace(0, count - 1, min(most, count)).astype(np.int64)
    return tokens[: count * context].reshape(count, context)[chosen]


def _study(read: LayerContexts, windows: np.ndarray, vectors: np.ndarray, contexts: int, seed: int) -> LayerStudy:
    random = stream("language/neurons", seed, read.layer.index)
    tokens, mixtures = windows[:, FIRST:], read.mixtures[:, FIRST:]
    positions = Positions.of(tokens.ravel(), vectors[tokens.ravel()], mixtures.reshape(tokens.size, -1))
    scale = scale_of(positions, contexts, random)
    places = read.windows * tokens.shape[1] + read.positions - FIRST
    chosen = [of_neuron[values > 0] for of_neuron, values in zip(places, read.values, strict=True)]
    elsewhere = [same_tokens_elsewhere(positions, of_neuron, 1, random)[0] for of_neuron in chosen]
    groupings, shuffled = (
        [grouping(positions, of_neuron, scale, random) for of_neuron in some] for some in (chosen, elsewhere)
    )
    return LayerStudy(read, scale, groupings, shuffled)
