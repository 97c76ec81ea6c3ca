"""Deep linear networks, Fig 3 and Fig 6: the data, the starts, and one step of descent against its formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xarray as xr

from foretrain.core.errors import InputError
from foretrain.core.streams import stream
from foretrain.papers.deep_linear import experiments, theory
from foretrain.papers.deep_linear.experiments import UNITS, Data, aligned, descend, half_times, starts


@pytest.mark.parametrize("correlated", [0.0, 2.0])
def test_data_have_the_strengths_asked_for(correlated: float) -> None:
    data = Data((4.0, 2.0), 3, correlated)
    samples = data.inputs.shape[1]
    seen = np.linalg.svd(data.outputs @ data.inputs.T / samples, compute_uv=False)
    np.testing.assert_allclose(seen[:2], [4.0, 2.0], rtol=1e-10)
    np.testing.assert_allclose(seen[2:], 0, atol=1e-10)
    whitened = np.allclose(data.inputs @ data.inputs.T / samples, np.eye(UNITS))
    assert whitened == (correlated == 0.0)


def test_a_step_is_that_of_eq_3() -> None:
    """ΔW₁ = λW₂ᵀ(Σ³¹ − W₂W₁Σ¹¹) and ΔW₂ = λ(Σ³¹ − W₂W₁Σ¹¹)W₁ᵀ, by hand."""
    data, rate = Data((3.0, 1.0), 5, 0.7), 0.01
    first, second = starts("random", [5], 0.5, (UNITS, 12, UNITS))
    inputs, outputs = torch.tensor(data.inputs)[None], torch.tensor(data.outputs)[None]
    _, (moved_first, moved_second) = descend([first, second], inputs, outputs, rate=rate, steps=1)
    samples = data.inputs.shape[1]
    wrong = data.outputs @ data.inputs.T / samples - (second @ first)[0].numpy() @ data.inputs @ data.inputs.T / samples
    np.testing.assert_allclose((moved_first - first)[0], rate * second[0].numpy().T @ wrong, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose((moved_second - second)[0], rate * wrong @ first[0].numpy().T, rtol=1e-10, atol=1e-14)


def test_starts_are_what_they_are_called() -> None:
    for matrix in starts("orthogonal", [1, 2], 1.0, (6, 6, 3)):
        np.testing.assert_allclose(
            matrix @ matrix.mT, np.broadcast_to(np.eye(matrix.shape[1]), (2, *[matrix.shape[1]] * 2)), atol=1e-12
        )
    data = [Data((2.0, 1.0), 1)]
    product = torch.eye(UNITS, dtype=torch.float64)
    for matrix in aligned(data, 0.1, 5):
        product = matrix[0] @ product
    learned = data[0].out.T @ product.numpy() @ data[0].into
    np.testing.assert_allclose(learned, 0.1**4 * np.eye(UNITS), atol=1e-12)


def test_half_times_lie_between_recorded_times() -> None:
    """Fig 3: when half of a mode is learned."""
    time = np.linspace(0, 6, 601)
    curves = theory.learned(time[:, None], np.array([3.0, 1.5]), np.array(1e-3))
    run = xr.DataArray(curves, dims=("time", "mode"), coords={"time": time})
    found = half_times(run, xr.DataArray([3.0, 1.5], dims="mode"))
    exact = theory.time_to_learn(np.array([3.0, 1.5]), np.array(1e-3), np.array([1.5, 0.75]))
    np.testing.assert_allclose(found, exact, rtol=1e-4)
    assert np.isnan(half_times(run.isel(time=slice(5)), xr.DataArray([3.0, 1.5], dims="mode"))).all()


def test_a_loss_that_is_never_reached_is_not_a_number() -> None:
    """Fig 6: a network that is too slow is no point of the figure."""
    run = experiments.depth("random", 3, (0.001,), 1, 3, 0.01)
    assert np.isnan(run.steps).all()


@pytest.mark.parametrize(("start", "layers"), [("random", 2), ("random", 3), ("aligned", 2), ("aligned", 3)])
def test_predictions_are_those_of_the_network_that_is_trained(start: str, layers: int) -> None:
    """Fig 3: also without a hidden layer, where the curves are others."""
    run = experiments.modes((4.0, 2.0), 2, start, 0.001, layers, 0.002, 4000)  # type: ignore[arg-type]
    apart = np.abs(half_times(run.learned, run.strength) / half_times(run.predicted, run.strength) - 1)
    assert float(apart.max()) < 0.02
    first = float(half_times(run.learned, run.strength).sel(mode=1).mean())
    assert (first < 1) == (layers == 2)


def test_networks_and_modes_that_are_not_there_are_refused() -> None:
    with pytest.raises(InputError, match=r"layers must be 3 \(one hidden layer\) or 2 \(none\); got 5"):
        experiments.modes(layers=5)
    with pytest.raises(InputError, match="at most as many modes; got 9"):
        experiments.modes(strengths=tuple(range(9, 0, -1)))


@pytest.mark.parametrize("left", [0.05, 0.3])
def test_steps_are_those_of_the_best_rate(left: float) -> None:
    """Fig 6: against descent one run at a time, on inputs that are a unit matrix."""
    rates, layers = (0.05, 0.4), (3, 5)
    inputs = torch.eye(experiments.DEEP, dtype=torch.float64)
    for count in layers:
        steps = experiments.depth("orthogonal", count, rates, 2, 200, left).steps
        for seed in (1, 2):
            rows = experiments._orthogonal(
                stream("deep_linear", seed, "target").normal(size=(experiments.OUTPUTS, experiments.DEEP))
            )
            wanted = torch.tensor(np.array([1.2, 1.0, 0.8])[:, None] * rows)
            needed = []
            for rate in rates:
                begin = starts("orthogonal", [seed], 1.0, (*[experiments.DEEP] * (count - 1), experiments.OUTPUTS))
                scaled = rate / (count - 1) * experiments.DEEP  # `descend` takes the mean over samples
                states = descend(begin, inputs[None], wanted[None], rate=scaled, steps=200)
                losses = [float((wanted - _product(state)[0]).square().sum()) for state in states]
                needed.append(next(k for k, loss in enumerate(losses) if loss <= left * float(wanted.square().sum())))
            assert needed[0] != needed[1]
            assert float(steps.sel(seed=seed)) == min(needed)


def _product(state: list[torch.Tensor]) -> torch.Tensor:
    product = state[0]
    for part in state[1:]:
        product = part @ product
    return product
