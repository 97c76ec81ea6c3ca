"""Trains small networks of the forecast's architectures and compares their scores with the predicted ones."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray as Array
from scipy.stats import rankdata

from foretrain.core.progress import Progress, tell
from foretrain.core.streams import stream
from foretrain.data.labelled_texts import LabelledTexts
from foretrain.data.tokens import UNKNOWN, TokenTexts, Vocabulary
from foretrain.dynamics.epochs import padded_batch, train_epochs
from foretrain.dynamics.optimizers import Adagrad
from foretrain.forecast.corpora.baselines import losses
from foretrain.forecast.corpora.result import CorpusResult, Learned
from foretrain.forecast.corpora.scores import Architecture, TrainingSet, architectures, scored
from foretrain.models.classifiers import Classifier
from foretrain.models.parameters import Parameters
from foretrain.models.text_networks import NETWORKS

LONGEST = 200  # training reads at most this many tokens of a text
RATE = 0.01  # of Adagrad
LARGEST = 20_000_000  # most parameters of a network to train; one matrix per token can be more


def learned_scores(
    corpus: LabelledTexts, forecast: CorpusResult, *, epochs: int = 10, width: int = 64, most: int = 4000
) -> dict[str, Learned]:
    """Train a small network of each architecture on at most `most` texts, and compare its scores with those of the flow
    on the same texts. Networks too large to train are left out."""
    rows = np.sort(stream("forecast/training").permutation(len(corpus))[:most])
    vocabulary = Vocabulary((*forecast.tokens, UNKNOWN))
    texts = vocabulary.encode([forecast.counted.tokenised[i][:LONGEST] for i in rows])
    training = TrainingSet(texts, corpus.labels[rows], len(corpus.classes), adaptive=forecast.adaptive)
    learned = {}
    for name, kind in architectures(forecast.window).items():
        if name not in forecast.scores:
            continue
        tokens = forecast.of(name).tokens
        scores = trained_scores(kind, training, tokens, epochs=epochs, width=width, window=forecast.window, name=name)
        if scores is not None:
            items = TokenTexts.of_rows(tokens, texts.vocab)
            predicted = scored(kind, training, items, forecast.times[name])
            learned[name] = _compared(scores, predicted.scores)
    return learned


def trained_scores(
    kind: Architecture,
    training: TrainingSet,
    items: Int[Array, "item order"],
    *,
    epochs: int,
    width: int,
    window: int = 2,
    seed: int = 1,
    name: str = "",
) -> Float[Array, "item output"] | None:
    """Scores of a network after the epoch with the lowest loss on a tenth of the texts, which is not trained on; None
    if the network is too large."""
    network, texts, labels = NETWORKS[kind.network], training.texts, training.labels
    net = Classifier(
        network.architecture, texts.vocab, width, network.activation, training.outputs,
        window=window, scales=training.scales,
    )  # fmt: skip
    if sum(int(np.prod(shape)) for shape, _ in net.shapes().values()) > LARGEST:
        return None
    usable = np.flatnonzero(texts.lengths >= kind.order)  # a text shorter than the n-grams teaches nothing
    order = stream("forecast/validation", seed).permutation(usable)
    held, rows = np.sort(order[: max(1, len(order) // 10)]), np.sort(order[len(order) // 10 :])
    target = training.target[held]
    results: list[tuple[float, Array]] = []

    def each_epoch(epoch: int, parameters: Parameters) -> None:
        tell(Progress(epoch, epochs, f"training, {name}", inner=True))
        with torch.no_grad():
            parts = [_logits(net, parameters, texts, held[k : k + 200]) for k in range(0, len(held), 200)]
            scores = net.scores(parameters, torch.from_numpy(items)).double().numpy()
        results.append((float(losses(np.concatenate(parts), target).mean()), scores))

    train_epochs(
        net, texts.select(rows), labels[rows], optimizer=Adagrad(RATE), epochs=epochs, batch=32, seed=seed,
        experiment=f"forecast/{name}", each_epoch=each_epoch,
    )  # fmt: skip
    return min(results[1:] or results, key=lambda result: result[0])[1]


def _logits(net: Classifier, parameters: Parameters, texts: TokenTexts, rows: Array) -> Array:
    """Scores of these texts, with the parameters of their tokens only."""
    tokens, table = padded_batch(texts, rows)
    held = {name: (p[tokens] if name in net.per_token else p) for name, p in parameters.items()}
    return np.asarray(net.scores(held, table).double().numpy())


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
