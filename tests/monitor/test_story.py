"""The words about a training say what its curves do, and the page carries them safely."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import foretrain
from foretrain.core.errors import InputError
from foretrain.monitor.alarm_words import steps
from foretrain.monitor.alarms import ADVICE, Alarm, in_words
from foretrain.monitor.monitor import Monitor
from foretrain.monitor.page.curves import FEWEST, curve_of, curves_of
from foretrain.monitor.page.story import story
from foretrain.monitor.page.writing import page
from foretrain.monitor.short_names import without_shared
from foretrain.runs.training_log import append_line, as_dataset
from monitor.models import NanoGPT

AT = np.arange(0, 2000, 20)


def dip(depth: float, back: float, low: int = 40) -> np.ndarray:
    """Falls from .9 by `depth` until index `low`, then rises by `back`."""
    return 0.9 + np.interp(np.arange(len(AT)), [0, low, len(AT) - 1], [0.0, -depth, back - depth])


@pytest.mark.parametrize(
    ("values", "shape"),
    [
        (dip(0.4, 0.2), "sparse, then dense"),
        (dip(0.4, 0.0), "sparser"),
        (dip(-0.05, 0.0), "denser"),
        (np.full(len(AT), 0.7), "unmoved"),
        (dip(0.01, 0.005), "unmoved"),
        (np.full(len(AT), np.nan), "too short"),
    ],
)
@pytest.mark.parametrize("noise", [0.0, 0.003])
def test_a_curve_is_called_by_its_shape(values: np.ndarray, shape: str, noise: float) -> None:
    noisy = values + noise * np.random.default_rng(0).standard_normal(len(values))
    curve = curve_of("a", AT, noisy)
    assert curve.shape == shape
    if shape == "sparse, then dense":
        assert abs(curve.lowest_step - 800) <= 100
        assert curve.lowest == pytest.approx(0.5, abs=0.03)


@given(st.integers(0, 10**6), st.floats(0.001, 0.1))
def test_scatter_alone_is_hardly_ever_a_move(seed: int, noise: float) -> None:
    """White noise of any size must not be read as a rebound of many standard errors; 1 in 50 may be."""
    rng = np.random.default_rng(seed)
    shapes = [curve_of("a", AT, 0.7 + noise * rng.standard_normal(len(AT))).shape for _ in range(50)]
    assert shapes.count("unmoved") >= 45


def test_standing_still_is_seen_only_after_a_move() -> None:
    fell = curve_of("a", AT, np.interp(AT, [0, 600], [0.9, 0.4]))
    assert fell.shape == "sparser"
    assert fell.frozen_since is not None
    assert 520 <= fell.frozen_since <= 660
    assert curve_of("a", AT, np.full(len(AT), 0.4)).frozen_since is None
    assert curve_of("a", AT, np.linspace(0.9, 0.4, len(AT))).frozen_since is None


def records(curves: dict[str, np.ndarray], loss: float = 2.0) -> list[dict[str, Any]]:
    def layer(value: float) -> dict[str, list[float]]:
        names = ("entropy", "relative_entropy", "first_token", "self_attention", "largest_logit")
        return {name: [value, value] for name in names}

    return [
        {"step": int(step), "loss": loss, "attention": {name: layer(float(c[i])) for name, c in curves.items()}}
        for i, step in enumerate(AT)
    ]


def told(records: list[dict[str, Any]], total: int | None = None) -> list[str]:
    dataset = as_dataset(records)
    return story(dataset, curves_of(dataset), total)


def test_the_story_names_steps_and_layers() -> None:
    frozen = np.interp(AT, [0, 600], [0.9, 0.4])
    curves = {f"h.{k}.attn": dip(0.4, 0.2) for k in range(3)} | {"h.3.attn": frozen, "h.4.attn": np.full(100, 0.8)}
    first, *rest = told(records(curves), total=4000)
    assert first == "Step 1980 of 4000, loss 2 (at the start 2)."
    text = " ".join(rest)
    assert "then spread again in layers 0 to 2." in text
    assert re.search(r"Attention became sparser in layer 3 \(0\.\d\d → 0\.40 of its largest entropy\)\.", text)
    assert "hardly changed in layer 4." in text
    assert re.search(r"It has hardly changed since step \d+ in layer 3\.", text)
    assert told([]) == ["Nothing has been measured yet."]
    assert "too few measurements" in told(records(curves)[: FEWEST - 1])[1]


@pytest.mark.parametrize(("value", "words"), [(math.nan, "no longer a number"), (math.inf, "no longer a number")])
def test_a_loss_that_is_lost_is_said_first(value: float, words: str) -> None:
    some = records({"a": dip(0.4, 0.2)})
    some[-1]["loss"] = value
    assert words in told(some)[0]


@given(st.lists(st.lists(st.sampled_from("ab01"), min_size=1, max_size=4), min_size=2, max_size=5, unique_by=tuple))
def test_short_names_stay_different(parts: list[list[str]]) -> None:
    names = [".".join(part) for part in parts]
    short = without_shared(names)
    assert list(short) == names
    assert len(set(short.values())) == len(names)
    assert all(short.values())


def test_numbers_of_steps_are_readable() -> None:
    assert [steps(n) for n in (7, 9999, 12400)] == ["7", "9999", "12 400"]


def test_the_page_is_self_contained_and_escapes_names() -> None:
    evil = "<img src=x onerror=alert(1)>"
    html = page(records({evil: dip(0.4, 0.2), "b": dip(0.4, 0.0)}), "a <b>title</b>")
    assert "spread again in layer" in html
    assert evil not in html
    assert "<b>title" not in html
    assert "http-equiv" in html
    assert "<script src" not in html
    assert "Nothing has been measured yet" in page([], "empty")


def test_a_file_of_records_opens_with_load(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    for record in records({"h.0": dip(0.4, 0.2)}):
        append_line(file, record)
    append_line(file, {"finished": 2000})
    dataset = foretrain.load(file)
    assert dict(dataset.sizes) == {"step": 100, "layer": 1, "head": 2}
    np.testing.assert_allclose(dataset.attention_entropy.isel(layer=0, head=1), dip(0.4, 0.2))
    (tmp_path / "other.jsonl").write_text('{"text": "not a training"}\n')
    with pytest.raises(InputError, match="is not a record of a training"):
        foretrain.load(tmp_path / "other.jsonl")


def test_numbers_that_json_cannot_say_survive(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    weights = {"w": {"norm": math.inf, "stable_rank": math.nan}}
    append_line(file, {"step": 0, "loss": -math.inf, "weights": weights})
    assert "NaN" not in file.read_text()
    assert "Infinity" not in file.read_text()
    dataset = foretrain.load(file)
    assert float(dataset.loss[0]) == -math.inf
    assert float(dataset.norm[0, 0]) == math.inf
    assert math.isnan(float(dataset.stable_rank[0, 0]))


def test_warnings_are_on_the_page_and_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    torch.manual_seed(0)
    model = NanoGPT()
    monitor = Monitor(model, every=1)
    for k in range(4):
        with torch.no_grad():
            model.blocks[1].attention.qkv.weight *= 8.0**k
        model(torch.randint(0, 50, (4, 16)))
        monitor.step(loss=2.0)
    kinds = {(alarm.kind, alarm.where[:7]) for alarm in monitor.alarms if alarm.serious}
    assert ("runaway logits", "layer 1") in kinds
    assert not any(where == "layer 0" for _, where in kinds)
    assert any("runaway logits in layer 1, head" in message for message in caplog.messages)
    html = page(monitor.records, "a run")
    assert "entropy collapse in layer 1, head" in html
    assert "In our benchmark" in html
    assert "Warnings" not in page(records({"a": dip(0.4, 0.2)}), "sound")


def test_alarms_of_a_kind_are_one_line() -> None:
    advice = ADVICE["runaway logits"]
    alarms = [Alarm("runaway logits", step, f"layer 0, head {step}", "it rose", True) for step in (3, 4, 9)]
    assert in_words(alarms) == [
        f"runaway logits in layer 0, head 3 at step 3: it rose. Also in 2 other places by step 9. {advice}"
    ]
    assert in_words(alarms[:1]) == [f"runaway logits in layer 0, head 3 at step 3: it rose. {advice}"]
    assert in_words([]) == []
