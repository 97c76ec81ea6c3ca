"""Which assumptions a setting meets, and what it may therefore predict."""

from __future__ import annotations

import numpy as np
import pytest

from foretrain.core.errors import InputError
from foretrain.data import SequenceClasses
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.experiments.training_map import training_map
from foretrain.papers.scan_snap.simulations.full_gradient import (
    common_for_overlap,
    shared_token_classes,
    trained_logits,
)
from foretrain.papers.scan_snap.theory.applicability import STEP_ALLOWED


def _meaningful(found: theory.Applicability) -> set[str]:
    return {p.function for p in found.predictions if p.meaningful}


def test_a_setting_that_meets_everything_but_lemma_3() -> None:
    """K = 2 with overlap .45 and M = 200 meets Assumptions 1 and 2; Theorem 4 fails all the same."""
    P = shared_token_classes(2, 200, common=common_for_overlap(0.45))
    found = theory.applies(P, eta_y=0.2, eta_z=2e-4, length=10**6)
    assert [c.name for c in found.conditions if c.met is False] == ["Gradient of Lemma 3"]
    assert found["Assumption 2"].met
    assert _meaningful(found) == {"fates", "relative_gain", "snap_time", "predicted_logits"}
    assert found.snap_time == pytest.approx(theory.snap_time(eta_y=0.2, vocab=200, classes=2))


def test_the_setting_of_figure_3_misses_assumption_1c_by_a_thousand() -> None:
    """Fig 3: η_Y/η_Z = .2 where about 200 is needed; Assumption 2 cannot be met at K = 10, M = 1000."""
    found = theory.applies(shared_token_classes(10, 1000, common=0.2), eta_y=0.1, eta_z=0.5, batch="all classes")
    assert found["Assumption 1(c)"].miss == pytest.approx(1000, rel=0.2)
    assert "no features can meet" in found["Assumption 2"].measured
    assert found["Assumption 1(b)"].met is None
    assert _meaningful(found) == {"predicted_logits"}


def test_each_condition_is_missed_by_what_breaks_it_alone() -> None:
    good = {"eta_y": 0.2, "eta_z": 2e-4, "length": 10**6, "batch": 64}
    P = shared_token_classes(2, 200, common=common_for_overlap(0.45))
    even = shared_token_classes(2, 200, common=common_for_overlap(0.45, (0.5, 0.5)), shares=(0.5, 0.5))
    uneven = P.copy()
    uneven[:, 1:5] *= 0.98
    uneven[:, 190:192] = 0.02 * (1 - P[:, :1]) * np.array([[0.3, 0.7], [0.6, 0.4]])
    cases = {
        "Assumption 1(b)": (P, {**good, "length": 20}),
        "Assumption 1(c)": (P, {**good, "eta_z": 0.9}),
        "Theorem 1": (P, {**good, "eta_y": 1e-3, "eta_z": 1e-6}),
        "Short steps": (P, {**good, "eta_y": 0.4}),
        "Equal classes": (P, {**good, "class_weights": [0.9, 0.1]}),
        "One query": (P, {**good, "query": [0, 1]}),
        "Common tokens": (uneven, good),
        "Dominant token": (even, good),
        "Assumption 2": (shared_token_classes(2, 200, common=common_for_overlap(0.1)), good),
    }
    for name, (table, setting) in cases.items():
        missed = {c.name for c in theory.applies(table, **setting).conditions if c.met is False}
        assert missed == {name, "Gradient of Lemma 3"}, name


@pytest.mark.parametrize(("factor", "meets"), [(0.99, True), (2.0, False)])
def test_short_steps_are_those_that_the_flow_predicts(factor: float, meets: bool) -> None:
    """Gradient steps of η_Y/K at the limit, and of twice that, against the flow at a quarter of t0, its worst time."""
    K, rate = 2, factor * STEP_ALLOWED
    run = training_map.run(overlap=(0.1, 0.6), classes=(K,), vocab=(50,), ratio=(1.0, 100.0), at=(0.25,), rate=rate)
    error = float(abs(run["predicted"].sel(prediction="flow") / run["trained"] - 1).max())
    assert (error < 0.1) == meets
    P = shared_token_classes(K, 50, common=0.2)
    assert theory.applies(P, eta_y=K * rate, eta_z=0.01)["Short steps"].met == meets


def test_a_task_brings_its_own_queries_length_and_weights() -> None:
    found = theory.applies(SequenceClasses.syn_medium(3, length=128), eta_y=1.0, eta_z=0.5)
    assert found["One query"].miss == 3
    assert "T = 128" in found["Assumption 1(b)"].measured


def test_it_prints_as_a_table_and_refuses_nonsense() -> None:
    found = theory.applies(shared_token_classes(3, 20, common=0.2), eta_y=0.1, eta_z=0.5)
    text = str(found)
    assert max(map(len, text.splitlines())) <= 100
    assert theory.TIME_UNIT in text
    assert len(found.rows()) == len(found.conditions) + len(found.predictions)
    with pytest.raises(InputError, match="There is no condition"):
        found["Assumption 3"]
    with pytest.raises(InputError, match="sum to 1"):
        theory.applies([[0.5, 0.1, 0.1, 0.1], [1, 0, 0, 0]], eta_y=1.0, eta_z=1.0)
    with pytest.raises(InputError, match="eta_y"):
        theory.applies(shared_token_classes(3, 20, common=0.2), eta_y=0.0, eta_z=0.5)


