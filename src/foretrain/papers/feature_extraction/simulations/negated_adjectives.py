"""What NOT does to adjectives in networks trained on labelled texts: does it raise "bad" and lower "good"?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
import xarray as xr
from jaxtyping import Int
from numpy import ndarray as Array

from foretrain.core.looping import over
from foretrain.core.streams import seed_list, stream
from foretrain.data.negation import Negation
from foretrain.data.tokens import TokenTexts
from foretrain.dynamics.epochs import train_epochs
from foretrain.dynamics.optimizers import Adagrad
from foretrain.kernels.tangent import Scales
from foretrain.models.text_networks import network as text_network
from foretrain.papers.feature_extraction.experiments.label_scores import read_corpus
from foretrain.papers.feature_extraction.setting import TRAINING

POLARITIES = ("negative", "positive")
NEGATIVE = (
    "bad", "dull", "boring", "stupid", "awful", "terrible", "weak", "silly", "flat", "pointless", "tedious",
    "predictable", "annoying", "mediocre", "unfunny", "worst", "lame", "bland", "empty", "thin", "ridiculous",
    "pretentious", "shallow", "clumsy", "contrived",
)  # fmt: skip
POSITIVE = (
    "good", "great", "funny", "best", "entertaining", "beautiful", "powerful", "moving", "smart", "charming",
    "fascinating", "compelling", "brilliant", "touching", "enjoyable", "engaging", "delightful", "witty", "fresh",
    "perfect", "wonderful", "clever", "heartwarming", "gorgeous", "solid",
)  # fmt: skip
NEUTRAL = ("is", "a", "very", "so")  # what a negated adjective is compared with
LEAST = 5  # occurrences of an adjective that counts
NEGATED = 0.3  # share of the made-up texts with NOT that are kept, so that adjectives have a polarity of their own


@dataclass(frozen=True)
class Phrases:
    """Training texts with labels, and the tokens that are asked about."""

    texts: TokenTexts
    labels: Int[Array, "text"]
    modifiers: dict[str, int]
    neutral: tuple[int, ...]
    adjectives: dict[str, tuple[int, ...]]  # by polarity


@cache
def read_phrases(corpus: str, texts: int | None = None, shuffled: bool = False) -> Phrases:
    """A real corpus of films, or made-up texts in which NOT flips the adjective after it."""
    if corpus == "made_up":
        phrases = _made_up(texts or 2000)
    else:
        read = read_corpus(corpus, texts=texts)
        number = {word: k for k, word in enumerate(read.words)}
        often = read.occurrences >= LEAST
        phrases = Phrases(
            read.train,
            read.labels,
            {word: number[word] for word in ("not", *NEUTRAL)},
            tuple(number[word] for word in NEUTRAL),
            {
                polarity: tuple(number[w] for w in listed if w in number and often[number[w]])
                for polarity, listed in zip(POLARITIES, (NEGATIVE, POSITIVE), strict=True)
            },
        )
    if not shuffled:
        return phrases
    labels = stream("feature_extraction/negated_adjectives", corpus).permutation(phrases.labels)
    return Phrases(phrases.texts, labels, phrases.modifiers, phrases.neutral, phrases.adjectives)


def _made_up(texts: int) -> Phrases:
    """Texts of the negation task, most of those with NOT left out."""
    task, draw = Negation(), stream("feature_extraction/negated_adjectives", "made_up")
    drawn, labels = task.sample(texts, draw)
    has_not = (drawn.flat.reshape(-1, task.length) == 0).any(axis=1)
    kept = np.flatnonzero(~has_not | (draw.random(texts) < NEGATED))
    first = 2 + np.arange(2 * task.adjectives)
    return Phrases(
        drawn.select(kept),
        labels[kept],
        {"not": 0, "very": 1},
        (1,),
        {"negative": tuple(first[task.adjectives :].tolist()), "positive": tuple(first[: task.adjectives].tolist())},
    )


def negation_gains(
    corpus: str,
    texts: int | None,
    networks: Sequence[str],
    epochs: int,
    seeds: int,
    modifier: str = "not",
    shuffled: bool = False,
) -> xr.Dataset:
    """How much `modifier` raises the score of an adjective over a neutral word, mean over adjectives of a polarity.

    s(NOT, a) − mean over neutral words m of s(m, a). For a network that adds up its tokens it is the same for all
    adjectives. `turned` is the share of negative adjectives whose score is above 0 after NOT. `shuffled` trains on
    labels shuffled among texts.
    """
    phrases = read_phrases(corpus, texts, shuffled)

    def gains(network: str, seed: int) -> dict[str, Any]:
        net = text_network(
            network, phrases.texts.vocab, TRAINING.width, scales=Scales(*[TRAINING.sigma] * 4), padded=True
        )
        parameters = train_epochs(
            net, phrases.texts, phrases.labels, optimizer=Adagrad(TRAINING.rate), epochs=epochs, batch=TRAINING.batch,
            seed=seed, experiment=f"feature_extraction/negated_adjectives/{network}",
        )  # fmt: skip

        def score(first: int, adjectives: tuple[int, ...]) -> Array:
            rows = torch.tensor([[first, adjective] for adjective in adjectives])
            with torch.no_grad():
                return net.scores(parameters, rows)[:, 0].double().numpy()

        after = {name: score(phrases.modifiers[modifier], phrases.adjectives[name]) for name in POLARITIES}
        neutral = {
            name: np.mean([score(word, phrases.adjectives[name]) for word in phrases.neutral], axis=0)
            for name in POLARITIES
        }
        gained = [(after[name] - neutral[name]).mean() for name in POLARITIES]
        return {
            "gain": ("polarity", gained, {"long_name": "what NOT adds to a score", "units": "logits"}),
            "turned": ((), (after["negative"] > 0).mean(), {"long_name": "negative adjectives made positive"}),
        }

    runs = over(gains, {"network": networks, "seed": seed_list(seeds)}, {})
    return runs.assign_coords(polarity=list(POLARITIES))
