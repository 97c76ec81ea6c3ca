"""The optimizers on the linearised network: those of torch on a network that is linear, and nearly so close to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from forecast.finetuning.models import smooth
from foretrain.core.errors import InputError
from foretrain.forecast.finetuning.classifier import HeadedModel
from foretrain.forecast.finetuning.dynamics import FinetuneSetting, forecast_outputs
from foretrain.forecast.finetuning.midpoint import midpoint
from foretrain.forecast.finetuning.tangent import linearise
from foretrain.forecast.finetuning.training import train_outputs

SETTINGS = [
    FinetuneSetting(rate=0.01, steps=12, batch=4),
    FinetuneSetting(rate=0.01, steps=12, batch=4, weight_decay=0.3, schedule="linear", warm_up=3),
    FinetuneSetting(rate=0.01, steps=12, batch=7, schedule="cosine", betas=(0.8, 0.98)),
    FinetuneSetting("sgd", rate=0.1, steps=12, batch=4, momentum=0.9, weight_decay=0.1),
]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("classes", [2, 3])
def test_on_a_linear_model_the_forecast_is_the_training(setting: FinetuneSetting, classes: int) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        head = nn.Linear(5, 1 if classes == 2 else classes)
        classifier = HeadedModel(head, head, {"": torch.randn(20, 5)}, classes)
        labels = torch.randint(0, classes, (14,))
    tangent = linearise(classifier)
    at = [0, 1, 5, 12]
    forecast = forecast_outputs(tangent, labels, setting, at)
    torch.testing.assert_close(forecast, train_outputs(classifier, labels, setting, at), atol=1e-5, rtol=1e-4)
    with_middle = forecast_outputs(tangent, labels, setting, at, middle=tangent)
    torch.testing.assert_close(forecast, with_middle, atol=1e-5, rtol=1e-4)


def _errors(rate: float) -> tuple[float, float]:
    """Errors of the forecast from the start, and of the one through the middle, as shares of the real change."""
    classifier, labels = smooth()
    classifier.module.double()
    classifier.inputs[""] = classifier.inputs[""].double()
    setting = FinetuneSetting("sgd", rate=rate, steps=8, batch=30)
    start = linearise(classifier)
    real = train_outputs(classifier, labels[:30], setting, [0, 8])
    plain = forecast_outputs(start, labels[:30], setting, [0, 8])
    middle = midpoint(classifier, start, labels[:30], setting)
    better = forecast_outputs(start, labels[:30], setting, [0, 8], middle=middle)
    change = (real[-1] - real[0]).norm()
    return float((plain[-1] - real[-1]).norm() / change), float((better[-1] - real[-1]).norm() / change)


def test_the_middle_of_the_path_takes_most_of_the_error_away() -> None:
    """The error of the plain forecast is first order in the rate: it halves with it, roughly."""
    rates = [0.1, 0.05, 0.025]
    plain, better = np.array([_errors(rate) for rate in rates]).T
    assert (better < 0.25 * plain).all()
    assert 0.5 < np.polyfit(np.log(rates), np.log(plain), 1)[0] < 1.2
    assert (np.diff(better) < 0).all()


def test_rows_that_are_left_out_have_no_effect() -> None:
    classifier, labels = smooth()
    tangent = linearise(classifier)
    setting = FinetuneSetting(rate=0.01, steps=10, batch=8)
    keep = np.arange(0, 30, 2)
    wrong = labels.clone()
    wrong[1::2] = 1 - wrong[1::2]
    kept = [forecast_outputs(tangent, each[:30], setting, [10], keep=keep) for each in (labels, wrong)]
    torch.testing.assert_close(kept[0], kept[1])


def test_batches_are_epochs_in_random_order() -> None:
    setting = FinetuneSetting(steps=7, batch=4)
    batches = setting.batches(10)
    assert [len(batch) for batch in batches] == [4, 4, 2, 4, 4, 2, 4]
    assert sorted(np.concatenate(batches[:3])) == list(range(10))
    again = setting.batches(10)
    assert all(np.array_equal(one, two) for one, two in zip(batches, again, strict=True))
    assert not np.array_equal(batches[0], replace(setting, seed=2).batches(10)[0])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rate": 0.0}, "rate must be a finite number above 0"),
        ({"steps": 0}, "steps must be a whole number of at least 1"),
        ({"warm_up": 99}, "warm_up must lie between 0 and 48"),
        ({"betas": (1.0, 0.9)}, "betas must be two numbers of at least 0 and below 1"),
        ({"batch": True}, "batch must be a whole number"),
        ({"momentum": 1.0}, "momentum must be at least 0 and below 1"),
        ({"weight_decay": -1.0}, "weight_decay must be finite and not negative"),
    ],
)
def test_settings_are_checked(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        FinetuneSetting(**changes)
