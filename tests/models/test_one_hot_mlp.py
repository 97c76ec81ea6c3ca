"""The MLP of appendix I: many runs at once are those runs, and exchanged inputs exchange outputs."""

from __future__ import annotations

import pytest
import torch

from foretrain.core.errors import InputError
from foretrain.models.one_hot_mlp import OneHotMLP

STRINGS = torch.tensor([[0, 1, 2], [3, 3, 1]])
LABELS = torch.tensor([1.0, -1.0], dtype=torch.float64)


@pytest.mark.parametrize("layers", [1, 3])
def test_runs_do_not_see_each_other(layers: int) -> None:
    model = OneHotMLP(4, 3, width=5, layers=layers)
    all_runs = model.draw(3, torch.Generator().manual_seed(1))
    together = model.gradient(all_runs, STRINGS, LABELS)
    for run in range(3):
        alone = model.gradient({n: v[run : run + 1] for n, v in all_runs.items()}, STRINGS, LABELS)
        for name, gradient in alone.items():
            assert torch.allclose(together[name][run], gradient[0], atol=1e-14)


def test_gradient_is_that_of_the_mean_squared_error() -> None:
    model = OneHotMLP(4, 3, width=5)
    start = model.draw(1, torch.Generator().manual_seed(2))
    gradient = model.gradient(start, STRINGS, LABELS)["W1"][0]
    step = 1e-6
    moved = start["W1"].clone()
    moved[0] += step * gradient
    losses = [float(((model.outputs({**start, "W1": W}, STRINGS) - LABELS) ** 2).mean()) for W in (start["W1"], moved)]
    assert (losses[1] - losses[0]) / step == pytest.approx(float((gradient**2).sum()), rel=1e-4)


def test_exchanged_inputs() -> None:
    model = OneHotMLP(6, 3, width=5, layers=2)
    start = model.draw(4, torch.Generator().manual_seed(3))
    first, second = torch.tensor([4, 4, 5]), torch.tensor([5, 4, 4])
    turned = model.exchanged(start, first, second)
    assert torch.equal(model.outputs(turned, first[None]), model.outputs(start, second[None]))
    seen = torch.tensor([[0, 1, 2]])
    assert torch.equal(model.outputs(turned, seen), model.outputs(start, seen))
    assert not torch.equal(model.outputs(turned, first[None]), model.outputs(start, first[None]))


def test_bad_input() -> None:
    with pytest.raises(InputError, match="layers must be at least 1"):
        OneHotMLP(4, 3, layers=0)
