"""How each kind of alarm did in the benchmark. Written by benchmarks/early_warnings.

in_time: trainings that went wrong and were warned of before their loss showed it; median_lead: in steps.
"""

from __future__ import annotations

SERIOUS = ("runaway logits", "loss above its least", "not a number")
EVIDENCE: dict[str, dict[str, float]] = {
    "loss above its least": {"in_time": 18, "troubles": 45, "median_lead": 32.0, "false_alarms": 5, "sound": 60},
    "entropy collapse": {"in_time": 18, "troubles": 45, "median_lead": 132.5, "false_alarms": 1, "sound": 60},
    "runaway logits": {"in_time": 16, "troubles": 45, "median_lead": 164.0, "false_alarms": 2, "sound": 60},
    "rank collapse": {"in_time": 1, "troubles": 45, "median_lead": 26, "false_alarms": 0, "sound": 60},
    "dead head": {"in_time": 12, "troubles": 45, "median_lead": 105.5, "false_alarms": 1, "sound": 60},
    "attention sink": {"in_time": 0, "troubles": 45, "median_lead": 0, "false_alarms": 0, "sound": 60},
}
