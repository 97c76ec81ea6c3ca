"""A linear probe: logistic regression on what the head reads, with the ridge chosen by held-out loss."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.optimize import minimize
from torch import Tensor, nn

# Beyond a ridge of 1 the head is so small that no gradient reaches the weights below it, and the forecast's two points
# are worlds apart: without signal in the features, cross-validation would choose that.
RIDGES = tuple(10.0**power for power in range(-4, 1))
FOLDS = 5


def fit_probe(
    features: Float[Tensor, "row width"],
    labels: Int[Tensor, "row"],
    classes: int,
    *,
    bias: bool = True,
    seed: int = 0,
) -> nn.Linear:
    """The probe as a layer. With two classes it has one output, the logit of the second class."""
    X, y = features.double().numpy(), labels.numpy()
    mean, scale = X.mean(0) * bias, X.std(0) + 1e-6 * X.std() + 1e-12
    Z = (X - mean) / scale
    ridge = _best_ridge(Z, y, classes, bias, seed)
    W, b = _fit(Z, y, classes, ridge, bias)
    with torch.random.fork_rng(devices=[]):  # building a layer draws random numbers
        head = nn.Linear(X.shape[1], len(b), bias=bias)
    with torch.no_grad():
        head.weight.copy_(torch.from_numpy(W / scale))
        if bias:
            head.bias.copy_(torch.from_numpy(b - (W / scale) @ mean))
    return head


@torch.no_grad()
def put_into(head: nn.Linear, probe: nn.Linear) -> None:
    """Copy the probe into a head. If that has two outputs for two classes, each gets half of the logit."""
    halves = head.out_features == 2 and probe.out_features == 1
    for parameter, fitted in zip(head.parameters(), probe.parameters(), strict=True):
        parameter.copy_(torch.cat([-fitted / 2, fitted / 2]) if halves else fitted)


def log_loss(logits: np.ndarray, labels: np.ndarray) -> float:
    """Mean cross-entropy of logits [row, output]; one output is the logit of the second class."""
    if logits.shape[1] == 1:
        sign = 2.0 * labels - 1
        with np.errstate(invalid="ignore"):  # what is not finite stays so, and is told elsewhere
            return float(np.logaddexp(0, -sign * logits[:, 0]).mean())
    top = logits.max(axis=1, keepdims=True)
    normal = top[:, 0] + np.log(np.exp(logits - top).sum(axis=1))
    return float((normal - logits[np.arange(len(labels)), labels]).mean())


def _best_ridge(Z: np.ndarray, y: np.ndarray, classes: int, bias: bool, seed: int) -> float:
    """The ridge with the lowest loss on held-out folds; rows of a fold are never fitted on."""
    order = np.random.default_rng(seed).permutation(len(y))
    folds = [order[k::FOLDS] for k in range(FOLDS)]

    def loss(ridge: float) -> float:
        total = 0.0
        for fold in folds:
            rest = np.setdiff1d(order, fold)
            W, b = _fit(Z[rest], y[rest], classes, ridge, bias)
            total += log_loss(Z[fold] @ W.T + b, y[fold]) * len(fold)
        return total

    return min(RIDGES, key=loss)


def _fit(Z: np.ndarray, y: np.ndarray, classes: int, ridge: float, bias: bool) -> tuple[np.ndarray, np.ndarray]:
    """Weights [output, width] and biases that minimise mean cross-entropy + ridge·‖W‖²/2."""
    outputs = 1 if classes == 2 else classes
    rows, width = Z.shape
    targets = y[:, None].astype(float) if outputs == 1 else np.eye(classes)[y]

    def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
        W, b = flat[: outputs * width].reshape(outputs, width), flat[outputs * width :]
        logits = Z @ W.T + b
        residual = (probabilities(logits) - targets) / rows
        gradient = np.concatenate([(residual.T @ Z + ridge * W).ravel(), bias * residual.sum(axis=0)])
        return log_loss(logits, y) + ridge * float((W * W).sum()) / 2, gradient

    best = minimize(value, np.zeros(outputs * (width + 1)), jac=True, method="L-BFGS-B", options={"maxiter": 500}).x
    return best[: outputs * width].reshape(outputs, width), best[outputs * width :]


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Of the second class if there is one output, of every class otherwise."""
    if logits.shape[1] == 1:
        return 1 / (1 + np.exp(-np.clip(logits, -500, 500)))
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)
