"""Which layer moved first, on made-up records in which we know it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from foretrain.monitor.alarms import Thresholds
from foretrain.monitor.diagnosis import Diagnosis, Limits, first_mover, layer_of
from foretrain.runs.training_log import Record, append_line, read_lines

RULES = Thresholds(loss_steps=5, loss_rise=0.05, loss_noise=1.5)
LIMITS = Limits(factor=2.0, spread=3.0, window=10, strongest=False)
RISE = 300  # the step at which the loss rises
MATRIX = "h.{}.mlp.up.weight"


def training(series: dict[tuple[str, int], Any], layers: int = 4, part: bool = True) -> list[Record]:
    """Measures that are steady but for noise, and `series`: (measure, layer) -> what it is multiplied by at a step."""
    random = np.random.default_rng(0)

    def value(measure: str, layer: int, step: int) -> float:
        factor = series.get((measure, layer), lambda _: 1.0)(step)
        return float(factor * (1 + layer) * random.normal(1, 0.03))

    records: list[Record] = []
    for step in range(0, 400, 10):
        record: Record = {"step": step}
        first = max(0, step - 9)
        losses = [2.0 if at < RISE else 3.0 for at in range(first, step + 1)]
        record["every_step"] = {"first": first, "loss": losses}
        numbered = range(layers)
        record["attention"] = {
            f"h.{i}.attn": {
                "largest_logit": [value("largest_logit", i, step), 0.1],
                "entropy": [value("entropy", i, step)] * 2,
            }
            for i in numbered
        }
        record["weights"] = {
            MATRIX.format(i): {name: value(name, i, step) for name in ("norm", "gradient_norm", "update_ratio")}
            for i in numbered
        } | {"embed.weight": {"norm": value("norm", 99, step)}}
        if part:
            record["activations"] = {f"h.{i}": {"residual_norm": value("residual_norm", i, step)} for i in numbered}
        records.append(record)
    return records


def growing(since: int, per_step: float = 0.02) -> Any:
    return lambda step: math.exp(per_step * max(0, step - since))


def diagnose(records: list[Record]) -> Diagnosis:
    diagnosis = first_mover(records, RULES, LIMITS)
    assert diagnosis is not None
    return diagnosis


@pytest.mark.parametrize(
    ("measure", "words"),
    [
        ("largest_logit", "largest logit"),
        ("residual_norm", "residual norm"),
        ("update_ratio", "update ratio of mlp.up"),
        ("gradient_norm", "gradient norm of mlp.up"),
    ],
)
@pytest.mark.parametrize("layer", [0, 2, 3])
def test_the_layer_that_grows_is_named_with_its_measure(measure: str, words: str, layer: int) -> None:
    diagnosis = diagnose(training({(measure, layer): growing(200)}))
    assert diagnosis.first is not None
    assert (diagnosis.first.layer, diagnosis.first.measure, diagnosis.others) == (str(layer), words, ())
    assert 200 < diagnosis.first.since <= 260
    assert diagnosis.first.value > 4 * diagnosis.first.before


def test_the_words_of_a_diagnosis() -> None:
    text = str(diagnose(training({("largest_logit", 3): growing(200)})))
    assert text.startswith(
        "The loss rose from 2 to 3 after step 4. It began in layer 3: its largest logit had been growing"
    )
    assert text.endswith("while every other layer was quiet.")
    later = {("largest_logit", 3): growing(200), ("residual_norm", 1): growing(240)}
    assert "; layer 1 moved at step 2" in str(diagnose(training(later)))
    fallen = str(diagnose(training({("entropy", 1): lambda step: 1 / growing(200)(step)})))
    assert "It began in layer 1: its entropy had been falling since step" in fallen


def test_no_layer_is_named_where_none_or_all_of_them_moved() -> None:
    quiet, together = training({}), training({("largest_logit", layer): growing(200) for layer in range(4)})
    for records in (quiet, together):
        diagnosis = diagnose(records)
        assert diagnosis.first is None
        assert str(diagnosis) == "The loss rose from 2 to 3 after step 4. No single layer stood out before that."


def test_what_comes_back_or_comes_after_the_rise_is_not_the_cause() -> None:
    bump = training({("largest_logit", 1): lambda step: 9.0 if 150 <= step < 200 else 1.0})
    after = training({("largest_logit", 1): growing(320, 0.1)})
    assert diagnose(bump).first is None
    assert diagnose(after).first is None
    assert str(diagnose(after)) == str(diagnose([record for record in after if record["step"] <= 310]))


def test_the_first_or_the_strongest() -> None:
    steps = lambda step: 4.0 if step >= 150 else 1.0  # noqa: E731
    records = training({("largest_logit", 3): steps, ("largest_logit", 0): growing(230, 0.05)})
    for strongest, layer in ((False, "3"), (True, "0")):
        diagnosis = first_mover(records, RULES, Limits(2.0, 3.0, 10, strongest=strongest))
        assert diagnosis is not None
        assert diagnosis.first is not None
        assert diagnosis.first.layer == layer


def test_without_a_rise_there_is_nothing_to_explain() -> None:
    sound = [{**record, "every_step": {"first": record["step"], "loss": [2.0]}} for record in training({})]
    assert first_mover(sound, RULES, LIMITS) is None
    assert first_mover([], RULES, LIMITS) is None
    assert first_mover([{"step": 0}], RULES) is None


def test_parts_may_be_missing_or_damaged() -> None:
    records = training({("largest_logit", 2): growing(200)}, part=False)
    for record in records[::3]:
        record["weights"] = None
        record["activations"] = {"h.0": None, "h.1": {"residual_norm": "nan", "massive": None}}
    for record in records[1::7]:
        record["attention"]["h.1.attn"] = {"largest_logit": [math.nan, 1.0], "entropy": []}
    diagnosis = diagnose(records)
    assert diagnosis.first is not None
    assert diagnosis.first.layer == "2"
    bare = [{key: record[key] for key in ("step", "every_step")} for record in records]
    assert diagnose(bare).first is None
    assert diagnose(training({("norm", 0): growing(200)}, layers=1)).first is None  # nothing to compare it with


def test_records_on_disk_give_the_same_diagnosis(tmp_path: Any) -> None:
    records = training({("update_ratio", 1): growing(200)})
    records[3]["weights"][MATRIX.format(0)]["update_ratio"] = math.nan
    for record in records:
        append_line(tmp_path / "run.jsonl", record)
    assert str(diagnose(read_lines(tmp_path / "run.jsonl"))) == str(diagnose(records))


def test_the_layer_in_a_name() -> None:
    assert layer_of("model.layers.3.mlp.up.weight") == ("model.layers.3", "mlp.up")
    assert layer_of("blocks.2") == ("blocks.2", "")
    assert layer_of("h.0.attn#2") == ("h.0", "attn")
    assert layer_of("embed.weight") == ("", "")
