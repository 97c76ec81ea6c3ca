"""Trains the paper's networks on a labelled corpus and reads their label scores beside the token statistics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float, Int
from numpy import ndarray as Array

from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory
from foretrain.data.corpora import LABELLED, labelled_corpus
from foretrain.data.made_up_corpus import MadeUpCorpus
from foretrain.data.tokens import TokenTexts, Vocabulary
from foretrain.dynamics import Adagrad
from foretrain.dynamics.epochs import padded_batch, train_epochs
from foretrain.kernels.empirical import empirical_ntk, relative_movement
from foretrain.kernels.tangent import Scales
from foretrain.models.classifiers import Classifier, Parameters
from foretrain.papers.feature_extraction.experiments.networks import network

KERNEL_TOKENS = 12  # tokens between which the kernel's movement is measured
MADE_UP = {"made_up": 2, "made_up_4": 4}  # corpora made up, by their number of classes


@dataclass(frozen=True)
class LabelledCorpus:
    """Training and test texts as token numbers, labels 0 or 1 (or class numbers), and tokens no text contains."""

    train: TokenTexts
    labels: Int[Array, "text"]
    test: TokenTexts
    test_labels: Int[Array, "test_text"]
    unseen: Int[Array, "unseen"]  # tokens that occur in no training text

    @property
    def vocab(self) -> int:
        return self.train.vocab

    @property
    def occurrences(self) -> Int[Array, "vocab"]:
        return np.bincount(self.train.flat, minlength=self.vocab)

    def cooccurrence(self, positive: int = 1) -> Int[Array, "vocab"]:
        """ω(e): occurrences with class `positive` minus occurrences without."""
        return (2 * (self.labels == positive) - 1) @ self.train.counts

    def with_labels(self, labels: Int[Array, "text"]) -> LabelledCorpus:
        return LabelledCorpus(self.train, labels, self.test, self.test_labels, self.unseen)

    def keep(self, rows: Int[Array, "kept"]) -> LabelledCorpus:
        """Only these training texts; the vocabulary stays."""
        return LabelledCorpus(self.train.select(rows), self.labels[rows], self.test, self.test_labels, self.unseen)


def read_corpus(
    name: str, *, texts: int | None = None, longest: int | None = None, data: str | None = None, seed: int = 1
) -> LabelledCorpus:
    """A known corpus, or one made up (400 tokens, and 600 that never occur).

    `texts` limits how many texts are read, for training and for testing; `longest` how many tokens of each.
    """
    if name in MADE_UP:
        draw = stream("feature_extraction/corpus", seed, name)
        made = MadeUpCorpus(draw, vocab=1000, unseen=600, classes=MADE_UP[name])
        train, labels = made.sample(texts or 3000, draw)
        test, test_labels = made.sample(1000, draw)
        return LabelledCorpus(train, labels, test, test_labels, np.arange(400, 1000))
    tokenize = LABELLED[name].tokenize
    raw = labelled_corpus(name, "train", data=data)
    draw = stream("feature_extraction/corpus", seed, name)
    raw = raw.select(draw.permutation(len(raw))[:texts])
    raw_test = labelled_corpus(name, "test", data=data)
    if texts is not None:
        raw_test = raw_test.select(draw.permutation(len(raw_test))[:texts])
    cut, cut_test = ([tokenize(t)[:longest] for t in part.texts] for part in (raw, raw_test))
    vocabulary = Vocabulary.of(cut)
    # Tokens of the test texts that training never saw get embeddings of their own, to read the bias on.
    known = set(vocabulary.tokens)
    new = sorted({token for text in cut_test for token in text} - known)
    whole = Vocabulary((*vocabulary.tokens, *new))
    seen = len(vocabulary)
    return LabelledCorpus(
        whole.encode(cut), raw.labels, whole.encode(cut_test), raw_test.labels, np.arange(seen, len(whole))
    )


def token_scores(net: Classifier, parameters: Parameters) -> Float[Array, "vocab output"]:
    """The network's output on every token alone."""
    with torch.no_grad():
        return net.scores(parameters, torch.arange(net.vocab)[:, None]).double().numpy()


def _keep(states: list[Parameters], _: int, parameters: Parameters) -> None:
    states.append({name: value.clone() for name, value in parameters.items()})


def _kernel(net: Classifier, parameters: Parameters, tokens: torch.Tensor) -> torch.Tensor:
    """Between single tokens; only their own rows of the parameters are differentiated."""
    rows = tokens[:, 0]
    held = {name: (p[rows] if name in net.per_token else p) for name, p in parameters.items()}
    return empirical_ntk(net.of_one, torch.arange(len(rows))[:, None], parameters=held)


def accuracy(net: Classifier, parameters: Parameters, texts: TokenTexts, labels: Int[Array, "text"]) -> float:
    right = 0
    for rows in np.array_split(np.arange(len(texts)), max(1, len(texts) // 200)):
        tokens, local = padded_batch(texts, rows)
        held = {name: (p[tokens] if name in net.per_token else p) for name, p in parameters.items()}
        with torch.no_grad():
            scores = net.scores(held, local)
        said = (scores[:, 0] > 0).long() if net.outputs == 1 else scores.argmax(1)
        right += int((said.numpy() == labels[rows]).sum())
    return right / len(texts)


def trained_scores(
    corpus: LabelledCorpus,
    networks: tuple[str, ...],
    *,
    epochs: int,
    seeds: list[int],
    width: int = 64,
    sigma: float = 0.1,
    rate: float = 0.01,
    batch: int = 32,
) -> xr.Dataset:
    """Label scores and the kernel's movement after every epoch, and test accuracy at the end.

    Over (network, seed, epoch, token). The kernel is that between the most frequent tokens, each alone; its relative
    movement tells how far training has left the lazy regime.
    """
    scales = Scales(sigma, sigma, sigma, sigma)
    scores = np.zeros((len(networks), len(seeds), epochs + 1, corpus.vocab))
    right, moved = np.zeros((len(networks), len(seeds))), np.zeros((len(networks), len(seeds), epochs + 1))
    frequent = torch.from_numpy(np.argsort(-corpus.occurrences, kind="stable")[:KERNEL_TOKENS, None])
    for i, name in enumerate(networks):
        net = network(name, corpus.vocab, width, scales=scales, padded=True)
        for j, seed in enumerate(seeds):
            states: list[Parameters] = []
            parameters = train_epochs(
                net, corpus.train, corpus.labels, optimizer=Adagrad(rate), epochs=epochs, batch=batch, seed=seed,
                experiment=f"feature_extraction/{name}", each_epoch=partial(_keep, states),
            )  # fmt: skip
            scores[i, j] = [token_scores(net, state)[:, 0] for state in states]
            kernels = [_kernel(net, state, frequent) for state in states]
            moved[i, j] = [relative_movement(kernels[0], kernel) for kernel in kernels]
            right[i, j] = accuracy(net, parameters, corpus.test, corpus.test_labels)
    return trajectory(
        {
            "score": (("network", "seed", "epoch", "token"), scores),
            "movement": (("network", "seed", "epoch"), moved),
            "accuracy": (("network", "seed"), right),
            "cooccurrence": ("token", corpus.cooccurrence()),
            "occurrences": ("token", corpus.occurrences),
        },
        {"network": list(networks), "seed": seeds, "epoch": np.arange(epochs + 1)},
        units={"score": "logits"},
        width=width, sigma=sigma, rate=rate, batch=batch,
    )  # fmt: skip
