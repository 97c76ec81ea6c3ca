"""How each kind of alarm did in the benchmark. Written by benchmarks/early_warnings.

in_time: trainings that went wrong and were warned of before their loss showed it; median_lead: in steps.
"""

from __future__ import annotations

SERIOUS = ("runaway logits", "loss above its least", "not a number")
EVIDENCE: dict[str, dict[str, float]] = {
    "loss above its least": {"in_time": 13, "troubles": 35, "median_lead": 17, "false_alarms": 1, "sound": 30},
    "entropy collapse": {"in_time": 17, "troubles": 35, "median_lead": 67, "false_alarms": 2, "sound": 30},
    "runaway logits": {"in_time": 13, "troubles": 35, "median_lead": 94, "false_alarms": 3, "sound": 30},
    "rank collapse": {"in_time": 0, "troubles": 35, "median_lead": 0, "false_alarms": 0, "sound": 30},
    "dead head": {"in_time": 10, "troubles": 35, "median_lead": 53.0, "false_alarms": 0, "sound": 30},
    "attention sink": {"in_time": 1, "troubles": 35, "median_lead": 13, "false_alarms": 0, "sound": 30},
}
