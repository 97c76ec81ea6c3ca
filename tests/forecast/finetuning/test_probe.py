"""The linear probe: at its optimum, with a ridge that suits the data, as a layer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime

from foretrain.forecast.finetuning.probe import fit_probe, log_loss, probabilities


@pytest.mark.parametrize("classes", [2, 4])
def test_the_probe_finds_what_is_linear(classes: int) -> None:
    random = np.random.default_rng(0)
    X = random.standard_normal((400, 6)) * [1, 10, 0.1, 1, 1, 1] + 5
    truth = random.standard_normal((6, classes)) / [[1], [10], [0.1], [1], [1], [1]]
    labels = ((X - 5) @ truth).argmax(1)
    head = fit_probe(torch.tensor(X[:300]), torch.tensor(labels[:300]), classes)
    logits = head(torch.tensor(X[300:], dtype=torch.float32)).detach().numpy()
    guess = (logits[:, 0] > 0).astype(int) if classes == 2 else logits.argmax(1)
    assert (guess == labels[300:]).mean() > 0.9
    assert head.out_features == (1 if classes == 2 else classes)


def test_labels_that_mean_nothing_give_a_probe_that_says_nothing() -> None:
    random = np.random.default_rng(1)
    X = torch.tensor(random.standard_normal((80, 40)))
    labels = torch.tensor(random.integers(0, 2, 80))
    logits = fit_probe(X, labels, 2)(X.float()).detach()
    assert float(logits.abs().mean()) < 1.0  # without a ridge it separates the rows, with logits of ten and more


@pytest.mark.parametrize("outputs", [1, 3])
def test_loss_and_probabilities_belong_together(outputs: int) -> None:
    random = np.random.default_rng(2)
    logits, labels = random.standard_normal((5, outputs)), random.integers(0, max(2, outputs), 5)
    targets = labels[:, None] if outputs == 1 else np.eye(outputs)[labels]
    slope = approx_fprime(logits.ravel(), lambda flat: log_loss(flat.reshape(5, outputs), labels), 1e-6)
    np.testing.assert_allclose(slope.reshape(5, outputs), (probabilities(logits) - targets) / 5, atol=1e-5)
