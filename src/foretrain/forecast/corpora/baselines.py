"""The simplest alternatives to a forecast: log-odds, signed χ² and logistic regression, all on token counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray as Array
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import log_expit, log_softmax

from foretrain.forecast.corpora.leans import Lean
from foretrain.kernels.label_flow import residual

PENALTIES = (0.1, 1.0, 10.0, 100.0)  # of logistic regression, λ in Σ loss + λ‖w‖²/2; chosen by held-out loss
ITERATIONS = 300  # of L-BFGS; on 4,000 texts it needs 30 to 150


@dataclass(frozen=True)
class Linear:
    """A score of each token for each output, and a constant. Two classes have one output, for the second class."""

    weights: Float[Array, "token output"]
    constant: Float[Array, "output"]

    def logits(self, counts: sparse.csr_array) -> Float[Array, "text output"]:
        return np.asarray(counts @ self.weights) + self.constant


def leaning(counts: sparse.csr_array, labels: Int[Array, "text"], classes: int) -> Lean:
    """In how many texts of each class every token occurs."""
    held = sparse.csr_array((np.ones(counts.nnz), counts.indices, counts.indptr), shape=counts.shape)
    one_hot = np.eye(classes)[labels]
    return Lean(np.asarray(held.T @ one_hot), one_hot.sum(axis=0))


def log_odds(lean: Lean) -> Linear:
    """Each token's log-odds of a class, added up over a text, plus those of the class sizes: naive Bayes."""
    share = lean.share
    prior = np.log(share / (1 - share))
    return _one_for_two(lean.log_odds, prior)


def signed_chi2(lean: Lean) -> Linear:
    """χ² of each token with each class, negative where the token is rarer than expected."""
    by_class, size = lean.texts, lean.class_counts
    texts, total = by_class.sum(axis=1, keepdims=True), size.sum()
    excess = by_class - texts * size / total
    spread = texts * (total - texts) * size * (total - size) / total**3  # of the excess, if classes were independent
    return _one_for_two(np.sign(excess) * excess**2 / np.maximum(spread, 1e-12), np.zeros(len(size)))


def _one_for_two(weights: Array, constant: Array) -> Linear:
    return Linear(weights[:, 1:], constant[1:]) if weights.shape[1] == 2 else Linear(weights, constant)


def logistic_regression(counts: sparse.csr_array, target: Array, penalty: float) -> Linear:
    """Weights that minimise Σ loss + penalty·‖w‖²/2; the constant is not penalised. `target` is ±1 or one-hot."""
    table = sparse.csr_array(counts, dtype=np.float64)
    by_token = sparse.csr_array(table.T)
    outputs = 1 if target.ndim == 1 else target.shape[1]
    tokens = table.shape[1]

    def objective(flat: Array) -> tuple[float, Array]:
        w = flat.reshape(tokens + 1, outputs)
        scores = table @ w[:-1] + w[-1]
        pull = residual(target, scores[:, 0] if target.ndim == 1 else scores).reshape(-1, outputs)
        gradient = np.concatenate([penalty * w[:-1] - by_token @ pull, -pull.sum(axis=0, keepdims=True)])
        return float(losses(scores, target).sum() + penalty * (w[:-1] ** 2).sum() / 2), gradient.ravel()

    start = np.zeros((tokens + 1) * outputs)
    fitted = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS})
    w = fitted.x.reshape(tokens + 1, outputs)
    return Linear(w[:-1], w[-1])


def losses(logits: Float[Array, "text output"], target: Array) -> Float[Array, "text"]:
    """Log loss of each text, in nats."""
    if target.ndim == 1:
        return np.asarray(-log_expit(target * logits[:, 0]))
    return np.asarray(-(log_softmax(logits, axis=1) * target).sum(axis=1))


def guesses(logits: Float[Array, "text output"]) -> Int[Array, "text"]:
    """The class with the highest score."""
    return (logits[:, 0] > 0).astype(np.int64) if logits.shape[1] == 1 else logits.argmax(axis=1)
