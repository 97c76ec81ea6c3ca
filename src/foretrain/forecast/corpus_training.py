"""Trains the small networks that a forecast is about, and holds their scores against the predicted ones."""

from __future__ import annotations

import numpy as np
import torch
from scipy.stats import spearmanr

from foretrain.data.labelled_texts import LabelledTexts
from foretrain.data.tokens import UNKNOWN, Vocabulary, words
from foretrain.dynamics import Adagrad
from foretrain.dynamics.epochs import train_epochs
from foretrain.forecast.corpus import CorpusForecast, Learned
from foretrain.forecast.corpus_scores import SCALES, architectures
from foretrain.models.classifiers import Classifier
from foretrain.papers.feature_extraction.networks import NETWORKS
from foretrain.streams import stream

LONGEST = 200  # tokens of a text that training reads
LARGEST = 20_000_000  # parameters of a network that is trained; a matrix per token can have more


def learned_scores(
    corpus: LabelledTexts, found: CorpusForecast, *, epochs: int = 3, width: int = 64, most: int = 4000
) -> dict[str, Learned]:
    """What a small network of each architecture learns from `most` of the texts; one too large to train is left out."""
    rows = np.sort(stream("forecast/training").permutation(len(corpus))[:most])
    vocabulary = Vocabulary((*found.tokens, UNKNOWN))
    texts = vocabulary.encode([words(corpus.texts[i])[:LONGEST] for i in rows])
    learned = {}
    for name, kind in architectures(found.window).items():
        if name not in found.scores:
            continue
        named = NETWORKS[kind.network]
        net = Classifier(
            named.architecture, len(vocabulary), width, named.activation, len(found.outputs),
            window=found.window, scales=SCALES,
        )  # fmt: skip
        if sum(int(np.prod(shape)) for shape, _ in net.shapes().values()) > LARGEST:
            continue
        whole = np.flatnonzero(texts.lengths >= kind.order)  # a text without a window teaches nothing
        parameters = train_epochs(
            net, texts.select(whole), corpus.labels[rows[whole]], optimizer=Adagrad(0.01), epochs=epochs, batch=32,
            seed=1, experiment=f"forecast/{name}",
        )  # fmt: skip
        with torch.no_grad():
            scores = net.scores(parameters, torch.from_numpy(found.of(name).tokens)).double().numpy()
        predicted = found.scores[name].scores
        learned[name] = Learned(
            scores,
            float(spearmanr(scores.ravel(), predicted.ravel()).statistic),
            float(np.corrcoef(scores.ravel(), predicted.ravel())[0, 1]),
        )
    return learned
