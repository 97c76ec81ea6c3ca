"""Training in the lazy regime: full-batch gradient descent from outputs 0, against descent under the limit kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float, Int
from numpy import ndarray as Array
from pydantic import Field
from torch import Tensor
from torch.func import grad, vmap

from foretrain.core.streams import seed_list, stream
from foretrain.data.made_up_corpus import MadeUpCorpus
from foretrain.data.tokens import TokenTexts
from foretrain.dynamics.epochs import batch_loss
from foretrain.kernels.label_flow import kernel_descent
from foretrain.kernels.tangent import Scales
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import about
from foretrain.models.classifiers import Classifier
from foretrain.models.parameters import Parameters
from foretrain.models.text_networks import NETWORKS, limit_kernel
from foretrain.models.text_networks import network as text_network
from foretrain.papers.feature_extraction.experiments.parameters import Network, SeedCount, Texts, Width
from foretrain.papers.feature_extraction.setting import LAZY

SINGLE = ("mlp", "sa", "sa_mlp")  # architectures that score single tokens; the others are asked about bigrams


@dataclass(frozen=True)
class SmallCorpus:
    """Texts of one length with labels 0 or 1, and what a network is asked about: single tokens, or frequent bigrams."""

    texts: Int[Array, "text position"]
    labels: Int[Array, "text"]
    vocab: int

    @classmethod
    def made_up(
        cls, texts: int, vocab: int, length: int = LAZY.length, positive: float = LAZY.positive, contrast: float = 1.5
    ) -> SmallCorpus:
        draw = stream("feature_extraction/synthetic", "texts")
        source = MadeUpCorpus(draw, vocab=vocab, contrast=contrast, positive=positive, lengths=(length, length))
        drawn, labels = source.sample(texts, draw)
        return cls(drawn.flat.reshape(texts, length), labels, vocab)

    def asked(self, name: str) -> Int[Array, "asked position"]:
        """What this network is asked about: as many items as there are tokens."""
        if NETWORKS[name].architecture in SINGLE:
            return np.arange(self.vocab)[:, None]
        whole = TokenTexts.of_rows(self.texts, self.vocab)
        grams, counts = whole.ngrams(2)
        return grams[np.argsort(-counts.sum(axis=0), kind="stable")[: self.vocab]]

    def shuffled(self) -> SmallCorpus:
        """The same texts with their labels shuffled."""
        labels = stream("feature_extraction/synthetic", "shuffled").permutation(self.labels)
        return SmallCorpus(self.texts, labels, self.vocab)


def predicted_scores(name: str, corpus: SmallCorpus, *, rate: float, steps: int, scales: Scales) -> Array:
    """The scores of what the network is asked about, after descent under its kernel at infinite width."""
    asked = corpus.asked(name)
    rows = [*corpus.texts, *asked]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    kernel = limit_kernel(name, TokenTexts(np.concatenate(rows), starts, corpus.vocab), scales)
    n = len(corpus.texts)
    signs = 2.0 * corpus.labels - 1
    return np.asarray(kernel_descent(kernel[:n, :n], kernel[n:, :n], signs, rate=rate, steps=steps))


def descend(
    net: Classifier, parameters: Parameters, texts: Tensor, labels: Tensor, *, rate: float, steps: int
) -> Parameters:
    """Gradient descent of all runs on the mean loss of all texts, after subtracting the initial outputs."""
    initial = net.run_scores(parameters, texts)
    slope = vmap(grad(lambda weights, start: batch_loss(net.scores(weights, texts) - start, labels)))
    for _ in range(steps):
        step = slope(parameters, initial)
        parameters = {name: value - rate * step[name] for name, value in parameters.items()}
    return parameters


def descended_scores(
    net: Classifier,
    starts: Parameters,
    corpus: SmallCorpus,
    asked: Int[Array, "asked position"],
    *,
    rate: float,
    steps: int,
) -> Float[Array, "run asked"]:
    """What descent adds to the scores, for every run; the first axis of `starts` is the run."""
    table = torch.from_numpy(asked)
    trained = descend(
        net, starts, torch.from_numpy(corpus.texts), torch.from_numpy(corpus.labels), rate=rate, steps=steps
    )
    return (net.run_scores(trained, table) - net.run_scores(starts, table))[..., 0].double().numpy()


def lazy_scores(
    network: Network = "MLP ReLU",
    width: Width = 512,
    texts: Texts = 40,
    vocab: Annotated[int, Field(ge=2, le=10**9), about("Tokens of the made-up texts.", unit="tokens")] = 10,
    seeds: SeedCount = 4,
) -> xr.Dataset:
    """Scores learned in the lazy regime, mean over seeds, and those predicted by the limit kernel."""
    corpus, rate, steps = SmallCorpus.made_up(texts, vocab), LAZY.rate, LAZY.steps
    net = text_network(network, vocab, width, scales=Scales())
    starts = net.start([("lazy_scores", network, s) for s in seed_list(seeds)])
    learned = descended_scores(net, starts, corpus, corpus.asked(network), rate=rate, steps=steps).mean(axis=0)
    predicted = predicted_scores(network, corpus, rate=rate, steps=steps, scales=Scales())
    unit = {"units": "logits"}
    return xr.Dataset({"learned": ("asked", learned, unit), "predicted": ("asked", predicted, unit)})


EXPERIMENTS = [
    Experiment(
        "feature_extraction/lazy_scores",
        "scores learned in the lazy regime against the limit kernel",
        lazy_scores,
        {"network": ("MLP ReLU", "MLP tanh", "SA", "CNN ReLU")},
        settings={"fast": {"network": ("MLP ReLU", "SA"), "width": 128, "seeds": 2}, "full": {}},
    )
]
