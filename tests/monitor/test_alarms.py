"""Each alarm comes up where and when it should, and never by looking ahead."""

from __future__ import annotations

import json
import math
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrain.monitor.alarms import CHOSEN, KINDS, Alarm, Thresholds, Watcher, alarms_of, evidence
from foretrain.runs.training_log import Record, append_line, read_lines

LAYERS, HEADS, MAXIMUM = ("model.h.0.attn", "model.h.1.attn"), 3, 3.0  # the largest entropy possible, in nats
RULES = Thresholds(  # of our own, so that the tests do not depend on what the benchmark chose
    window=100,
    entropy_left=0.1,
    entropy_growth=1.5,
    logit_level=50.0,
    logit_growth=2.0,
    rank_left=0.1,
    rank_fall=0.8,
    dead_entropy=0.99,
    dead_others=0.7,
    sink_share=0.5,
)

PLACE = "layer 1, head 2"


def record(step: int, **changes: Any) -> Record:
    """A healthy measurement. A change is for head 2 of layer 1, or for the matrix "w"."""
    attention = {
        layer: {
            "entropy": [0.8 * MAXIMUM] * HEADS,
            "relative_entropy": [0.8] * HEADS,
            "first_token": [0.1] * HEADS,
            "self_attention": [0.1] * HEADS,
            "largest_logit": [5.0] * HEADS,
        }
        for layer in LAYERS
    }
    weights = {name: {"norm": 3.0, "stable_rank": 20.0, "gradient_norm": 0.1, "update_ratio": 1e-3} for name in "vw"}
    if "relative_entropy" in changes:
        attention[LAYERS[1]]["entropy"][2] = MAXIMUM * changes["relative_entropy"]
    for name, value in changes.items():
        if name in attention[LAYERS[1]]:
            attention[LAYERS[1]][name][2] = value
        elif name in weights["w"]:
            weights["w"][name] = value
    return {"step": step, "loss": changes.get("loss", 2.0), "attention": attention, "weights": weights}


def series(onset: int, **changes: Any) -> list[Record]:
    return [record(step, **(changes if step >= onset else {})) for step in range(0, 200, 10)]


@pytest.mark.parametrize(
    ("kind", "where", "changes", "numbers"),
    [
        (
            "entropy collapse",
            PLACE,
            {"relative_entropy": 0.05, "largest_logit": 10.0},
            "fell from 2.40 nats at the start to 0.15, and its largest logit rose from 5 to 10 in 100 steps",
        ),
        (
            "runaway logits",
            PLACE,
            {"largest_logit": 61.0},
            "its largest logit rose from 5 to 61 in 100 steps",
        ),
        (
            "attention sink",
            PLACE,
            {"first_token": 0.7},
            "it gives 70% of its attention to the first token, 10%",
        ),
        ("rank collapse", "w", {"stable_rank": 1.5}, "its stable rank fell from 20 at the start to 1.5, and by 92%"),
        ("not a number", LAYERS[1], {"largest_logit": math.inf}, "the largest logit of head 2 is infinite"),
        ("not a number", "w", {"update_ratio": math.nan}, "the update ratio is not a number"),
        ("not a number", "loss", {"loss": math.nan}, "it is not a number"),
    ],
)
def test_each_kind_names_its_place_and_its_step(kind: str, where: str, changes: dict[str, float], numbers: str) -> None:
    alarms = alarms_of(series(130, **changes), RULES)
    assert [(a.kind, a.step, a.where) for a in alarms if a.kind == kind] == [(kind, 130, where)]
    assert numbers in next(a.reason for a in alarms if a.kind == kind)
    assert {a.kind for a in alarms} == {kind} or changes == {"largest_logit": math.inf}


def test_a_dead_head_is_one_that_stays_even_when_the_others_move() -> None:
    def spread(step: int) -> Record:
        made = record(step)
        for layer, statistics in made["attention"].items():
            level = 1.0 if step < 100 else 0.6
            statistics["relative_entropy"] = [level, level, 1.0 if layer == LAYERS[1] else level]
        return made

    alarms = alarms_of(map(spread, range(0, 200, 10)), RULES)
    assert [(a.kind, a.step, a.where, a.serious) for a in alarms] == [("dead head", 100, PLACE, False)]
    assert "100.0% of the largest possible, while that of half of all heads is 60% or less" in alarms[0].reason


@pytest.mark.parametrize("thresholds", [RULES, CHOSEN])
def test_a_healthy_constant_training_sets_off_nothing(thresholds: Thresholds) -> None:
    assert alarms_of(series(0), thresholds) == []
    assert alarms_of([], thresholds) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"relative_entropy": 0.05},  # a head that became sharp, with logits that do not grow
        {"largest_logit": 49.0},  # grown, but not large
        {"stable_rank": 2.1},
        {"gradient_norm": math.inf},  # happens in fp16, where the loss scale then skips the step
    ],
)
def test_half_a_reason_is_none(changes: dict[str, float]) -> None:
    assert alarms_of(series(130, **changes), RULES) == []


def test_growth_is_measured_over_the_window_only() -> None:
    slow = [record(step, largest_logit=5 * 2 ** (step / 150)) for step in range(0, 2000, 10)]
    fast = [record(step, largest_logit=5 * 2 ** (step / 90)) for step in range(0, 2000, 10)]
    assert alarms_of(slow, RULES) == []
    assert [alarm.step for alarm in alarms_of(fast, RULES)] == [300]  # 50 nats after 299 steps


