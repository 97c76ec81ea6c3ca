"""The grid of trained networks: samples needed, tasks by name and by file, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from foretrain.errors import InputError
from foretrain.papers.abstract_symbols.experiments import data_need
from foretrain.papers.abstract_symbols.experiments.architectures import train
from foretrain.papers.abstract_symbols.experiments.data_need import predicted_need
from foretrain.papers.abstract_symbols.experiments.trained import VANILLA, WITH_A, cell, n_needed, setting_called
from foretrain.trajectory import trajectory

QUICK = {"setting": "glance", "epochs": 2, "rates": (1e-2,), "seeds": 1, "told_every": 0}


def curves(*losses):
    return trajectory(
        {"test_loss": (("seed", "n"), np.array(losses))}, {"seed": range(len(losses)), "n": [10, 100, 1000]}
    )


def test_samples_needed_is_interpolated_between_sizes():
    assert float(n_needed(curves([1.0, 0.1001, 0.01]), 0.1)) == pytest.approx(100, rel=0.01)
    assert float(n_needed(curves([10.0, 1.0, 0.01]), 0.1)) == pytest.approx(10**2.5)
    assert float(n_needed(curves([0.01, 0.01, 0.01]), 0.1)) == 10
    assert float(n_needed(curves([1.0, 1.0, 0.5]), 0.1)) == np.inf
    # seeds are averaged first, and a later rise counts
    assert float(n_needed(curves([0.0, 1.0, 0.0], [0.02, 1.0, 0.02]), 0.1)) > 100


def test_samples_needed_refuses_what_has_no_sizes():
    with pytest.raises(InputError, match="over n"):
        n_needed(curves([1.0, 1.0, 1.0]).isel(n=0, drop=True))


def made_up_runs(misses):
    """In place of training: the test loss, over that of a guess, of each size by architecture."""

    def at_its_rate(task, architecture, *, n, seeds, setting, good_enough):
        run.append((architecture, n))
        assert good_enough == pytest.approx(0.01)  # a tenth of .1, and same/different is ±1
        values = np.asarray(misses[architecture][n], dtype=float)
        return trajectory({"test_loss": ("seed", values)}, {"seed": seeds})

    run = []
    return at_its_rate, run


def test_data_need_stops_where_every_seed_is_below_and_the_plain_need_is_at_least_the_largest_size(monkeypatch):
    plain = {10: (1.0, 1.0), 100: (1.0, 0.9), 1000: (0.5, 0.6)}
    ours = {10: (1.0, 1.0), 100: (0.01, 0.01)}
    train, run = made_up_runs({VANILLA: plain, WITH_A: ours})
    monkeypatch.setattr(data_need, "at_its_rate", train)
    found = data_need.data_need(("same_different",), (10, 100, 1000), (VANILLA, WITH_A), seeds=2).isel(task=0)
    assert run == [(VANILLA, 10), (VANILLA, 100), (VANILLA, 1000), (WITH_A, 10), (WITH_A, 100)]
    assert found.n_needed.sel(architecture=VANILLA) == np.inf
    needed = float(found.n_needed.sel(architecture=WITH_A))
    assert needed == pytest.approx(10**1.5)  # half way in log loss
    a = found.sel(architecture=WITH_A)
    assert float(a.factor) == float(a.factor_low) == float(a.factor_high) == pytest.approx(1000 / needed)
    assert found.factor.sel(architecture=VANILLA).isnull()


def test_the_interval_of_a_factor_covers_what_seeds_may_give(monkeypatch):
    plain = {10: (1.0, 1.0, 1.0), 100: (1.0, 1.0, 0.001), 1000: (0.01, 0.01, 0.01)}
    train, _ = made_up_runs({VANILLA: plain, WITH_A: {10: (0.01, 0.01, 0.01)}})
    monkeypatch.setattr(data_need, "at_its_rate", train)
    found = data_need.data_need(("same_different",), (10, 100, 1000), (VANILLA, WITH_A), seeds=3).isel(task=0)
    a = found.sel(architecture=WITH_A)
    assert float(a.factor_low) < float(a.factor) <= float(a.factor_high)


def test_a_task_of_ones_own(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('alphabet = 7\n[[template]]\nstring = "αα"\nlabel = 1\n[[template]]\nstring = "αβ"\nlabel = -1\n')
    found = train(task=str(file), n=9, identity_kq=True, **QUICK)
    assert found.attrs["architecture"] == WITH_A
    assert found.validation_curve.sizes == {"rate": 1, "seed": 1, "epoch_done": 2}
    assert np.isfinite(found.test_loss).all()


def test_training_tells_loss_and_accuracy(capsys):
    train(n=8, **{**QUICK, "told_every": 1})
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "on unseen symbols" in lines[0]
    assert "accuracy" in lines[0]


def test_architectures_of_one_seed_share_their_data():
    a, b = (
        cell("aba_abb", name, n=8, seeds=1, setting=setting_called("glance", epochs=1)) for name in (VANILLA, WITH_A)
    )
    # a·I begins at 0, so the first epoch's training loss is that of the same network on the same samples
    np.testing.assert_allclose(a.train_curve, b.train_curve, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"n": 0}, "n must be a whole number of at least 1; got 0"),
        ({"n": 1}, "alphabet"),
        ({"task": "aba_abc"}, "no task 'aba_abc'"),
        ({"setting": "huge"}, "no setting 'huge'"),
        ({"rates": (float("inf"),)}, "finite number above 0"),
    ],
)
def test_refusals_are_one_sentence(change, sentence):
    with pytest.raises(InputError, match=sentence):
        train(**{"n": 8, **QUICK, **change})


def test_kernels_predict_that_a_helps_and_that_an_mlp_never_learns():
    assert predicted_need("same_different", WITH_A, 0.1) < predicted_need("same_different", VANILLA, 0.1) < np.inf
    assert predicted_need("same_different", "MLP", 0.1) == np.inf
