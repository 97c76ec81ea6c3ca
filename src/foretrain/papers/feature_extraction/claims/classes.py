"""More corpora and classes: the scores of each class follow its co-occurrence, but exactly only at infinite width."""

from __future__ import annotations

from functools import cache

import numpy as np
import xarray as xr
from scipy.stats import spearmanr

from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory
from foretrain.dynamics.epochs import train_epochs
from foretrain.dynamics.optimizers import Adagrad
from foretrain.kernels.tangent import Scales, mlp_kernel
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import bounded, every
from foretrain.papers.feature_extraction import theory
from foretrain.papers.feature_extraction.claims.training import RANKS
from foretrain.papers.feature_extraction.experiments.label_scores import (
    LabelledCorpus,
    accuracy,
    read_corpus,
    token_scores,
)
from foretrain.papers.feature_extraction.experiments.networks import NETWORKS, network
from foretrain.papers.feature_extraction.setting import TRAINING

ADDITIVE = ("MLP ReLU", "MLP GeLU")  # their flow is one of token scores: see theory.label_scores
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
    return [f"{name}, class {k}" for name in corpora for k in range(_one_hot(_corpus(name, texts)).shape[1])]


def _bars(corpora: tuple[str, ...], texts: int, shuffles: int) -> xr.Dataset:
    """The bar of SST-2, and for each class the rank correlation with ω that a network could reach by chance.

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
    return trajectory({"spearman_low": RANKS, "by_chance": ("class", highest)}, {"class": _class_names(corpora, texts)})


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
    return _ranks(_corpus(name, texts), theory.early_scores(corpus.train.counts, _one_hot(corpus), kernel))


def _by_class(
    corpora: tuple[str, ...],
    texts: int,
    epochs: int,
    networks: tuple[str, ...],
    shuffled: bool = False,
    lazy: bool = False,
) -> xr.Dataset:
    """The rank correlation of score and ω for every class of every corpus, after training and along the flow.

    `shuffled` learns shuffled labels; `lazy` replaces training by the flow of the limit kernel of additive networks.
    """
    trained = [[_trained(name, texts, kind, epochs, shuffled) for name in corpora] for kind in networks]
    flowed = np.array([np.concatenate([_flowed(name, texts, kind, shuffled) for name in corpora]) for kind in ADDITIVE])
    ranks = np.array([np.concatenate([ranks for ranks, _ in row]) for row in trained])
    right = [[share for _, share in row] for row in trained]
    by_network = ("network", "class")
    return trajectory(
        {
            "spearman": (("additive", "class"), flowed) if lazy else (by_network, ranks),
            "flow_spearman": (("additive", "class"), flowed),
            "accuracy": (("network", "corpus"), right),
        },
        {
            "network": list(networks),
            "additive": list(ADDITIVE),
            "class": _class_names(corpora, texts),
            "corpus": list(corpora),
        },
    )


SETTINGS = {
    "fast": {"corpora": ("made_up", "made_up_4"), "texts": 1500, "epochs": 6, "networks": ("MLP ReLU", "SA")},
    "full": {"corpora": ("imdb", "ag_news"), "texts": 8000, "epochs": 6, "networks": (*ADDITIVE, "SA")},
}
SHUFFLES = {"fast": 99, "full": 199}
ERRATUM = (
    "The bar of SST-2, .85 after six epochs, does not carry over: networks have .72 to .78 on IMDB (8000 texts) and "
    ".72 to .86 on AG News (5000), far above chance (.2) and below .85 in most classes. On paper, along the flow of "
    "their limit kernels, the MLPs with ReLU and GeLU have .99 and more. That is infinite width and no network: the "
    "first step of one of width 512 from weights of variance 1 has .14 to .17 on IMDB and .28 to .43 on AG News, since "
    "frequent tokens drown the others in the kernel's fluctuations."
)

datasets = Claim(
    id="feature_extraction/datasets",
    source="derived; the paper states it for IMDB and AG News",
    says=(
        "On other corpora, of two and of four classes, trained scores of every class rank tokens as its co-occurrence "
        "does, as on SST-2: for every class and network the rank correlation is at least .85."
    ),
    erratum=ERRATUM,
    predict=lambda: trajectory({"spearman_low": RANKS}),
    observe=_by_class,
    compare=bounded("spearman", low="spearman_low"),
    settings=SETTINGS,
    control=Control(
        "theory only: the flow of the limit kernels, of infinite width, in place of trained networks", {"lazy": True}
    ),
    expect="fails",
)

datasets_corrected = Claim(
    id="feature_extraction/datasets_corrected",
    corrects="feature_extraction/datasets",
    source="derived",
    says=(
        "Theory only, at infinite width: until the fastest direction of the flow of the limit kernels has relaxed, "
        "scores of every class rank tokens as its co-occurrence does, rank correlation at least .85. Measured: trained "
        "networks keep this in part, for every class and network above whatever labels shuffled among texts give."
    ),
    erratum=ERRATUM,
    predict=_bars,
    observe=_by_class,
    compare=every(bounded("flow_spearman", low="spearman_low"), bounded("spearman", low="by_chance")),
    settings={tier: {**setting, "shuffles": SHUFFLES[tier]} for tier, setting in SETTINGS.items()},
    control=Control("labels are shuffled among texts", {"shuffled": True}),
)

CLAIMS = [datasets, datasets_corrected]
