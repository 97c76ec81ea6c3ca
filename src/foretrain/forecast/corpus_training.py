"""Trains the small networks that a forecast is about, and holds their scores against the predicted ones."""

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
from foretrain.forecast.corpus import CorpusForecast, Learned
from foretrain.forecast.corpus_scores import SCALES, architectures, scored, targets
from foretrain.models.classifiers import Classifier
from foretrain.papers.feature_extraction.experiments.networks import NETWORKS

LONGEST = 200  # tokens of a text that training reads
LARGEST = 20_000_000  # parameters of a network that is trained; a matrix per token can have more


def learned_scores(
    corpus: LabelledTexts, forecast: CorpusForecast, *, epochs: int = 3, width: int = 64, most: int = 4000
) -> dict[str, Learned]:
    """What a small network of each architecture learns from `most` of the texts, against what the flow on the same
    texts gives; one too large to train is left out."""
    rows = np.sort(stream("forecast/training").permutation(len(corpus))[:most])
    vocabulary = Vocabulary((*forecast.tokens, UNKNOWN))
    texts = vocabulary.encode([words(corpus.texts[i])[:LONGEST] for i in rows])
    target = targets(corpus.labels[rows], len(corpus.classes))
    learned = {}
    for name, kind in architectures(forecast.window).items():
        if name not in forecast.scores:
            continue
        named = NETWORKS[kind.network]
        net = Classifier(
            named.architecture, len(vocabulary), width, named.activation, len(forecast.outputs),
            window=forecast.window, scales=SCALES,
        )  # fmt: skip
        if sum(int(np.prod(shape)) for shape, _ in net.shapes().values()) > LARGEST:
            continue
        whole = np.flatnonzero(texts.lengths >= kind.order)  # a text without a window teaches nothing
        parameters = train_epochs(
            net, texts.select(whole), corpus.labels[rows[whole]], optimizer=Adagrad(0.01), epochs=epochs, batch=32,
            seed=1, experiment=f"forecast/{name}",
        )  # fmt: skip
        with torch.no_grad():
            scores = net.scores(parameters, torch.from_numpy(forecast.of(name).tokens)).double().numpy()
        joined = texts.followed_by(TokenTexts.of_rows(forecast.of(name).tokens, texts.vocab))
        learned[name] = _compared(scores, scored(kind, texts, joined, target, SCALES, forecast.time).scores)
    return learned


def _compared(scores: Float[Array, "item output"], predicted: Float[Array, "item output"]) -> Learned:
    """Correlations over items, of every output by itself, and their mean: what shifts a whole class is its bias, and
    what shifts all classes is nothing that a softmax could see."""
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
    """0 where one of the two is constant: a single item, or a network that learned nothing of them."""
    constant = np.ptp(first) == 0 or np.ptp(second) == 0
    return 0.0 if constant else float(np.corrcoef(first, second)[0, 1])
