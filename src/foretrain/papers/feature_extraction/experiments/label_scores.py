"""Trains the paper's networks on labelled texts and compares their label scores with the token statistics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Annotated

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float, Int
from numpy import ndarray as Array

from foretrain.core.streams import stream
from foretrain.data.corpora import LABELLED, labelled_corpus
from foretrain.data.made_up_corpus import MadeUpCorpus
from foretrain.data.tokens import TokenTexts, Vocabulary
from foretrain.dynamics.epochs import padded_batch, train_epochs
from foretrain.dynamics.optimizers import Adagrad
from foretrain.kernels.empirical import empirical_ntk, relative_movement
from foretrain.kernels.tangent import Scales
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import WholeNumber, about
from foretrain.models.classifiers import Classifier
from foretrain.models.parameters import Parameters
from foretrain.models.text_networks import network as text_network
from foretrain.papers.feature_extraction.experiments.parameters import Corpus, Network, Texts
from foretrain.papers.feature_extraction.setting import MADE_UP, MADE_UP_CLASSES, TRAINING

KERNEL_TOKENS = 12  # tokens between which the kernel's movement is measured
LEAST = 5  # occurrences of a token whose score counts


@dataclass(frozen=True)
class LabelledCorpus:
    """Training and test texts as token numbers, with their classes, and the tokens that no training text contains."""

    train: TokenTexts
    labels: Int[Array, "text"]
    test: TokenTexts
    test_labels: Int[Array, "test_text"]
    unseen: Int[Array, "unseen"]  # tokens that no training text contains
    words: tuple[str, ...] = ()  # the tokens as text; a made-up corpus has none

    @property
    def vocab(self) -> int:
        return self.train.vocab

    @property
    def occurrences(self) -> Int[Array, "vocab"]:
        return np.bincount(self.train.flat, minlength=self.vocab)

    def cooccurrence(self, positive: int = 1) -> Int[Array, "vocab"]:
        """ω(e): occurrences in texts of class `positive` minus occurrences in the others."""
        return (2 * (self.labels == positive) - 1) @ self.train.counts

    def with_labels(self, labels: Int[Array, "text"]) -> LabelledCorpus:
        return replace(self, labels=labels)

    def keep(self, rows: Int[Array, "kept"]) -> LabelledCorpus:
        """Only these training texts; the vocabulary stays."""
        return replace(self, train=self.train.select(rows), labels=self.labels[rows])

    def two_classes(self) -> LabelledCorpus:
        """Only the texts of the first two classes."""
        kept = np.flatnonzero(self.test_labels < 2)
        train = self.keep(np.flatnonzero(self.labels < 2))
        return replace(train, test=self.test.select(kept), test_labels=self.test_labels[kept])


def read_corpus(
    name: str, *, texts: int | None = None, longest: int | None = None, data: str | None = None
) -> LabelledCorpus:
    """A known corpus, or a made-up one.

    `texts` limits how many texts are read, for training and for testing, and `longest` how many tokens of each text.
    """
    if name in MADE_UP_CLASSES:
        draw = stream("feature_extraction/corpus", 1, name)
        source = MadeUpCorpus(draw, vocab=MADE_UP.vocab, unseen=MADE_UP.unseen, classes=MADE_UP_CLASSES[name])
        train, labels = source.sample(texts or MADE_UP.texts, draw)
        test, test_labels = source.sample(MADE_UP.test_texts, draw)
        return LabelledCorpus(train, labels, test, test_labels, np.arange(MADE_UP.seen, MADE_UP.vocab))
    tokenize = LABELLED[name].tokenize
    raw = labelled_corpus(name, "train", data=data)
    draw = stream("feature_extraction/corpus", 1, name)
    raw = raw.select(draw.permutation(len(raw))[:texts])
    raw_test = labelled_corpus(name, "test", data=data)
    if texts is not None:
        raw_test = raw_test.select(draw.permutation(len(raw_test))[:texts])
    cut, cut_test = ([tokenize(t)[:longest] for t in part.texts] for part in (raw, raw_test))
    vocabulary = Vocabulary.of(cut)
    # Tokens that only occur in test texts get embeddings of their own: the bias is read off their scores.
    known = set(vocabulary.tokens)
    new = sorted({token for text in cut_test for token in text} - known)
    whole = Vocabulary((*vocabulary.tokens, *new))
    seen = len(vocabulary)
    return LabelledCorpus(
        whole.encode(cut),
        raw.labels,
        whole.encode(cut_test),
        raw_test.labels,
        np.arange(seen, len(whole)),
        whole.tokens,
    )


def token_scores(net: Classifier, parameters: Parameters) -> Float[Array, "vocab output"]:
    """The network's output on each token by itself."""
    with torch.no_grad():
        return net.scores(parameters, torch.arange(net.vocab)[:, None]).double().numpy()


