"""More corpora and classes: the scores of each class follow its co-occurrence, exactly only at infinite width."""

from __future__ import annotations

from functools import cache

import numpy as np
import xarray as xr
from scipy.stats import spearmanr

from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory
from foretrain.dynamics.epochs import train_epochs
from foretrain.dynamics.optimizers import Adagrad
from foretrain.kernels.label_flow import early_scores
from foretrain.kernels.tangent import Scales, mlp_kernel
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import bounded
from foretrain.models.text_networks import NETWORKS, network
from foretrain.papers.feature_extraction.experiments.label_scores import (
    LabelledCorpus,
    accuracy,
    read_corpus,
    token_scores,
)
from foretrain.papers.feature_extraction.setting import CORPUS_NAMES, TRAINING
from foretrain.papers.feature_extraction.tolerances import RANKS

ADDITIVE = ("MLP ReLU", "MLP GeLU")  # their flow is one of token scores: see label_scores
LEAST = 10  # occurrences of a token that counts
LONGEST = 150  # tokens read of each text: attention over whole film reviews takes minutes per epoch


@cache
def _corpus(name: str, texts: int, shuffled: bool = False) -> LabelledCorpus:
    corpus = read_corpus(name, texts=texts, longest=LONGEST)
    if shuffled:
        corpus = corpus.with_labels(stream("feature_extraction/datasets", name).permutation(corpus.labels))
    return corpus


def class_cooccurrence(corpus: LabelledCorpus) -> np.ndarray:
    """ω_k(e) = N(e, k) − N(e)/K, [token, class]: the direction of the first step of a softmax over classes."""
    by_class = np.asarray(corpus.train.counts.T @ _one_hot(corpus))
    return by_class - by_class.mean(axis=1, keepdims=True)


def _one_hot(corpus: LabelledCorpus) -> np.ndarray:
    return np.eye(int(corpus.labels.max()) + 1)[corpus.labels]


def _class_names(corpora: tuple[str, ...], texts: int) -> list[str]:
    return [
        f"{CORPUS_NAMES[name]}, class {k}" for name in corpora for k in range(_one_hot(_corpus(name, texts)).shape[1])
    ]


def _by_chance(corpora: tuple[str, ...], texts: int, shuffles: int) -> xr.Dataset:
    """For each class the rank correlation with ω that a network could reach by chance.

    Labels are shuffled among texts, so tokens keep their counts and classes their sizes, and a network that follows the
    shuffled labels has the ω of these. `by_chance` is the largest rank correlation with the true ω over all shuffles;
    chance exceeds it with probability 1/(shuffles + 1).
    """
    highest: list[float] = []
    for name in corpora:
        corpus = _corpus(name, texts)
        draw = stream("feature_extraction/datasets", name, "chance")
        drawn = [
            _ranks(corpus, class_cooccurrence(corpus.with_labels(draw.permutation(corpus.labels))))
            for _ in range(shuffles)
        ]
        highest += np.max(drawn, axis=0).tolist()
    return trajectory({"by_chance": ("class", highest)}, {"class": _class_names(corpora, texts)})


def _ranks(corpus: LabelledCorpus, scores: np.ndarray) -> list[float]:
    """The rank correlation of scores with ω for each class, over tokens that occur often enough."""
    often = corpus.occurrences >= LEAST
    seen = scores[often] - scores[often].mean(axis=1, keepdims=True)  # a softmax ignores what all classes share
    return [spearmanr(*columns).statistic for columns in zip(seen.T, class_cooccurrence(corpus)[often].T, strict=True)]


@cache
def _trained(name: str, texts: int, kind: str, epochs: int, shuffled: bool) -> tuple[list[float], float]:
    """Rank correlations of a trained network's scores with the true ω, and its test accuracy."""
    corpus = _corpus(name, texts, shuffled)
    classes = _one_hot(corpus).shape[1]
    sigma = TRAINING.sigma
    net = network(kind, corpus.vocab, TRAINING.width, scales=Scales(sigma, sigma, sigma, sigma), outputs=classes)
    parameters = train_epochs(
        net, corpus.train, corpus.labels, optimizer=Adagrad(TRAINING.rate), epochs=epochs, batch=TRAINING.batch, seed=1,
        experiment=f"feature_extraction/datasets/{kind}",
    )  # fmt: skip
    ranks = _ranks(_corpus(name, texts), token_scores(net, parameters))
    return ranks, accuracy(net, parameters, corpus.test, corpus.test_labels)


