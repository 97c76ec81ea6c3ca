"""More corpora, more classes: scores of every class follow its own co-occurrence."""

from __future__ import annotations

from functools import cache

import numpy as np
import xarray as xr
from scipy.stats import spearmanr

from foretrain.claim import Claim, Control
from foretrain.comparators import bounded, every
from foretrain.dynamics import Adagrad
from foretrain.dynamics.epochs import train_epochs
from foretrain.kernels.tangent import Scales
from foretrain.papers.feature_extraction.claims.training import RANKS
from foretrain.papers.feature_extraction.label_scores import LabelledCorpus, accuracy, read_corpus, token_scores
from foretrain.papers.feature_extraction.networks import network
from foretrain.streams import stream
from foretrain.trajectory import trajectory

NETWORKS = ("MLP ReLU", "MLP GeLU", "SA")
LEAST, WIDTH, SIGMA, RATE = 10, 64, 0.1, 0.01
LONGEST = 150  # tokens of a text that are read: attention over whole film reviews takes minutes an epoch


@cache
def _corpus(name: str, texts: int) -> LabelledCorpus:
    return read_corpus(name, texts=texts, longest=LONGEST)


def class_cooccurrence(corpus: LabelledCorpus, classes: int) -> np.ndarray:
    """ω_k(e) = N(e, k) − N(e)/K, [token, class]: what the first step of a softmax over classes asks for."""
    by_class = np.asarray(corpus.train.counts.T @ np.eye(classes)[corpus.labels])
    return by_class - by_class.sum(axis=1, keepdims=True) / classes


def _bars(corpora: tuple[str, ...], texts: int, shuffles: int) -> xr.Dataset:
    """The bar of other corpora, and what rank correlation with ω a network could reach by chance, class by class.

    Labels are shuffled among texts, so that tokens keep their counts and classes their sizes, and a network that
    follows the shuffled labels has their ω: the largest rank correlation with the true ω over all shuffles, which
    chance exceeds with a probability of 1/(shuffles + 1).
    """
    highest, names = [], []
    for name in corpora:
        corpus = _corpus(name, texts)
        classes = int(corpus.labels.max()) + 1
        often = corpus.occurrences >= LEAST
        omega = class_cooccurrence(corpus, classes)[often]
        draw = stream("feature_extraction/datasets", name, "chance")
        drawn = [
            class_cooccurrence(corpus.with_labels(draw.permutation(corpus.labels)), classes)[often]
            for _ in range(shuffles)
        ]
        highest += [max(spearmanr(other[:, k], omega[:, k]).statistic for other in drawn) for k in range(classes)]
        names += [f"{name}, class {k}" for k in range(classes)]
    return trajectory({"spearman_low": RANKS, "by_chance": ("class", highest)}, {"class": names})


def _by_class(
    corpora: tuple[str, ...], texts: int, epochs: int, networks: tuple[str, ...] = NETWORKS, shuffled: bool = False
) -> xr.Dataset:
    """Rank correlation of score and ω for every class of every corpus; `shuffled`: trained on shuffled labels."""
    ranks, right, names = [], [], []
    for name in corpora:
        corpus = _corpus(name, texts)
        classes = int(corpus.labels.max()) + 1
        omega = class_cooccurrence(corpus, classes)
        if shuffled:
            corpus = corpus.with_labels(stream("feature_extraction/datasets", name).permutation(corpus.labels))
        often = corpus.occurrences >= LEAST
        found = np.zeros((len(networks), classes))
        accurate = np.zeros(len(networks))
        for i, kind in enumerate(networks):
            net = network(kind, corpus.vocab, WIDTH, scales=Scales(SIGMA, SIGMA, SIGMA, SIGMA), outputs=classes)
            parameters = train_epochs(
                net, corpus.train, corpus.labels, optimizer=Adagrad(RATE), epochs=epochs, batch=32, seed=1,
                experiment=f"feature_extraction/datasets/{kind}",
            )  # fmt: skip
            scores = token_scores(net, parameters)
            scores = scores - scores.mean(axis=1, keepdims=True)  # a softmax does not see what all classes share
            found[i] = [spearmanr(scores[often, k], omega[often, k]).statistic for k in range(classes)]
            accurate[i] = accuracy(net, parameters, corpus.test, corpus.test_labels)
        ranks.append(found)
        right.append(accurate)
        names += [f"{name}, class {k}" for k in range(classes)]
    return trajectory(
        {
            "spearman": (("network", "class"), np.concatenate(ranks, axis=1)),
            "accuracy": (("network", "corpus"), np.array(right).T),
        },
        {"network": list(networks), "class": names, "corpus": list(corpora)},
    )


datasets = Claim(
    id="feature_extraction/datasets",
    source="derived; the paper states it for IMDB and AG News",
    says=(
        "On other corpora, of two and of four classes, scores of every class rank tokens as its co-occurrence does: "
        "for every class and network the rank correlation is at least .85, and above whatever labels shuffled among "
        "texts give."
    ),
    predict=_bars,
    observe=_by_class,
    compare=every(bounded("spearman", low="spearman_low"), bounded("spearman", low="by_chance")),
    settings={
        "fast": {
            "corpora": ("made_up", "made_up_4"),
            "texts": 1500,
            "epochs": 4,
            "networks": ("MLP ReLU", "SA"),
            "shuffles": 99,
        },
        "full": {
            "corpora": ("imdb", "ag_news"),
            "texts": 2000,
            "epochs": 4,
            "networks": NETWORKS,
            "shuffles": 199,
        },
    },
    control=Control("labels are shuffled among texts", {"shuffled": True}),
)

CLAIMS = [datasets]
