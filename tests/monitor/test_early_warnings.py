"""The benchmark of early warnings: labels, choosing and judging on made-up runs, and what was published of it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from benchmarks.early_warnings import page, rules
from benchmarks.early_warnings.judging import Label, choose, first_of, join, judge, median_interval, trouble_step
from benchmarks.early_warnings.results import inputs_digest, results, table_of
from benchmarks.early_warnings.settings import HEALTH, TROUBLE, Setting, settings
from benchmarks.early_warnings.training import load_or_train, made_up_text, train

from foretrain.monitor.alarm_evidence import EVIDENCE, SERIOUS
from foretrain.monitor.alarms import CHOSEN

PUBLISHED: dict[str, Any] = json.loads(page.RESULTS.read_text(encoding="utf-8"))
FLAT = [2.0] * 100


@pytest.mark.parametrize(
    ("losses", "step"),
    [
        (FLAT * 2, None),
        (FLAT + [2.0] * 5 + [3.0] * 95, 109),  # five steps at 3.0 lift the mean of 20 from 2.0 to 2.25, four to 2.2
        (FLAT + [3.0] * 5 + FLAT, None),  # a spike that does not last
        ([*FLAT, math.nan], 100),
        ([2.0, math.inf], 1),
        (list(np.linspace(4, 2, 200)), None),
        ([], None),
    ],
)
def test_where_the_loss_shows_trouble(losses: list[float], step: int | None) -> None:
    assert trouble_step(losses) == step


def labels(half: str = "judge") -> list[Label]:
    return [*(Label(f"bad {i}", half, 100 + i) for i in range(9)), *(Label(f"good {i}", half, None) for i in range(10))]


def test_a_perfect_rule_gets_its_lead_and_no_false_alarm() -> None:
    alarms = {label.name: None if label.trouble is None else label.trouble - 40 for label in labels()}
    row = judge(alarms, labels())
    assert (row.in_time, row.troubles, row.median_lead, row.low, row.high) == (9, 9, 40, 40, 40)
    assert (row.false_alarms, row.sound, row.before_cause) == (0, 10, 0)


def test_a_late_rule_misses_and_one_that_is_before_the_cause_is_luck() -> None:
    bad = [Label("late", "judge", 50), Label("luck", "judge", 50, cause=30), Label("hit", "judge", 50, cause=30)]
    row = judge({"late": 50, "luck": 10, "hit": 31}, bad)
    assert (row.in_time, row.median_lead, row.before_cause) == (1, 19, 1)


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


def test_both_halves_have_every_kind_and_thresholds_see_one_of_them() -> None:
    halves = {half: {s.kind for s in settings() if s.half == half} for half in ("choose", "judge")}
    assert halves["choose"] == halves["judge"] == {*TROUBLE, *HEALTH}
    assert len({setting.name for setting in settings()}) == len(settings()) == 64


def test_the_rate_follows_its_schedule() -> None:
    setting = Setting("", 0, "trouble", 2, rate=0.1, peak=10.0, ramp=(20, 40), warm_up=10)
    assert [setting.rate_at(step) for step in (0, 9, 20, 30, 50)] == pytest.approx([0.01, 0.1, 0.1, 1.0, 10.0])


def test_baselines_alarm_at_the_step_of_the_change() -> None:
    steps = np.arange(300)
    run = {"losses": list(2 + 0.01 * np.maximum(0, steps - 200)), "gradients": list(np.where(steps < 200, 1.0, 3.0))}
    assert rules.gradient_norm({"steps": 1, "factor": 2.0, "history": 20}, run) == 200
    assert rules.gradient_norm({"steps": 5, "factor": 2.0, "history": 100}, run) == 202  # three of five: a mean of 2.2
    assert rules.loss_above_least({"steps": 5, "rise": 0.02}, run) == 207  # 0.05 above the least, as mean of five
    assert rules.loss_slope({"steps": 20, "rise": 0.02}, run) in range(205, 215)
    quiet = {key: [value[0]] * 300 for key, value in run.items()}
    assert all(rule.first(c, quiet) is None for rule in rules.BASELINES for c in rule.candidates())


def test_a_run_is_trained_once_and_then_read(tmp_path: Any) -> None:
    text, setting = made_up_text(400), settings()[0]
    stored = train(setting, text, steps=12)
    assert len(stored["losses"]) == 12
    assert [record["step"] for record in stored["records"]] == [0, 10]
    assert {"attention", "weights"} <= stored["records"][0].keys()
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
    """Two made-up kinds: one whose logits run away at step 200 and its loss at 300, one that is sound.

    Five losses of 3.0 lift the mean of 20 by more than 10 %, so trouble shows at step 304.
    """
    pairs = []
    for seed, (meant, late) in enumerate([("trouble", 300), ("trouble", 300), ("health", 900), ("health", 900)]):
        attention = [
            {
                "h": {
                    "entropy": [1.0],
                    "relative_entropy": [0.8],
                    "first_token": [0.1],
                    "self_attention": [0.1],
                    "largest_logit": [5.0 if step < late - 100 else 900.0],
                }
            }
            for step in range(0, 500, 10)
        ]
        losses = [2.0 if step < late else 3.0 for step in range(500)]
        records = [{"step": 10 * i, "attention": a, "weights": {}} for i, a in enumerate(attention)]
        setting = Setting(meant, seed % 2, meant, 2, rate=0.1, peak=0.1)
        pairs.append((setting, {"losses": losses, "gradients": [1.0] * 500, "records": records}))
    published = results(pairs, "00", "today")
    assert published["serious"] == ["runaway logits"]
    assert published["table"]["runaway logits"]["median_lead"] == 304 - 200
    assert published["table"] == table_of(published)
    assert "| runaway logits | warning | 1 of 1 | 104 | 104 | 0 | 0 of 1 |" in page.table(published)
    assert "| trouble | 304 | 104 | " in page.kinds(published)
    assert json.loads(page.dumps(published)) == published


def test_what_is_published_is_of_these_settings_and_adds_up() -> None:
    assert PUBLISHED["inputs_sha256"] == inputs_digest(settings(), PUBLISHED["text_sha256"])
    assert PUBLISHED["table"] == table_of(PUBLISHED)


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
    assert asdict(CHOSEN) == {"window": CHOSEN.window, **chosen}
