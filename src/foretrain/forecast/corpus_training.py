"""Trains the small networks that a forecast is about, and holds their scores against the predicted ones."""

from __future__ import annotations

import numpy as np
from scipy.stats import spearmanr

from foretrain.data.labelled_texts import LabelledTexts
from foretrain.data.tokens import Vocabulary, words
from foretrain.dynamics import Adagrad
from foretrain.dynamics.epochs import train_epochs
from foretrain.forecast.corpus import CorpusForecast
from foretrain.kernels.tangent import Scales
from foretrain.papers.feature_extraction.label_scores import token_scores
from foretrain.papers.feature_extraction.networks import network

NAMES = {"MLP ReLU": "MLP ReLU", "MLP GeLU": "MLP GeLU", "MLP tanh": "MLP tanh", "self-attention": "SA"}
LONGEST = 200  # tokens of a text that training reads


def learned_against_predicted(
    corpus: LabelledTexts, found: CorpusForecast, *, epochs: int = 3, width: int = 64, most: int = 10_000
) -> dict[str, dict[str, float]]:
    """Correlation of learned and predicted scores over all tokens and classes, by architecture."""
    rows = np.random.default_rng(0).permutation(len(corpus))[:most]
    vocabulary = Vocabulary((*found.tokens, "<unk>"))
    texts = vocabulary.encode([words(corpus.texts[i])[:LONGEST] or ["<unk>"] for i in rows])
    outputs = len(found.outputs)
    correlations = {}
    for name, scores in found.scores.items():
        net = network(NAMES[name], len(vocabulary), width, scales=Scales(0.1, 0.1, 0.1, 0.1), outputs=outputs)
        parameters = train_epochs(
            net, texts, corpus.labels[rows], optimizer=Adagrad(0.01), epochs=epochs, batch=32, seed=1,
            experiment=f"forecast/{name}",
        )  # fmt: skip
        learned = token_scores(net, parameters)[:-1]
        correlations[name] = {
            "spearman": float(spearmanr(learned.ravel(), scores.ravel()).statistic),
            "pearson": float(np.corrcoef(learned.ravel(), scores.ravel())[0, 1]),
        }
    return correlations
