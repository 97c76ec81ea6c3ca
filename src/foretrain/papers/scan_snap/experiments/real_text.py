"""The paper's own model (Y, Z) on real text: does attention move as the theory says, where its assumptions fail?

A sample is a word, the words before it as counts, and the word that follows: query, context and next token. The model
and its gradient are those of Lemma 1, without positions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Annotated, Literal

import numpy as np
import torch
import xarray as xr
from numpy import ndarray as Array
from pydantic import Field
from torch import Tensor

from foretrain.core.errors import require, require_known
from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory
from foretrain.data.corpora import LABELLED, TEXTS, labelled_corpus, text_corpus
from foretrain.language.made_up import made_up_text
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, Positive, about
from foretrain.papers.scan_snap import theory

MADE_UP = "made-up"
CorpusName = Literal["made-up", "wikitext-2", "imdb", "ag_news", "sst2"]
CHUNK = 4096  # samples whose features are in memory at once
HELD_OUT = 2000  # samples on which entropy and loss are measured
TIMES = 25  # at which they are
Start = Literal["unigram", "uniform"]
STARTS: tuple[Start, ...] = ("unigram", "uniform")  # of the decoder


@dataclass(frozen=True)
class TextSamples:
    """Context words [sample, position], the query and the next word of each sample, as numbers below `words`."""

    context: Array
    query: Array
    next: Array
    words: int

    def counts(self, rows: slice) -> Array:
        """Token counts of the contexts, [sample, word]."""
        context = self.context[rows]
        counts = np.zeros((len(context), self.words))
        np.add.at(counts, (np.arange(len(context))[:, None], context), 1)
        return counts

    def together(self) -> Array:
        """How often each word is before each query, [query, word]."""
        together = np.zeros((self.words, self.words))
        np.add.at(together, (self.query[:, None], self.context), 1)
        return together


@lru_cache(maxsize=2)
def samples_of(corpus: str, vocabulary: int, context: int, tokens: int) -> TextSamples:
    """Every third position of the first words of a corpus; word 0 stands for all but the most frequent ones."""
    known = [MADE_UP, *TEXTS, *LABELLED]
    require_known("corpus", corpus, known)
    if corpus == MADE_UP:
        words = made_up_text(tokens).split()
    elif corpus in TEXTS:
        words = TEXTS[corpus].tokenize(text_corpus(corpus))
    else:
        texts = labelled_corpus(corpus, "train").texts
        words = [word for text in texts for word in LABELLED[corpus].tokenize(text)]
    words = words[:tokens]
    number = {word: i + 1 for i, (word, _) in enumerate(Counter(words).most_common(vocabulary - 1))}
    flat = np.array([number.get(word, 0) for word in words])
    require(len(flat) > 10 * context, f"{corpus} has only {len(flat)} words.")
    first = np.arange(0, len(flat) - context - 1, 3)
    return TextSamples(
        flat[first[:, None] + np.arange(context)], flat[first + context], flat[first + context + 1], vocabulary
    )


def count_force(samples: TextSamples, start: Start) -> Array:
    """Lemma 1 at even attention: the force on Z, [query, word], once the decoder has made its first small step.

    The decoder starts at outputs α: the frequencies of the next words ("unigram"), or 1/M as in the paper ("uniform").
    Then Y ∝ Σ f(e_n − α)ᵀ, and the force is Σ f∘(g − f·fᵀg) with g = Y(e_n − α), over the samples of each query.
    """
    M, number = samples.words, len(samples.query)
    alpha = np.full(M, 1 / M) if start == "uniform" else np.bincount(samples.next, minlength=M) / number
    Y, force = np.zeros((M, M)), np.zeros((M, M))
    for rows, f in _features(samples):
        np.add.at(Y.T, samples.next[rows], f)
        Y -= np.outer(f.sum(axis=0), alpha)
    Y /= number
    mean = Y @ alpha
    for rows, f in _features(samples):
        g = Y.T[samples.next[rows]] - mean
        np.add.at(force, samples.query[rows], f * (g - f * (f * g).sum(axis=1, keepdims=True)))
    return force / number


def _features(samples: TextSamples) -> Iterator[tuple[slice, Array]]:
    for i in range(0, len(samples.query), CHUNK):
        counts = samples.counts(slice(i, i + CHUNK))
        yield slice(i, i + CHUNK), counts / np.linalg.norm(counts, axis=1, keepdims=True)


def pair_step(
    Y: Tensor, Z: Tensor, counts: Tensor, query: Tensor, following: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Lemma 1 on a batch: the gradient of the log-likelihood in Y and in the rows Z[query]; attention; the loss."""
    rows = torch.arange(len(query))
    z = Z[query]
    c = counts * torch.exp(z - z.amax(dim=1, keepdim=True))
    f = c / c.norm(dim=1, keepdim=True)
    probabilities = torch.softmax(f @ Y, dim=1)
    loss = -torch.log(probabilities[rows, following]).mean()
    error = -probabilities
    error[rows, following] += 1
    g = error @ Y.mT
    on_z = f * (g - f * (f * g).sum(dim=1, keepdim=True)) / len(query)
    return f.mT @ error / len(query), on_z, c / c.sum(dim=1, keepdim=True), loss