def _keep(states: list[Parameters], _: int, parameters: Parameters) -> None:
    states.append({name: value.clone() for name, value in parameters.items()})


def _kernel(net: Classifier, parameters: Parameters, tokens: torch.Tensor) -> torch.Tensor:
    """The tangent kernel between single tokens; only the parameters of these tokens are differentiated."""
    rows = tokens[:, 0]
    held = {name: (p[rows] if name in net.per_token else p) for name, p in parameters.items()}
    return empirical_ntk(net.of_one, torch.arange(len(rows))[:, None], parameters=held)


def accuracy(net: Classifier, parameters: Parameters, texts: TokenTexts, labels: Int[Array, "text"]) -> float:
    """The share of texts that a network labels correctly."""
    right = 0
    for rows in np.array_split(np.arange(len(texts)), max(1, len(texts) // 200)):
        tokens, local = padded_batch(texts, rows)
        held = {name: (p[tokens] if name in net.per_token else p) for name, p in parameters.items()}
        with torch.no_grad():
            scores = net.scores(held, local)
        answers = (scores[:, 0] > 0).long() if net.outputs == 1 else scores.argmax(1)
        right += int((answers.numpy() == labels[rows]).sum())
    return right / len(texts)


def trained_scores(
    corpus: LabelledCorpus, network: str, seed: int, *, epochs: int, width: int = TRAINING.width
) -> xr.Dataset:
    """Label scores over (epoch, token), the kernel's movement, and the test accuracy at the end.

    The kernel is the one between the most frequent tokens, each by itself. Its relative movement shows how far training
    has left the lazy regime.
    """
    net = text_network(network, corpus.vocab, width, scales=Scales(*[TRAINING.sigma] * 4), padded=True)
    states: list[Parameters] = []
    parameters = train_epochs(
        net, corpus.train, corpus.labels, optimizer=Adagrad(TRAINING.rate), epochs=epochs, batch=TRAINING.batch,
        seed=seed,
        experiment=f"feature_extraction/{network}", each_epoch=partial(_keep, states),
    )  # fmt: skip
    frequent = torch.from_numpy(np.argsort(-corpus.occurrences, kind="stable")[:KERNEL_TOKENS, None])
    kernels = [_kernel(net, state, frequent) for state in states]
    scores = np.array([token_scores(net, state)[:, 0] for state in states])
    return xr.Dataset(
        {
            "score": (("epoch", "token"), scores, {"units": "logits"}),
            "movement": ("epoch", [relative_movement(kernels[0], kernel) for kernel in kernels]),
            "accuracy": accuracy(net, parameters, corpus.test, corpus.test_labels),
        },
        {"epoch": np.arange(epochs + 1)},
    )


def label_scores(
    network: Network = "MLP ReLU",
    corpus: Corpus = "made_up",
    texts: Texts = MADE_UP.texts,
    epochs: Annotated[WholeNumber, about("Epochs of training.", unit="epochs")] = 6,
    seed: Annotated[WholeNumber, about("Seed of the network and of the order of texts.")] = 1,
) -> xr.Dataset:
    """Label scores of tokens and their co-occurrence with the label, after every epoch of training."""
    read = _corpus(corpus, texts)
    scores = trained_scores(read, network, seed, epochs=epochs)
    counts = {"cooccurrence": ("token", read.cooccurrence()), "occurrences": ("token", read.occurrences)}
    return scores.assign(counts).isel(token=np.flatnonzero(read.occurrences >= LEAST))


@lru_cache(maxsize=1)
def _corpus(name: str, texts: int) -> LabelledCorpus:
    return read_corpus(name, texts=texts)


EXPERIMENTS = [
    Experiment(
        "feature_extraction/label_scores",
        "label scores against co-occurrence, epoch by epoch",
        label_scores,
        {"network": ("MLP ReLU", "MLP GeLU", "SA", "CNN ReLU"), "seed": 1},
        settings={"fast": {"network": ("MLP ReLU", "MLP GeLU"), "texts": 500, "epochs": 2}, "full": {}},
    )
]
