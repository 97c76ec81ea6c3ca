"""Vectorised training against a plain loop, and the promises `train` makes about runs, seeds and divergence."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
import xarray as xr
from torch.nn.functional import cross_entropy, one_hot

from foretrain import SGD, Adagrad, Adam, InputError, train
from foretrain.core.progress import Progress, listening
from foretrain.core.streams import stream
from foretrain.data import SequenceClasses
from foretrain.dynamics.optimizers import check_rates
from foretrain.dynamics.train import STEPS_AT_ONCE
from foretrain.models import Bilinear

TASK = SequenceClasses.syn_medium(2, length=20)
OPTIMIZERS = {
    "momentum": (lambda rate: SGD(rate, momentum=0.9), lambda groups: torch.optim.SGD(groups, momentum=0.9)),
    "adam": (Adam, torch.optim.Adam),
    "adagrad": (Adagrad, torch.optim.Adagrad),
}


def parameters(model):
    def measure(state):
        Y, Z = model.full(state)
        return ("matrix", "row", "column"), torch.stack([Y, Z], dim=2)

    return measure


def run(optimizer, *, model=None, steps=6, **more):
    model = model or Bilinear(TASK, start="uniform", dtype=torch.float64)
    return train(
        model, TASK, optimizer=optimizer, steps=steps, batch=16, record={"p": parameters(model)}, experiment="t", **more
    )


def plain_loop(make, rates, seed, steps):
    """One run: one-hot tokens, autograd, torch.optim."""
    model = Bilinear(TASK, start="uniform", dtype=torch.float64)
    start = model.full({name: value[None] for name, value in model.start([("t", seed, "start")]).items()})
    Y, Z = (matrix[0, 0].clone().requires_grad_() for matrix in start)
    optimizer = make([{"params": [Y], "lr": rates[0]}, {"params": [Z], "lr": rates[1]}])
    drawn = TASK.sample(16 * STEPS_AT_ONCE, stream("t", seed, "data"), sequences=True)
    for step in range(steps):
        now = slice(16 * step, 16 * (step + 1))
        X = one_hot(torch.from_numpy(drawn.sequences[now]), TASK.vocab).double()
        b = torch.softmax((X * Z[torch.from_numpy(drawn.queries[now])][:, None]).sum(-1), dim=1)
        u = (b[..., None] * X).sum(1)
        loss = cross_entropy((u / u.norm(dim=1, keepdim=True)) @ Y, torch.from_numpy(drawn.labels[now]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return torch.stack([Y, Z]).detach().numpy()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_equals_a_plain_loop(name):
    ours, theirs = OPTIMIZERS[name]
    eta_y, eta_z = xr.DataArray([0.2, 2.0], dims="eta_y"), xr.DataArray([0.1, 0.7], dims="eta_z")
    found = run(ours({"Y": eta_y, "Z": eta_z}), seeds=[4, 9])
    for i, j, seed in [(0, 0, 4), (1, 0, 9), (0, 1, 9), (1, 1, 4)]:
        rates = (float(eta_y[i]), float(eta_z[j]))
        expected = plain_loop(theirs, rates, seed, steps=6)
        got = found["p"].isel(eta_y=i, eta_z=j, time=-1).sel(seed=seed).values
        # Adam and Adagrad divide by the size of the gradient: a rounding of 1e-17 in a tiny one is not small
        assert np.abs(got - expected).max() < (1e-12 if name == "momentum" else 1e-8)


def test_no_number_depends_on_what_runs_together():
    rates = xr.DataArray([0.5, 1.0, 4.0], dims="rate", coords={"rate": [0.5, 1.0, 4.0]})
    together = run(SGD(rates, momentum=0.9), seeds=[1, 2, 3], seeds_at_once=3)
    apart = run(SGD(rates, momentum=0.9), seeds=[1, 2, 3], seeds_at_once=1)
    xr.testing.assert_equal(together, apart)
    alone = run(SGD(1.0, momentum=0.9), seeds=[2])
    assert np.array_equal(together["p"].sel(rate=1.0, seed=2), alone["p"].isel(seed=0))


def test_more_steps_go_on_from_fewer():
    short, long = run(SGD(1.0), steps=3), run(SGD(1.0), steps=14, save_at=[0, 3, 14])
    assert np.array_equal(short["p"].sel(time=3), long["p"].sel(time=3))
    assert long.sizes["time"] == 3
    assert run(SGD(1.0), steps=0).sizes["time"] == 1


def test_a_diverging_run_is_reported_with_its_step_and_the_others_go_on():
    """float32 overflows at 3e38: this rate takes a few steps to get there."""
    model = Bilinear(TASK, start="uniform", dtype=torch.float32)
    rates = xr.DataArray([1.0, 1e38], dims="rate")
    more = {"model": model, "steps": 12, "save_at": range(13), "seeds": 2}
    with pytest.warns(UserWarning, match="2 of 4 runs diverged, the first at step") as warned:
        found = run(SGD({"Y": rates, "Z": 1.0}, momentum=0.99), **more)
    assert found.diverged_at.isel(rate=0).isnull().all()
    steps = found.diverged_at.isel(rate=1)
    assert (steps > 1).all()
    assert f"step {int(steps.min())}." in str(warned[0].message)
    for seed in range(2):
        finite = np.isfinite(found["p"].isel(rate=1, seed=seed)).all(["matrix", "row", "column"]).values
        assert finite[: int(steps[seed])].all()
        assert not finite[int(steps[seed]) :].any()
    good = run(SGD({"Y": 1.0, "Z": 1.0}, momentum=0.99), **more)
    assert np.array_equal(found["p"].isel(rate=0), good["p"])


def test_progress_is_told_from_time_to_time(monkeypatch):
    module, events = sys.modules["foretrain.dynamics.train"], list[Progress]()
    with listening(events.append):
        monkeypatch.setattr(module, "TELL_EVERY", 1000.0)
        run(SGD(1.0), steps=4, seeds=2)
        assert events == []
        monkeypatch.setattr(module, "TELL_EVERY", 0.0)
        run(SGD(1.0), steps=4, seeds=3, seeds_at_once=2)
    assert [(event.done, event.total, event.inner) for event in events] == [(k, 8, True) for k in range(1, 9)]
    assert [event.doing for event in events[3:5]] == ["seeds 1 to 2 of 3, step 4 of 4", "seed 3 of 3, step 1 of 4"]


def test_axes_and_units():
    found = run(SGD({"Y": xr.DataArray([1.0, 2.0], dims="eta_y", coords={"eta_y": [1.0, 2.0]}), "Z": 1.0}), seeds=3)
    assert found["p"].dims == ("eta_y", "seed", "time", "matrix", "row", "column")
    assert found.seed.values.tolist() == [1, 2, 3]
    assert found.time.attrs["units"] == "steps"


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"steps": -1}, "steps must be a whole number of at least 0; got -1"),
        ({"batch": 0}, "batch must be a whole number of at least 1; got 0"),
        ({"seeds": 0}, "seeds must be at least 1; got 0"),
        ({"seeds": []}, "at least one seed"),
        ({"seeds": [3, 3]}, "must differ"),
        ({"save_at": [2]}, "save_at must name whole steps between 0 and 1"),
        ({"seeds_at_once": -1}, "seeds_at_once must be a whole number of at least 1"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(bad, words):
    arguments = {"steps": 1, "batch": 4, "seeds": 1, **bad}
    with pytest.raises(InputError, match=words):
        train(Bilinear(TASK), TASK, optimizer=SGD(1.0), record={}, **arguments)


def test_a_rate_cannot_take_the_axis_of_the_runs():
    rate = xr.DataArray([1.0, 2.0], dims="seed")
    with pytest.raises(InputError, match=r"axis named .'seed'"):
        train(Bilinear(TASK), TASK, optimizer=SGD(rate), steps=1, batch=4, record={})


@pytest.mark.parametrize("bad", ["x", [0.1, 0.2], {"Z": "a"}, {"Z": [0.1]}])
def test_a_rate_is_a_number_or_has_named_axes(bad):
    with pytest.raises(InputError, match=r"must be a number or an xarray\.DataArray"):
        check_rates(bad)