def _trained(P: np.ndarray, eta_y: float, eta_z: float, batch: int, t0: int) -> float:
    """Mean z of the dominant tokens at t0 in training on drawn classes; eight seeds."""
    run = trained_logits(P, eta_y=eta_y, eta_z=eta_z, save_at=[t0], batch=batch, seeds=8, drawn_classes=True)
    return float(run["z"].isel({"class": 0, "token": slice(1, 2 * len(P) + 1, 2)}).mean())


def _task(classes: int, vocab: int, overlap: float, eta_y: float) -> tuple[np.ndarray, int]:
    P = shared_token_classes(classes, vocab, common=common_for_overlap(overlap))
    return P, round(float(theory.snap_time(eta_y=eta_y, vocab=vocab, classes=classes)))


@pytest.mark.parametrize(
    ("classes", "vocab", "overlap", "eta_y", "eta_z", "farther"),
    [
        (20, 300, 0.1, 1.0, 5.0, 50),
        (20, 300, 0.6, 3.0, 3.0, 3),
        (10, 1000, 0.2, 0.5, 2.5, 5),
        (5, 300, 0.3, 0.5, 2.5, 1.7),
    ],
)
def test_single_samples_move_attention_much_farther_than_the_flow_and_it_says_so(
    classes: int, vocab: int, overlap: float, eta_y: float, eta_z: float, farther: float
) -> None:
    P, t0 = _task(classes, vocab, overlap, eta_y)
    rates = {"eta_y": eta_y, "eta_z": eta_z}
    flow = theory.predicted_logits(P, **rates, times=[t0])[0, 1]
    assert _trained(P, **rates, batch=1, t0=t0) > farther * flow
    found = theory.applies(P, **rates)
    assert "predicted_logits" not in _meaningful(found)
    assert not found["Small noise"].met
    assert theory.applies(P, **rates, batch="all classes")["Small noise"].met


@pytest.mark.parametrize(("overlap", "ratio"), [(0.6, 50.0), (0.3, 1.0)])
def test_single_samples_are_predicted_where_the_flow_is_too_slow(overlap: float, ratio: float) -> None:
    """At a quarter of t0 noise has added 19 and 15 %, which the moments know; the mean of 64 runs is known to 2 %."""
    P, t0 = _task(5, 300, overlap, 0.5)
    setting = {"eta_y": 0.5, "eta_z": 0.5 / ratio}
    assert "predicted_logits" in _meaningful(theory.applies(P, **setting))
    early = t0 // 4
    run = trained_logits(P, **setting, save_at=[early], seeds=64, drawn_classes=True)
    trained = float(run["z"].isel({"class": 0, "token": slice(1, 11, 2)}).mean())
    flow, moments = (theory.predicted_logits(P, **setting, times=[early], batch=b)[0, 1] for b in (None, 1))
    assert trained / flow > 1.08
    assert trained == pytest.approx(moments, rel=0.06)


@pytest.mark.parametrize(("ratio", "batch"), [(0.2, 1), (3.0, 1), (1.0, 4), (30.0, 4)])
def test_training_on_few_samples_is_near_the_moments(ratio: float, batch: int) -> None:
    classes, vocab, overlap = 10, 300, 0.5
    eta_z = 0.29 * batch / (1 + ratio)
    P = shared_token_classes(classes, vocab, common=common_for_overlap(overlap))
    assert "predicted_logits" in _meaningful(theory.applies(P, eta_y=ratio * eta_z, eta_z=eta_z, batch=batch))
    t0 = round(float(theory.snap_time(eta_y=ratio * eta_z, vocab=vocab, classes=classes)))
    rates = {"eta_y": ratio * eta_z, "eta_z": eta_z}
    moments = theory.predicted_logits(P, **rates, times=[t0], batch=batch)[0, 1]
    assert _trained(P, **rates, batch=batch, t0=t0) == pytest.approx(moments, rel=0.05)


def test_attention_runs_away_even_with_every_class_in_every_step_if_its_rate_is_large() -> None:
    P = shared_token_classes(20, 300, common=common_for_overlap(0.6))
    t0 = round(float(theory.snap_time(eta_y=2.0, vocab=300, classes=20)))
    for eta_z, runs_away in ((10.0, True), (1.0, False)):
        z = trained_logits(P, eta_y=2.0, eta_z=eta_z, save_at=[t0 // 4])["z"].values[..., 1].item(0)
        flow = theory.predicted_logits(P, eta_y=2.0, eta_z=eta_z, times=[t0 // 4])[0, 1]
        assert (z > 2 * flow) == runs_away
        found = theory.applies(P, eta_y=2.0, eta_z=eta_z, batch="all classes")
        assert ("predicted_logits" in _meaningful(found)) != runs_away


def test_a_batch_is_a_number_or_all_classes() -> None:
    for batch in (0, "all"):
        with pytest.raises(InputError, match="batch must be a whole number of at least 1"):
            theory.applies(shared_token_classes(3, 20, common=0.2), eta_y=0.1, eta_z=0.5, batch=batch)
