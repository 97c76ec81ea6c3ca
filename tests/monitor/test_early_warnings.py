"""The benchmark of early warnings: labels, choosing and judging on made-up runs, and what was published of it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.early_warnings import page, rules
from benchmarks.early_warnings.judging import (
    Label,
    choose,
    first_of,
    join,
    judge,
    median_interval,
    ranked_right,
    share_interval,
    trouble_step,
)
from benchmarks.early_warnings.results import inputs_digest, judged, results
from benchmarks.early_warnings.settings import (
    ARCHITECTURES,
    FRESH_SEEDS,
    HEALTH,
    ONE_LAYER,
    TROUBLE,
    Setting,
    settings,
)
from benchmarks.early_warnings.tasks import Task, made_up_text, symbols_of
from benchmarks.early_warnings.training import load_or_train, train

from foretrain.monitor.alarm_evidence import EVIDENCE, SERIOUS
from foretrain.monitor.alarms import CHOSEN
from foretrain.monitor.diagnosis import Limits

PUBLISHED: dict[str, Any] = json.loads(page.RESULTS.read_text(encoding="utf-8"))
FLAT = [2.0] * 100


@pytest.mark.parametrize(
    ("losses", "step"),
    [
        (FLAT * 2, None),
        (FLAT + [2.0] * 5 + [3.0] * 95, 109),  # five steps at 3.0 lift the mean of 20 from 2.0 to 2.25, four to 2.2
        (FLAT + [3.0] * 5 + FLAT, None),  # a spike that does not last
        ([*FLAT, 99.0, *FLAT], None),  # one bad batch lifts 20 means
        ([*FLAT, math.nan], 100),
        ([2.0, math.inf], 1),
        (list(np.linspace(4, 2, 200)), None),
        ([], None),
    ],
)
def test_where_the_loss_shows_trouble(losses: list[float], step: int | None) -> None:
    assert trouble_step(losses) == step


def labels(half: str = "judge") -> list[Label]:
    return [*(Label(f"bad {i}", half, 100 + i) for i in range(9)), *(Label(f"good {i}", half, None) for i in range(20))]


def test_a_perfect_rule_gets_its_lead_and_no_false_alarm() -> None:
    alarms = {label.name: None if label.trouble is None else label.trouble - 40 for label in labels()}
    row = judge(alarms, labels())
    assert (row.in_time, row.troubles, row.median_lead, row.low, row.high) == (9, 9, 40, 40, 40)
    assert (row.false_alarms, row.sound, row.before_cause, row.seen) == (0, 20, 0, 9)


def test_a_late_rule_misses_and_one_that_is_before_the_cause_is_luck() -> None:
    bad = [
        Label("none", "judge", None, meant="trouble"),
        Label("late", "judge", 50),
        Label("luck", "judge", 50, cause=30),
        Label("hit", "judge", 50, cause=30),
    ]
    row = judge({"late": 50, "luck": 10, "hit": 31, "none": 20}, bad)
    assert (row.in_time, row.median_lead, row.before_cause, row.seen) == (1, 19, 1, 2)
    assert (row.troubles, row.false_alarms, row.sound) == (3, 0, 0)  # a fault that did no harm counts for nothing


def test_the_interval_of_a_median_covers_it_as_often_as_it_says() -> None:
    assert median_interval([1, 2, 3, 4, 5]) == (None, None)
    assert median_interval([1, 2, 3, 4, 5, 6]) == (1, 6)
    drawn = np.sort(np.random.default_rng(0).integers(0, 1001, (2000, 15)), axis=1)
    inside = [low <= 500 <= high for low, high in map(median_interval, drawn.tolist())]  # type: ignore[operator]
    assert 0.95 < np.mean(inside) < 0.98  # exactly 0.965 for 15 values


def test_choosing_takes_the_longest_lead_that_the_false_alarms_allow_and_never_sees_the_other_half() -> None:
    chosen, hidden = labels("choose"), labels("judge")
    hidden = [Label(f"hidden {label.name}", "judge", label.trouble) for label in hidden]

    def alarm(candidate: int, name: str) -> int | None:
        """A larger candidate warns earlier; from 60 on, in too many sound runs."""
        assert not name.startswith("hidden")
        if name.startswith("good"):
            return 5 if int(name.split()[1]) < {20: 0, 40: 1, 60: 2}[candidate] else None
        return 100 - candidate

    assert choose([20, 40, 60], alarm, [*chosen, *hidden]) == 40
    rule = {name: {label.name: alarm(20, label.name) for label in chosen} for name in ("a", "b")}
    assert join(rule, [*chosen, *hidden]) == ["a"]  # the second adds nothing
    rule["b"] = {name: None if name.startswith("good") else 10 for name in rule["a"]}
    assert join(rule, chosen) == ["b"]
    assert first_of([rule["a"], rule["b"]])["bad 3"] == 10


def test_the_interval_of_a_share() -> None:
    assert share_interval(0, 20) == pytest.approx((0, 0.161), abs=1e-3)
    assert share_interval(10, 20) == pytest.approx((0.299, 0.701), abs=1e-3)
    assert share_interval(20, 20) == pytest.approx((0.839, 1), abs=1e-3)
    assert share_interval(0, 0) == (0, 1)


def test_how_often_a_score_ranks_a_run_in_trouble_above_a_sound_one() -> None:
    of = [Label("bad", "judge", 5), Label("worse", "judge", 9), Label("good", "judge", None)]
    assert ranked_right({"bad": 2, "worse": 3, "good": 1}, of) == 1
    assert ranked_right({"bad": 1, "worse": 0, "good": 1}, of) == 0.25
    assert ranked_right({}, []) is None


def test_every_kind_and_architecture_is_in_both_halves_and_among_the_fresh_runs() -> None:
    every = {(kind, architecture) for kind in (*TROUBLE, *HEALTH) for architecture in ARCHITECTURES}
    for half in ("choose", "judge", "fresh"):
        assert {(s.kind, s.architecture) for s in settings() if s.half == half} == every
    assert {s.seed for s in settings() if s.half == "fresh"} == set(FRESH_SEEDS)
    assert len({setting.name for setting in settings()}) == len(settings()) >= 100


def test_the_layer_that_explodes_is_not_always_the_same() -> None:
    for half in ("judge", "fresh"):
        layers = [setting.layer for setting in settings() if setting.kind in ONE_LAYER and setting.half == half]
        assert set(layers) == {0, 1, 2, 3}


def test_the_rate_and_the_noise_follow_their_schedules() -> None:
    setting = Setting(
        "", 0, "decoder", "trouble", 2, rate=0.1, peak=10.0, ramp=(20, 40), warm_up=10, noise=(5, 15, 0.5)
    )
    assert [setting.rate_at(step) for step in (0, 9, 20, 30, 50)] == pytest.approx([0.01, 0.1, 0.1, 1.0, 10.0])
    assert [setting.rate_of_others(step) for step in (0, 9, 50)] == pytest.approx([0.01, 0.1, 0.1])
    assert [setting.noise_at(step) for step in (0, 5, 10, 90)] == pytest.approx([0, 0, 0.25, 0.5])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_faults_of_the_data_are_in_the_batches(architecture: str) -> None:
    def batch(step: int, **fault: Any) -> tuple[torch.Tensor, torch.Tensor]:
        setting = Setting("", 0, architecture, "trouble", 2, rate=0.1, peak=0.1, **fault)
        task = Task(setting, symbols_of(made_up_text(400)), torch.Generator().manual_seed(0))
        inputs, targets = task.batch(step)
        assert int(targets.max()) < task.sizes[1]
        assert inputs.shape[1] == task.sizes[2]
        return inputs, targets

    sound, corrupted, noisy = batch(9), batch(9, corrupted=9), batch(9, noise=(-1, 0, 0.5))
    assert torch.equal(sound[1], batch(9, corrupted=8)[1])
    assert float((sound[1] == corrupted[1]).float().mean()) < 0.35
    assert 0.4 < float((sound[1] == noisy[1]).float().mean()) < 0.8
    assert torch.equal(sound[0], noisy[0])
    if architecture == "vision":
        assert torch.equal(corrupted[0], 255 * sound[0])
    else:
        assert not corrupted[0].any()


def test_baselines_alarm_at_the_step_of_the_change() -> None:
    steps = np.arange(300)
    run = {"losses": list(2 + 0.01 * np.maximum(0, steps - 200)), "gradients": list(np.where(steps < 200, 1.0, 3.0))}
    assert rules.gradient_norm({"steps": 1, "factor": 2.0, "history": 20}, run) == 200
    assert rules.gradient_norm({"steps": 5, "factor": 2.0, "history": 100}, run) == 202  # three of five: a mean of 2.2
    assert rules.loss_above_least({"steps": 5, "rise": 0.02}, run) == 207  # 0.05 above the least, as mean of five
    assert rules.loss_slope({"steps": 20, "rise": 0.02}, run) in range(205, 215)
    quiet = {key: [value[0]] * 300 for key, value in run.items()}
    ours = [rule for rule in rules.BASELINES if not rule.source]
    assert all(rule.first(candidate, quiet) is None for rule in ours for candidate in rule.candidates())


def test_a_run_is_trained_once_and_then_read(tmp_path: Any) -> None:
    text, setting = made_up_text(400), settings()[0]
    stored = train(setting, text, steps=12)
    assert len(stored["losses"]) == 12
    assert [record["step"] for record in stored["records"]] == [0, 10]
    assert {"attention", "weights", "activations", "one_sided"} <= stored["records"][0].keys()
    assert len(stored["gradients"]) == len(stored["updates"]) == 12
    assert [step for step, _ in stored["critical_multiples"]] == [0]
    calls = []

    def fake(*_: Any) -> dict[str, Any]:
        calls.append(1)
        return stored

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.early_warnings.training.train", fake)
        first, second = (load_or_train(setting, text, tmp_path) for _ in range(2))
        load_or_train(setting, text + b"x", tmp_path)
    assert (first[1], second[1], len(calls)) == (True, False, 2)
    assert second[0]["losses"] == pytest.approx(stored["losses"], rel=1e-4)


def test_from_runs_to_a_page() -> None:
    """Two made-up kinds: one whose logits run away at step 200 and its loss at 300, one that is sound. Each is in the
    half that chooses and among the fresh runs; in the earlier half, both are sound.

    Five losses of 3.0 lift the mean of 20 by more than 10 %, so trouble shows at step 304.
    """
    pairs = []
    for seed in (0, FRESH_SEEDS[1], 1):
        for meant, late in (("trouble", 300), ("health", 900)):
            setting = Setting(meant, seed, "decoder", meant, 2, rate=0.1, peak=0.1)
            pairs.append((setting, made_up_run(setting, 999 if seed == 1 else late)))
    published = results(pairs, "00", "today")
    assert published["serious"] == ["runaway logits"]
    assert published["table"]["runaway logits"]["median_lead"] == 304 - 200
    assert published["table"]["runaway logits"]["seen"] == 1
    assert published["table"] == judged(published)["table"]
    assert published["earlier"]["table"]["runaway logits"]["troubles"] == 0
    assert "| runaway logits | warning | 1 of 1 (21 to 100 %) | 104 | 104 | 1 | 0 of 1 (0 to 79 %) |" in page.table(
        published
    )
    assert "| trouble | 1 | 1, 104 | " in page.kinds(published)
    assert "| decoder | 1 of 1 (21 to 100 %) | 0 of 1 (0 to 79 %) |" in page.architectures(published)
    assert json.loads(page.dumps(published)) == published


def made_up_run(setting: Setting, late: int) -> dict[str, Any]:
    names = ("entropy", "relative_entropy", "first_token", "self_attention")
    records = [
        {
            "step": step,
            "attention": {
                "h.0": {**{name: [0.5] for name in names}, "largest_logit": [5.0 if step < late - 100 else 900.0]}
            },
            "weights": {},
            "activations": {"h.0": {"residual_norm": 1.0}},
            "one_sided": {"h.0.up": 0.5},
        }
        for step in range(0, 500, 10)
    ]
    return {
        "setting": setting.as_json(),
        "near_unit_mass": 0.5,
        "losses": [2.0 if step < late else 3.0 for step in range(500)],
        "gradients": [1.0] * 500,
        "updates": [setting.rate_of_others(step) for step in range(500)],
        "critical_multiples": [[step, 8.0] for step in range(0, 500, 20)],
        "records": records,
    }


def test_what_is_published_is_of_these_settings_and_adds_up() -> None:
    assert PUBLISHED["inputs_sha256"] == inputs_digest(settings(), PUBLISHED["text_sha256"])
    assert {name: PUBLISHED[name] for name in judged(PUBLISHED)} == judged(PUBLISHED)


def test_the_page_and_the_package_say_what_was_published() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.page(text, PUBLISHED) == text
    assert page.EVIDENCE.read_text(encoding="utf-8") == page.module(PUBLISHED)
    assert (*PUBLISHED["serious"], "not a number") == SERIOUS
    assert {name: row["in_time"] for name, row in EVIDENCE.items()} == {
        rule.name: PUBLISHED["table"][rule.name]["in_time"] for rule in rules.WARNINGS
    }


def test_the_defaults_are_the_thresholds_that_were_chosen() -> None:
    chosen = {key: value for rule in rules.WARNINGS for key, value in PUBLISHED["chosen"][rule.name].items()}
    assert asdict(CHOSEN) == {"window": CHOSEN.window, "loss_noise": CHOSEN.loss_noise, **chosen}
    assert asdict(Limits()) == PUBLISHED["limits"]
