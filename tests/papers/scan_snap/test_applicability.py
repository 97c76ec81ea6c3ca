"""Which assumptions a setting meets, and what it may therefore predict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from foretrain import SGD, train
from foretrain.core.errors import InputError
from foretrain.data import SequenceClasses
from foretrain.data.sequence_classes import SequenceBatch
from foretrain.models import Bilinear
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.experiments.training_map import training_map
from foretrain.papers.scan_snap.simulations.full_gradient import (
    EveryClass,
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
        "Small noise": (P, {**good, "batch": 1, "eta_y": 0.3}),
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


@dataclass(frozen=True)
class DrawnClasses:
    """A task that draws the class of each sample, and gives its tokens exactly in proportion to P(token | class)."""

    task: SequenceClasses

    def sample(self, n: int, generator: np.random.Generator | int) -> SequenceBatch:
        every = EveryClass(self.task).sample(self.task.classes, 0)
        drawn = np.random.default_rng(generator).integers(0, self.task.classes, n)
        return SequenceBatch(self.task, drawn, every.support_counts[drawn])


def _trained_and_predicted(classes: int, vocab: int, overlap: float, eta_y: float, eta_z: float, batch: int) -> float:
    """z of the dominant tokens at t0 in training on drawn classes, over that of the flow; eight seeds."""
    P = shared_token_classes(classes, vocab, common=common_for_overlap(overlap))
    task = SequenceClasses(P, [0] * classes, length=2)
    model = Bilinear(task, dtype=torch.float64)
    t0 = round(float(theory.snap_time(eta_y=eta_y, vocab=vocab, classes=classes)))
    run = train(
        model,
        DrawnClasses(task),
        optimizer=SGD({"Y": eta_y, "Z": eta_z}),
        steps=t0,
        batch=batch,
        seeds=8,
        record={"z": lambda parameters: (("query", "token"), model.attention_logits(parameters))},
        save_at=[t0],
    )
    trained = run["z"].isel(token=slice(1, 2 * classes + 1, 2)).mean().item()
    return float(trained / theory.predicted_logits(P, eta_y=eta_y, eta_z=eta_z, times=[t0])[0, 1])


@pytest.mark.parametrize(
    ("classes", "vocab", "overlap", "eta_y", "eta_z", "farther"),
    [(20, 300, 0.1, 1.0, 5.0, 50), (10, 1000, 0.2, 0.5, 2.5, 5), (5, 300, 0.3, 0.5, 2.5, 1.7)],
)
def test_single_samples_move_attention_much_farther_than_the_flow_and_it_says_so(
    classes: int, vocab: int, overlap: float, eta_y: float, eta_z: float, farther: float
) -> None:
    P = shared_token_classes(classes, vocab, common=common_for_overlap(overlap))
    assert _trained_and_predicted(classes, vocab, overlap, eta_y, eta_z, batch=1) > farther
    found = theory.applies(P, eta_y=eta_y, eta_z=eta_z)
    assert "predicted_logits" not in _meaningful(found)
    assert not found["Small noise"].met
    assert not found["Steady attention"].met
    assert theory.applies(P, eta_y=eta_y, eta_z=eta_z, batch="all classes")["Small noise"].met


@pytest.mark.parametrize(("ratio", "batch"), [(0.2, 1), (3.0, 1), (1.0, 4), (30.0, 4)])
def test_where_noise_is_as_large_as_allowed_training_is_near_the_flow(ratio: float, batch: int) -> None:
    classes, vocab, overlap = 10, 300, 0.5
    eta_z = 0.29 * batch / (1 + ratio)
    P = shared_token_classes(classes, vocab, common=common_for_overlap(overlap))
    assert "predicted_logits" in _meaningful(theory.applies(P, eta_y=ratio * eta_z, eta_z=eta_z, batch=batch))
    near = _trained_and_predicted(classes, vocab, overlap, ratio * eta_z, eta_z, batch)
    assert near == pytest.approx(1, abs=0.1)


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