@cache
def _flowed(name: str, texts: int, kind: str, shuffled: bool) -> list[float]:
    """Rank correlations with the true ω of scores along the flow of the limit kernel."""
    corpus, kernel = _corpus(name, texts, shuffled), mlp_kernel(NETWORKS[kind].activation)
    return _ranks(_corpus(name, texts), early_scores(corpus.train.counts, _one_hot(corpus), kernel))


def _by_class(
    corpora: tuple[str, ...], texts: int, epochs: int, networks: tuple[str, ...], shuffled: bool = False
) -> xr.Dataset:
    """The rank correlation of trained score and ω for every class of every corpus; `shuffled` learns shuffled "
    "labels."""
    trained = [[_trained(name, texts, kind, epochs, shuffled) for name in corpora] for kind in networks]
    ranks = np.array([np.concatenate([ranks for ranks, _ in row]) for row in trained])
    right = [[share for _, share in row] for row in trained]
    return trajectory(
        {"spearman": (("network", "class"), ranks), "accuracy": (("network", "corpus"), right)},
        {
            "network": list(networks),
            "class": _class_names(corpora, texts),
            "corpus": [CORPUS_NAMES[name] for name in corpora],
        },
    )


SETTINGS = {
    "fast": {"corpora": ("made_up", "made_up_4"), "texts": 1500, "epochs": 6, "networks": ("MLP ReLU", "SA")},
    "full": {"corpora": ("imdb", "ag_news"), "texts": 8000, "epochs": 6, "networks": (*ADDITIVE, "SA")},
}
SHUFFLES = {"fast": 99, "full": 199}

datasets = Claim(
    id="feature_extraction/datasets",
    source="derived; the paper states it for IMDB and AG News",
    whose="the paper's statement",
    says=(
        "On other corpora, of two and of four classes, trained scores of every class rank tokens as its co-occurrence "
        "does: for every class and network more than any labels shuffled among the texts would. (This bar is ours, and "
        "lower than the .85 that we ask for on SST-2.)"
    ),
    finding=(
        "Less closely than on SST-2, where the rank correlation is .86 to .92: it is .72 to .78 on IMDB (8000 texts) "
        "and .72 to .86 on AG News (5000), against .2 by chance."
    ),
    predict=_by_chance,
    observe=_by_class,
    compare=bounded("spearman", low="by_chance"),
    settings={tier: {**setting, "shuffles": SHUFFLES[tier]} for tier, setting in SETTINGS.items()},
    control=Control("labels are shuffled among texts", {"shuffled": True}),
)


def _along_the_flow(corpora: tuple[str, ...], texts: int, shuffled: bool = False) -> xr.Dataset:
    ranks = np.array([np.concatenate([_flowed(name, texts, kind, shuffled) for name in corpora]) for kind in ADDITIVE])
    return trajectory(
        {"spearman": (("network", "class"), ranks)}, {"network": list(ADDITIVE), "class": _class_names(corpora, texts)}
    )


datasets_flow = Claim(
    id="feature_extraction/datasets_flow",
    source="derived",
    whose="our own expectation",
    says=(
        "On paper, at infinite width, scores of every class rank tokens as its co-occurrence does, with a rank "
        "correlation of at least .85: along the flow of the limit kernels, until its fastest direction has relaxed."
    ),
    finding=(
        "On IMDB and AG News it is .99 and more for the MLPs with ReLU and GeLU. No network of ordinary size comes "
        "near that: the first step of one of width 512 has .14 to .17 on IMDB and .28 to .43 on AG News, because "
        "frequent tokens drown the others in the kernel's fluctuations."
    ),
    observe=_along_the_flow,
    compare=bounded("spearman", low=RANKS),
    settings={tier: {key: setting[key] for key in ("corpora", "texts")} for tier, setting in SETTINGS.items()},
    control=Control("labels are shuffled among texts", {"shuffled": True}),
)

CLAIMS = [datasets, datasets_flow]
