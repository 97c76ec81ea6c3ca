"""Fig 10: pattern superposition, on a model that is made to have it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foretrain.language.neurons import study_neurons

TOKENS, CLUES = 60, 50  # tokens below CLUES are fillers


class Block(nn.Module):
    """Every query attends to clue tokens alone. Neuron k fires for its (query, clue) combinations."""

    def __init__(self, neurons: list[list[tuple[int, int]]]) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.zeros(len(neurons), 2, TOKENS))
        self.clues = nn.Parameter(torch.zeros(len(neurons), 2, TOKENS))
        for k, combinations in enumerate(neurons):
            for slot, (query, clue) in enumerate(combinations):
                self.queries.data[k, slot, query] = self.clues.data[k, slot, clue] = 1.0
        self.down = nn.Linear(len(neurons), TOKENS)

    def forward(self, x: Tensor) -> Tensor:
        likes = 12.0 * (torch.arange(TOKENS) >= CLUES).float()
        keys = (x @ likes)[:, None, :, None]  # [window, head, key, 1]
        mixed = F.scaled_dot_product_attention(torch.ones_like(keys), keys, x[:, None], is_causal=True, scale=1.0)[:, 0]
        # JoMA, eq. 60 and below: w = v₁ − ξu₁ + v₂ − ξu₂; the bias lets a pattern match only with its own query.
        matches = torch.einsum("kst,wnt->wnks", self.queries, x) + torch.einsum("kst,wnt->wnks", self.clues, mixed)
        return x + self.down(F.relu(matches - 1.0).sum(-1))


class Planted(nn.Module):
    """One block on one-hot tokens."""

    def __init__(self, neurons: list[list[tuple[int, int]]]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(neurons)])

    def forward(self, tokens: Tensor) -> Tensor:
        return self.blocks[0](F.one_hot(tokens, TOKENS).float())


@pytest.fixture
def windows() -> np.ndarray:
    """Random tokens; one in sixteen is a clue."""
    random = np.random.default_rng(0)
    tokens = random.integers(0, CLUES // 5, (1200, 24))
    clues = random.integers(CLUES, TOKENS, tokens.shape)
    return np.where(random.random(tokens.shape) < 1 / 16, clues, tokens)


def test_fig10_neurons_with_two_templates_are_told_from_those_with_one(windows: np.ndarray) -> None:
    one, two = [(3, 51)], [(3, 51), (7, 56)]
    (layer,) = study_neurons(Planted([one, two, [(5, 52)], [(1, 59), (2, 53)]]), windows).layers
    assert [each.count for each in layer.groupings] == [1, 2, 1, 2]
    assert [each.superposed for each in layer.groupings] == [False, True, False, True]
    assert layer.superposed_by_chance < 0.03


def test_fig10_needs_unrelated_combinations_not_only_unrelated_tokens(windows: np.ndarray) -> None:
    """A neuron that fires for two tokens, whatever they attend to, has two groups but no pattern."""
    model = Planted([[(3, 51), (7, 56)]])
    model.blocks[0].queries.data *= 3.0  # type: ignore[union-attr, operator]
    model.blocks[0].clues.data.zero_()  # type: ignore[union-attr, operator]
    (layer,) = study_neurons(model, windows).layers
    assert layer.grouped == 1.0
    assert layer.superposed == 0.0
