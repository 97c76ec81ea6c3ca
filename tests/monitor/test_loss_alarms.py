"""The alarm that reads the loss at every step."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrain.monitor.alarms import Alarm, Thresholds, Watcher, alarms_of, in_words
from foretrain.monitor.loss_alarms import LossAboveLeast, values_of
from foretrain.runs.training_log import Record, append_line, read_lines

RULES = Thresholds(loss_steps=5, loss_rise=0.05, loss_noise=1.5)
LOSS = "loss above its least"


def records(losses: list[Any], norms: list[Any] | None = None, every: int = 10) -> list[Record]:
    """As the monitor writes them: at steps 0, `every`, 2 · `every`, … what came since the last record."""
    made: list[Record] = []
    first = 0
    for step in range(0, len(losses), every):
        part: dict[str, Any] = {"first": first, "loss": losses[first : step + 1]}
        if norms is not None:
            part["gradient_norm"] = norms[first : step + 1]
        made.append({"step": step, "loss": losses[step], "every_step": part})
        first = step + 1
    return made


def kinds(alarms: list[Alarm]) -> list[tuple[str, int]]:
    return [(alarm.kind, alarm.step) for alarm in alarms]


RISING = [2.0] * 33 + [3.0] * 18


def test_a_loss_that_rises_is_an_alarm_at_the_next_record() -> None:
    alarms = alarms_of(records(RISING), RULES)
    assert kinds(alarms) == [(LOSS, 40)]
    assert alarms[0].where == "loss"
    assert str(alarms[0]).startswith(
        "loss above its least at step 40: its median over 5 steps rose from 2 at step 4 to 3 at step 35."
    )
    assert in_words(alarms)[0].endswith("or look at the data since then.")


def test_the_loss_between_records_counts_and_not_only_that_of_the_record() -> None:
    spike = [2.0] * 31 + [4.0] * 8 + [2.0] * 12  # over before the record of step 40
    assert kinds(alarms_of(records(spike), RULES)) == [(LOSS, 40)]
    without = [{key: record[key] for key in ("step", "loss")} for record in records(spike)]
    assert alarms_of(without, RULES) == []


def test_without_losses_of_every_step_those_of_the_records_are_used() -> None:
    bare = [{"step": 50 * place, "loss": loss} for place, loss in enumerate([2.0] * 8 + [3.0] * 8)]
    assert kinds(alarms_of(bare, RULES)) == [(LOSS, 500)]  # the third of five


def test_noise_is_no_rise_and_neither_is_a_slow_fall() -> None:
    random = np.random.default_rng(0)
    noisy = (1.0 + 0.5 * random.random(400)).tolist()
    assert alarms_of(records(noisy), RULES) == []
    blind = Thresholds(loss_steps=5, loss_rise=0.05, loss_noise=-10.0)
    assert kinds(alarms_of(records(noisy), blind)) == [(LOSS, 10)]
    assert alarms_of(records(np.linspace(4, 2, 200).tolist()), RULES) == []
    assert alarms_of(records((-1 - 0.01 * np.arange(100)).tolist()), RULES) == []  # a loss below zero


@pytest.mark.parametrize("steps", [500, 5000])
def test_pure_noise_seldom_sets_off_an_alarm_however_long_it_is(steps: int) -> None:
    random = np.random.default_rng(steps)
    hit = 0
    for _ in range(10_000 // steps):
        rule = LossAboveLeast(20, 0.0, 2.0)
        rises = [rule.add(step, loss) for step, loss in enumerate(random.normal(2, 1, steps).tolist())]
        hit += any(rises)
    assert hit <= 2  # of 20 and of 2; the chance of each is 2 to 3 %


def test_one_bad_batch_is_no_rise() -> None:
    assert alarms_of(records([2.0] * 33 + [500.0] + [2.0] * 30), RULES) == []


@pytest.mark.parametrize("value", [math.nan, math.inf, "nan"])
def test_one_loss_that_is_not_finite_is_an_alarm_wherever_it_is(value: Any) -> None:
    losses: list[Any] = [2.0] * 61
    losses[17] = value
    assert kinds(alarms_of(records(losses), RULES)) == [("not a number", 17)]


@pytest.mark.parametrize(
    "part",
    [
        None,
        {},
        [],
        {"loss": None},
        {"loss": 3.0},
        {"first": 1, "loss": []},
        {"first": 38, "loss": [None, None, "nan?"]},
    ],
)
def test_a_part_that_is_missing_or_damaged_sets_off_no_error(part: Any) -> None:
    broken = records([2.0] * 61)
    broken[4]["every_step"] = part
    assert {alarm.kind for alarm in alarms_of(broken, RULES)} <= {"not a number"}


def test_values_of_every_step() -> None:
    record: Record = {"step": 43, "loss": 9.0, "every_step": {"first": 41, "loss": [1.0, None, 3.0]}}
    assert values_of(record, "loss") == [(41, 1.0), (43, 3.0)]
    assert values_of(record, "gradient_norm") == []
    assert values_of({"step": 43, "loss": 9.0}, "loss") == [(43, 9.0)]
    assert values_of({"step": 43, "every_step": {"loss": [1.0, 2.0]}}, "loss") == [(42, 1.0), (43, 2.0)]
    assert values_of({"step": 43}, "loss") == []


def test_records_on_disk_give_the_same_alarms(tmp_path: Any) -> None:
    losses = [*RISING[:40], math.nan, *RISING[40:]]
    for record in records(losses, [math.inf] * len(losses)):
        append_line(tmp_path / "run.jsonl", record)
    read = alarms_of(read_lines(tmp_path / "run.jsonl"), RULES)
    assert read == alarms_of(records(losses), RULES)
    assert {alarm.kind for alarm in read} == {LOSS, "not a number"}


def test_a_training_that_goes_back_repeats_its_steps() -> None:
    once = records(RISING)
    assert alarms_of([*once[:3], *once[1:]], RULES) == alarms_of(once, RULES)


NUMBERS = st.lists(st.one_of(st.none(), st.floats(0, 10), st.sampled_from([math.nan, math.inf])), max_size=80)


@given(losses=NUMBERS, kept=st.integers(0, 8))
def test_no_alarm_looks_ahead_and_a_replay_says_the_same(losses: list[Any], kept: int) -> None:
    made = records(losses, losses)
    alarms = alarms_of(made, RULES)
    assert alarms_of(made[:kept], RULES) == [alarm for alarm in alarms if alarm.step < 10 * kept]
    watcher = Watcher(RULES)
    assert [alarm for record in json.loads(json.dumps(made)) for alarm in watcher.update(record)] == alarms


def test_the_rule_forgets_what_is_long_past() -> None:
    rule = LossAboveLeast(5, 0.05, 1.5)
    for step in range(1000):
        rule.add(step, 2.0)
    assert len(rule.last) == 100
