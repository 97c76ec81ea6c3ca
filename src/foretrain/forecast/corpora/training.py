"""Trains small networks of the forecast's architectures and compares their scores with the predicted ones."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray as Array
from scipy.stats import rankdata

from foretrain.core.streams import stream
from foretrain.data.labelled_texts import LabelledTexts
from foretrain.data.tokens import UNKNOWN, TokenTexts, Vocabulary, words
from foretrain.dynamics.epochs import train_epochs
from foretrain.dynamics.optimizers import Adagrad
from foretrain.forecast.corpora.forecast import CorpusForecast, Learned
from foretrain.forecast.corpora.scores import SCALES, architectures, scored, targets
from foretrain.models.classifiers import Classifier
from foretrain.papers.feature_extraction.experiments.networks import NETWORKS

LONGEST = 200  # training reads at most this many tokens of a text
LARGEST = 20_000_000  # most parameters of a network to train; one matrix per token can be more


def learned_scores(
    corpus: LabelledTexts, forecast: CorpusForecast, *, epochs: int = 3, width: int = 64, most: int = 4000
) -> dict[str, Learned]:
    """Train a small network of each architecture on at most `most` texts, and compare its scores with those of the flow
    on the same texts. Networks too large to train are left out."""
    rows = np.sort(stream("forecast/training").permutation(len(corpus))[:most])
    vocabulary = Vocabulary((*forecast.tokens, UNKNOWN))
    texts = vocabulary.encode([words(corpus.texts[i])[:LONGEST] for i in rows])
    target = targets(corpus.labels[rows], len(corpus.classes))
    learned = {}
    for name, kind in architectures(forecast.window).items():
        if name not in forecast.scores:
            continue
        network = NETWORKS[kind.network]
        net = Classifier(
            network.architecture, len(vocabulary), width, network.activation, len(forecast.outputs),
            window=forecast.window, scales=SCALES,
        )  # fmt: skip
        if sum(int(np.prod(shape)) for shape, _ in net.shapes().values()) > LARGEST:
            continue
        usable = np.flatnonzero(texts.lengths >= kind.order)  # a text shorter than the n-grams teaches nothing
        parameters = train_epochs(
            net, texts.select(usable), corpus.labels[rows[usable]], optimizer=Adagrad(0.01), epochs=epochs, batch=32,
            seed=1, experiment=f"forecast/{name}",
        )  # fmt: skip
        with torch.no_grad():
            scores = net.scores(parameters, torch.from_numpy(forecast.of(name).tokens)).double().numpy()
        joined = texts.followed_by(TokenTexts.of_rows(forecast.of(name).tokens, texts.vocab))
        learned[name] = _compared(scores, scored(kind, texts, joined, target, SCALES, forecast.time).scores)
    return learned


def _compared(scores: Float[Array, "item output"], predicted: Float[Array, "item output"]) -> Learned:
    """Correlations over items, averaged over outputs. Outputs are compared one by one, because a shift of a whole class
    is its bias; and relative to their mean, because softmax ignores a shift of all classes."""
    if scores.shape[1] > 1:
        scores = scores - scores.mean(axis=1, keepdims=True)
    pairs = list(zip(scores.T, predicted.T, strict=True))
    return Learned(
        scores,
        predicted,
        float(np.mean([_correlation(rankdata(a), rankdata(b)) for a, b in pairs])),
        float(np.mean([_correlation(a, b) for a, b in pairs])),
    )


def _correlation(first: Float[Array, "item"], second: Float[Array, "item"]) -> float:
    """The correlation; 0 if either is constant, as with a single item or a network that learned nothing."""
    constant = np.ptp(first) == 0 or np.ptp(second) == 0
    return 0.0 if constant else float(np.corrcoef(first, second)[0, 1])
