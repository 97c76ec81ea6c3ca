"""How each kind of alarm did in the benchmark. Written by benchmarks/early_warnings.

in_time: trainings that went wrong and were warned of before their loss showed it; median_lead: in steps.
"""

from __future__ import annotations

SERIOUS = ("entropy collapse", "runaway logits", "not a number")
EVIDENCE: dict[str, dict[str, float]] = {
    "entropy collapse": {"in_time": 9, "troubles": 15, "median_lead": 214, "false_alarms": 0, "sound": 17},
    "runaway logits": {"in_time": 9, "troubles": 15, "median_lead": 284, "false_alarms": 1, "sound": 17},
    "rank collapse": {"in_time": 0, "troubles": 15, "median_lead": 0, "false_alarms": 1, "sound": 17},
    "dead head": {"in_time": 6, "troubles": 15, "median_lead": 254.5, "false_alarms": 1, "sound": 17},
    "attention sink": {"in_time": 5, "troubles": 15, "median_lead": 36, "false_alarms": 0, "sound": 17},
}