def _train(
    samples: TextSamples, eta_y: float, eta_z: float, times: Array, batch: int, seed: int
) -> tuple[Array, Array, Array]:
    """Z, entropy of attention and loss on held-out samples, at these times."""
    M, draw = samples.words, stream("scan_snap/real_text", seed)
    held = slice(len(samples.query) - min(HELD_OUT, len(samples.query) // 5), None)
    known = held.start
    judged = tuple(
        torch.from_numpy(a) for a in (samples.counts(held).astype(np.float32), samples.query[held], samples.next[held])
    )
    context, query, following = (torch.from_numpy(a) for a in (samples.context, samples.query, samples.next))
    Y, Z = torch.zeros(M, M), torch.zeros(M, M)
    states, entropies, losses = [], [], []
    for step in range(int(times[-1]) + 1):
        if step in times:
            _, _, attention, loss = pair_step(Y, Z, *judged)
            entropies.append(float(-(attention * torch.log(attention.clamp(min=1e-30))).sum(dim=1).mean()))
            losses.append(float(loss))
            states.append(Z.numpy().copy())
        chosen = torch.from_numpy(draw.integers(0, known, batch))
        counts = torch.zeros(batch, M).scatter_add_(1, context[chosen], torch.ones(batch, context.shape[1]))
        on_y, on_z, _, _ = pair_step(Y, Z, counts, query[chosen], following[chosen])
        Y += eta_y * on_y
        Z.index_add_(0, query[chosen], on_z, alpha=eta_z)
    return np.array(states), np.array(entropies), np.array(losses)


def one_corpus(
    corpus: Annotated[CorpusName, about("The text.")],
    eta_y: Annotated[Sequence[Positive], Field(min_length=1), about("Rates η_Y of the decoder, one per setting.")] = (
        2.0, 2.0, 2.0, 0.4,
    ),  # above 4 steps overshoot where one word is in most contexts
    eta_z: Annotated[Sequence[Positive], Field(min_length=1), about("Rates η_Z of attention, one per setting.")] = (
        0.02, 2.0, 8.0, 2.0,
    ),
    seeds: Annotated[int, Field(ge=2), about("How many orders of the data; two at least, to see if they agree.")] = 2,
    vocabulary: Annotated[Count, about("Most frequent words that are kept.", unit="words")] = 200,
    context: Annotated[Count, about("Words before the query.", unit="words")] = 32,
    tokens: Annotated[Count, about("Words of each corpus that are read.", unit="words")] = 400_000,
    batch: Annotated[Count, about("Samples per step.")] = 128,
    until: Annotated[Positive, about("Length of training.", unit="t0 at the largest η_Y")] = 3.0,
    seen: Annotated[Count, about("How often a word must occur with a query for its logit to count.")] = 200,
) -> xr.Dataset:  # fmt: skip
    """Trained logits against the force from counts, their agreement over seeds, their size and sparsity over time.

    force      rank correlation of z with the force at the start over time, by how the decoder starts
    agreement  rank correlation of the z of two seeds over time, mean over pairs
    size       root mean square of z over time; entropy and loss are on held-out samples
    """
    from scipy.stats import spearmanr  # 0.4 s to load, and only this function ranks

    require(len(eta_y) == len(eta_z), "eta_y and eta_z must be lists of the same length.")
    snaps = np.asarray(theory.snap_time(eta_y=np.array(eta_y), vocab=vocabulary, classes=vocabulary))
    last = until * snaps.min()
    times = np.unique(np.rint(np.geomspace(min(10.0, last), last, TIMES)).astype(int))
    samples = samples_of(corpus, vocabulary, context, tokens)
    counts = samples.together() >= seen
    counts[0] = counts[:, 0] = False  # word 0 is no word
    require(int(counts.sum()) >= 10, f"Only {int(counts.sum())} pairs of words occur {seen} times; lower `seen`.")
    forces = [count_force(samples, start)[counts] for start in STARTS]
    force, agreement, size, entropy, loss = [], [], [], [], []
    for y, z in zip(eta_y, eta_z, strict=True):
        runs = [_train(samples, y, z, times, batch, seed) for seed in range(1, seeds + 1)]
        logits = [states[:, counts] for states, _, _ in runs]
        force.append([[[spearmanr(z, f).statistic for z in run] for f in forces] for run in logits])
        pairs = [[spearmanr(z, w).statistic for z, w in zip(*two, strict=True)] for two in combinations(logits, 2)]
        agreement.append(np.mean(pairs, axis=0))
        size.append([np.sqrt((z**2).mean(axis=1)) for z in logits])
        entropy.append([run[1] for run in runs])
        loss.append([run[2] for run in runs])
    axes = ("setting", "seed", "time")
    return trajectory(
        {
            "force": (("setting", "seed", "start", "time"), np.array(force)),
            "agreement": (("setting", "time"), np.array(agreement)),
            "size": (axes, np.array(size)),
            "entropy": (axes, np.array(entropy)),
            "loss": (axes, np.array(loss)),
            "snap_time": ("setting", snaps),
        },
        {
            "setting": [f"η_Y = {y:g}, η_Z = {z:g}" for y, z in zip(eta_y, eta_z, strict=True)],
            "seed": np.arange(1, seeds + 1), "time": times, "start": list(STARTS),
        },
        {"entropy": "nats", "loss": "nats per word", "time": "steps of a batch", "snap_time": "steps of a batch"},
        experiment="scan_snap/real_text", vocabulary=vocabulary, context=context, batch=batch,
    )  # fmt: skip


real_text = Experiment(
    "scan_snap/real_text",
    "The model (Y, Z) on real text: is attention predicted by counts, and does it snap?",
    one_corpus,
    axes={"corpus": ("wikitext-2", "imdb", "ag_news")},
    settings={
        "fast": {
            "corpus": ("made-up",),
            "eta_y": (2.0, 2.0),
            "eta_z": (0.02, 2.0),
            "vocabulary": 30,
            "context": 8,
            "tokens": 3000,
            "batch": 16,
            "until": 0.5,
            "seen": 10,
        },
        "full": {},
    },
)

EXPERIMENTS = [real_text]
