"""Training in the lazy regime: full-batch gradient descent from outputs 0, beside descent under the limit kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray as Array
from torch import Tensor
from torch.func import grad, vmap

from foretrain.core.streams import stream
from foretrain.data.made_up_corpus import MadeUpCorpus
from foretrain.data.tokens import TokenTexts
from foretrain.dynamics.epochs import batch_loss
from foretrain.kernels.tangent import Scales
from foretrain.models.classifiers import Classifier, Parameters
from foretrain.papers.feature_extraction import theory
from foretrain.papers.feature_extraction.experiments.networks import NETWORKS, limit_kernel

SINGLE = ("mlp", "sa", "sa_mlp")  # architectures that score a token alone; the others are asked about bigrams


@dataclass(frozen=True)
class SmallCorpus:
    """Texts of one length with labels 0 or 1, and what a network is asked about: tokens alone, or frequent bigrams."""

    texts: Int[Array, "text position"]
    labels: Int[Array, "text"]
    vocab: int

    @classmethod
    def made_up(cls, texts: int, vocab: int, length: int, positive: float, contrast: float = 1.5) -> SmallCorpus:
        draw = stream("feature_extraction/synthetic", "texts")
        made = MadeUpCorpus(draw, vocab=vocab, contrast=contrast, positive=positive, lengths=(length, length))
        drawn, labels = made.sample(texts, draw)
        return cls(drawn.flat.reshape(texts, length), labels, vocab)

    def asked(self, name: str) -> Int[Array, "asked position"]:
        """As many items as there are tokens."""
        if NETWORKS[name].architecture in SINGLE:
            return np.arange(self.vocab)[:, None]
        whole = TokenTexts.of_rows(self.texts, self.vocab)
        grams, counts = whole.ngrams(2)
        return grams[np.argsort(-counts.sum(axis=0), kind="stable")[: self.vocab]]

    def shuffled(self) -> SmallCorpus:
        labels = stream("feature_extraction/synthetic", "shuffled").permutation(self.labels)
        return SmallCorpus(self.texts, labels, self.vocab)


def predicted_scores(name: str, corpus: SmallCorpus, *, rate: float, steps: int, scales: Scales) -> Array:
    """Scores of what the network is asked about, after descent under its kernel of infinite width."""
    asked = corpus.asked(name)
    rows = [*corpus.texts, *asked]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    kernel = limit_kernel(name, TokenTexts(np.concatenate(rows), starts, corpus.vocab), scales)
    n = len(corpus.texts)
    signs = 2.0 * corpus.labels - 1
    return np.asarray(theory.kernel_descent(kernel[:n, :n], kernel[n:, :n], signs, rate=rate, steps=steps))


def descend(
    net: Classifier, parameters: Parameters, texts: Tensor, labels: Tensor, *, rate: float, steps: int
) -> Parameters:
    """Gradient descent of all runs on the mean loss of all texts, with the initial outputs taken off."""
    begun = net.run_scores(parameters, texts)
    slope = vmap(grad(lambda weights, start: batch_loss(net.scores(weights, texts) - start, labels)))
    for _ in range(steps):
        step = slope(parameters, begun)
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
    """What descent adds to the scores of every run; `starts` has a first axis of runs."""
    table = torch.from_numpy(asked)
    trained = descend(
        net, starts, torch.from_numpy(corpus.texts), torch.from_numpy(corpus.labels), rate=rate, steps=steps
    )
    return (net.run_scores(trained, table) - net.run_scores(starts, table))[..., 0].double().numpy()