def test_what_never_was_a_number_is_no_alarm() -> None:
    assert alarms_of(series(0, self_attention=math.nan), RULES) == []  # cross-attention
    assert [a.where for a in alarms_of(series(0, loss=math.nan), RULES)] == ["loss"]
    assert alarms_of(series(0, norm=0.0, stable_rank=math.nan), RULES) == []  # a matrix that starts at zero
    choiceless = record(10)
    choiceless["attention"][LAYERS[1]]["relative_entropy"] = [math.nan] * HEADS
    assert alarms_of([record(0), choiceless], RULES) == []  # no query has a choice
    assert alarms_of(series(50, self_attention=math.nan), RULES) == []  # lengths agreed by chance at the start
    assert [a.kind for a in alarms_of(series(0, entropy=math.nan), RULES)] == ["not a number"]
    assert [a.where for a in alarms_of(series(0, norm=math.nan, stable_rank=math.nan), RULES)] == ["w"]


def test_records_that_were_written_and_read_again_give_the_same_alarms(tmp_path: Any) -> None:
    records = series(130, relative_entropy=math.nan, largest_logit=-math.inf, stable_rank=1.5)
    for one in records:
        append_line(tmp_path / "run.jsonl", one)
    assert {alarm.kind for alarm in alarms_of(records, RULES)} == {"not a number", "rank collapse"}
    assert alarms_of(read_lines(tmp_path / "run.jsonl"), RULES) == alarms_of(records, RULES)


def test_parts_may_be_absent_and_the_number_of_heads_may_change() -> None:
    short = {"step": 10, "attention": {LAYERS[0]: {name: [0.5] for name in record(0)["attention"][LAYERS[0]]}}}
    bare = [{"step": 0}, {"step": 5, "loss": None, "weights": {"w": {"norm": 1.0}}}, record(7), short, record(20)]
    assert alarms_of([*bare, {"step": 30, "attention": {LAYERS[0]: {"entropy": [1.0]}}}], RULES) == []


def test_a_resumed_training_repeats_steps() -> None:
    once, again = series(130, largest_logit=61.0), series(130, largest_logit=61.0)[10:]
    assert alarms_of([*once[:15], *again], RULES) == alarms_of(once, RULES)


@pytest.mark.parametrize(
    ("layers", "where"),
    [
        (("encoder.0.self", "encoder.1.self", "decoder.0.self"), "layer decoder.0, head 0"),
        (("attention",), "layer attention, head 0"),
        (("h.0.attn", "h.0.attn#2"), "layer attn#2, head 0"),
    ],
)
def test_heads_are_named_by_what_tells_layers_apart(layers: tuple[str, ...], where: str) -> None:
    def made(step: int, logit: float) -> Record:
        values = record(0)["attention"][LAYERS[0]]
        last = {**values, "largest_logit": [logit, 5.0, 5.0]}
        return {"step": step, "attention": {**dict.fromkeys(layers, values), layers[-1]: last}}

    assert [alarm.where for alarm in alarms_of([made(0, 5.0), made(10, 70.0)], RULES)] == [where]


NUMBERS = st.one_of(st.floats(0, 1), st.floats(1, 1e3), st.sampled_from([math.nan, math.inf, -math.inf]))
NAMES = ("relative_entropy", "largest_logit", "first_token", "stable_rank", "loss", "norm")
CHANGES = st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, NUMBERS)), min_size=1, max_size=12)


@given(changes=CHANGES, kept=st.integers(0, 12))
def test_no_alarm_looks_ahead_and_the_watcher_says_the_same(changes: list[dict[str, float]], kept: int) -> None:
    records = [record(30 * index, **change) for index, change in enumerate(changes)]
    alarms = alarms_of(records, RULES)
    assert alarms_of(records[:kept], RULES) == [alarm for alarm in alarms if alarm.step < 30 * kept]
    watcher, seen = Watcher(RULES), list[Alarm]()
    for one in json.loads(json.dumps(records)):
        seen += watcher.update(one)
    assert seen == alarms
    assert len({(alarm.kind, alarm.where) for alarm in alarms}) == len(alarms)
    assert {alarm.kind for alarm in alarms} <= set(KINDS)


def test_what_the_package_quotes_of_the_benchmark() -> None:
    assert evidence("not a number") is None
    judged = [kind for kind in KINDS if kind != "not a number"]
    sentences = [evidence(kind) for kind in judged]
    assert all(sentence and sentence.startswith("In our benchmark this came in time in ") for sentence in sentences)


def test_a_record_costs_little() -> None:
    """GPT-2 small, 12 layers of 12 heads and 75 matrices: far below the 100 ms that the measurement itself takes."""
    values = {name: [0.5] * 12 for name in record(0)["attention"][LAYERS[0]]}
    weights = {f"{index}": record(0)["weights"]["w"] for index in range(75)}
    watcher, started = Watcher(), process_time()
    for step in range(20):
        watcher.update({"step": step, "attention": {f"h.{i}": values for i in range(12)}, "weights": weights})
    assert (process_time() - started) / 20 < 0.05


def test_growth_below_one_nat_does_not_matter() -> None:
    small = [record(step, largest_logit=0.001 * 3 ** (step / 10), relative_entropy=0.9) for step in range(0, 60, 10)]
    assert [alarm for alarm in alarms_of(small, RULES) if alarm.kind == "runaway logits"] == []
    collapsed = [record(0, largest_logit=0.01), record(100, largest_logit=0.9, relative_entropy=0.01)]
    assert [alarm for alarm in alarms_of(collapsed, RULES) if alarm.kind == "entropy collapse"] == []
