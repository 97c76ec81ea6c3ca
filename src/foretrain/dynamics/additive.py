"""Training of the MLP, which adds up its tokens, with its derivative written out.

A batch is its distinct tokens and how often each text has them; one sort finds those of a whole epoch. Every distinct
token goes through the network once, however often it occurs, and only its row of the embedding is updated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float, Int
from scipy.special import erf, expit, softmax

from foretrain.data.tokens import TokenTexts
from foretrain.dynamics.optimizers import SGD, Adagrad
from foretrain.models.classifiers import Classifier
from foretrain.models.parameters import Parameters

Array: TypeAlias = Any  # float32 throughout; multiplying by a Python number keeps it so
_ROOT_HALF, _PEAK = 0.5**0.5, (2 * np.pi) ** -0.5


def _with_slope(activation: str, z: Array) -> tuple[Array, Array]:
    """φ(z) and φ′(z) in the precision of z; what they have in common is computed once."""
    match activation:
        case "relu":
            slope = (z > 0).astype(z.dtype)
            return z * slope, slope
        case "tanh":
            value = np.tanh(z)
            return value, 1 - value * value
        case "gelu":
            share = 0.5 * (1 + erf(_ROOT_HALF * z))
            return z * share, share + z * (_PEAK * np.exp(-0.5 * z * z))
        case "silu":
            gate = expit(z)
            return z * gate, gate * (1 + z * (1 - gate))
        case _:
            return z, np.ones_like(z)


class AdditiveSteps:
    """Steps of an MLP on the mean loss, in place on its parameters."""

    def __init__(
        self, network: Classifier, parameters: Parameters, rates: dict[str, float], optimizer: SGD | Adagrad
    ) -> None:
        self.activation, self.root = network.activation, network.width**0.5
        self.embedding, self.weight, self.readout = (
            parameters[name].numpy() for name in ("embedding", "weight", "readout")
        )
        self.rates = rates
        self.eps = optimizer.eps if isinstance(optimizer, Adagrad) else None
        self.squares = {name: np.zeros_like(value.numpy()) for name, value in parameters.items()}

    def epoch(self, texts: TokenTexts, labels: Int[Array, "text"], order: Int[Array, "text"], batch: int) -> None:
        """One pass over the texts in this order."""
        for rows, tokens, counts in batches_by_token(texts, order, batch, self.embedding.dtype):
            self._step(tokens, counts, labels[rows])

    def _step(self, tokens: Array, counts: Array, labels: Array) -> None:
        embedded = self.embedding.take(tokens, axis=0)  # [token, width]
        value, slope = _with_slope(self.activation, embedded @ (self.weight.T / self.root))
        hidden = counts @ value  # [text, width]
        by_score = _minus_slope(hidden @ self.readout.T / self.root, labels)  # −∂loss/∂score, [text, output]
        by_score /= self.root * len(labels)
        by_inside = counts.T @ by_score @ self.readout
        by_inside *= slope  # −∂loss/∂(inside of φ), [token, width]
        by_inside /= self.root
        ascents = {"weight": by_inside.T @ embedded, "readout": by_score.T @ hidden}
        by_embedded = by_inside @ self.weight
        for name, ascent in ascents.items():
            self._update(getattr(self, name), self.squares[name], ascent, self.rates[name])
        squares = self.squares["embedding"].take(tokens, axis=0)
        self._update(embedded, squares, by_embedded, self.rates["embedding"])
        self.embedding[tokens] = embedded
        self.squares["embedding"][tokens] = squares

    def _update(self, value: Array, squares: Array, ascent: Array, rate: float) -> None:
        """A step along minus the gradient, in place: SGD, or Adagrad with its running sum of squares."""
        if self.eps is not None:
            squares += ascent * ascent
            ascent /= np.sqrt(squares) + self.eps
        ascent *= rate
        value += ascent


def batches_by_token(
    texts: TokenTexts, order: Int[Array, "text"], batch: int, dtype: Any = np.float32
) -> Iterator[tuple[Int[Array, "row"], Int[Array, "distinct"], Float[Array, "row distinct"]]]:
    """The batches of an epoch: their texts, their distinct tokens, and how often each text has each token.

    One sort serves all batches: a token of a batch becomes one number for (batch, token).
    """
    lengths = texts.lengths[order]
    flat = texts.flat[np.repeat(texts.starts[order] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())]
    text = np.repeat(np.arange(len(order)), lengths)
    distinct, index = np.unique(text // batch * texts.vocab + flat, return_inverse=True)
    count = -(-len(order) // batch)
    first = np.searchsorted(distinct, np.arange(count + 1) * texts.vocab)  # where each batch begins in `distinct`
    begin = np.searchsorted(text, np.arange(count + 1) * batch)  # where each batch begins in `flat`
    tokens = distinct % texts.vocab
    for k in range(count):
        rows = order[k * batch : (k + 1) * batch]
        width = int(first[k + 1] - first[k])
        in_batch = slice(begin[k], begin[k + 1])
        cell = (text[in_batch] - k * batch) * width + (index[in_batch] - first[k])
        counts = np.bincount(cell, minlength=len(rows) * width).astype(dtype).reshape(len(rows), width)
        yield rows, tokens[first[k] : first[k + 1]], counts


def _minus_slope(scores: Float[Array, "text output"], labels: Int[Array, "text"]) -> Float[Array, "text output"]:
    """Minus the derivative of each text's logistic loss (one output) or cross-entropy."""
    if scores.shape[1] == 1:
        return labels[:, None].astype(scores.dtype) - expit(scores)
    result = -softmax(scores, axis=1)
    result[np.arange(len(labels)), labels] += 1
    return result
