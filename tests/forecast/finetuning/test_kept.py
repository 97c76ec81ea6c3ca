"""A pass that was kept on disk gives the same forecasts as the one in memory, without the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecast.finetuning.models import smooth
from foretrain.core.errors import DamagedFile, InputError
from foretrain.core.trajectory import load_file, save, trajectory
from foretrain.forecast.finetuning.dynamics import FinetuneSetting
from foretrain.forecast.finetuning.forecast import forecast_with
from foretrain.forecast.finetuning.kept import KeptPass, kept_pass, load_pass, save_pass
from foretrain.forecast.finetuning.prepared import prepare

SETTING = FinetuneSetting(rate=1e-3, steps=10, batch=8)


@pytest.fixture(scope="module")
def kept() -> KeptPass:
    classifier, labels = smooth()
    return kept_pass(prepare(classifier, labels, rows=30), SETTING)


def test_all_coordinates_give_the_forecast_of_the_model_itself(kept: KeptPass) -> None:
    classifier, labels = smooth()
    own = forecast_with(prepare(classifier, labels, rows=30), SETTING, orders=2)
    again = forecast_with(kept, SETTING, orders=2)
    np.testing.assert_allclose(again.dataset["logits"], own.dataset["logits"], rtol=1e-9)
    assert again.summary == own.summary
    assert again.trust.turn == pytest.approx(own.trust.turn)


def test_a_part_of_the_coordinates_comes_close() -> None:
    classifier, labels = smooth(hidden=200)
    whole = prepare(classifier, labels, rows=30)
    part = kept_pass(whole, SETTING, coordinates=600)
    assert part.start.jacobian.shape[-1] == 600
    own, thin = (forecast_with(each, SETTING, orders=1).dataset for each in (whole, part))
    moved, near = (np.asarray(data["logits"][0] - data["probe_logits"]) for data in (own, thin))
    assert np.corrcoef(moved.ravel(), near.ravel())[0, 1] > 0.95


def test_it_survives_the_disk_to_the_bit(kept: KeptPass, tmp_path: Path) -> None:
    read = load_pass(save_pass(kept, tmp_path / "pass.nc"))
    assert (read.train, read.classes, read.name, read.setting) == (kept.train, kept.classes, kept.name, kept.setting)
    for changes in ({}, {"rate": 3e-3, "schedule": "cosine"}, {"batch": 4, "steps": 20}):
        setting = replace(SETTING, **changes)
        one, two = (forecast_with(each, setting, orders=1).dataset for each in (kept, read))
        np.testing.assert_array_equal(one["logits"], two["logits"])


def test_what_it_was_not_kept_for_is_refused(kept: KeptPass) -> None:
    with pytest.raises(InputError, match="must sum to between"):
        forecast_with(kept, replace(SETTING, rate=1e-2), orders=1)
    with pytest.raises(InputError, match="kept for adamw, not for sgd"):
        forecast_with(kept, replace(SETTING, optimizer="sgd"), orders=1)
    with pytest.raises(InputError, match="Real steps need the model"):
        forecast_with(kept, SETTING, orders=1).train()
    with pytest.raises(InputError, match="Real steps need the model"):
        forecast_with(kept, SETTING, orders=1).checked()


def test_other_files_and_damaged_ones_are_refused(kept: KeptPass, tmp_path: Path) -> None:
    other = save(trajectory({"x": ("time", [1.0])}), tmp_path / "other.nc")
    with pytest.raises(InputError, match="is no kept pass"):
        load_pass(other)
    path = save_pass(kept, tmp_path / "pass.nc")
    data = load_file(path)
    for name, broken in {
        "without": data.drop_vars("shares"),
        "empty": data.isel(path=slice(0)),
        "nan": data.assign(jacobian=data["jacobian"] * np.nan),
        "label": data.assign(label=data["label"] + 5),
    }.items():
        with pytest.raises(InputError):
            load_pass(save(broken, tmp_path / f"{name}.nc"))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DamagedFile):
        load_pass(path)
