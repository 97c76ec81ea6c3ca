"""What went wrong, and where it began: the first sentences about a training that is in trouble."""

from __future__ import annotations

from collections.abc import Sequence

from foretrain.monitor.alarms import ADVICE, Alarm
from foretrain.monitor.diagnosis import first_mover
from foretrain.runs.training_log import Record

RISE = "loss above its least"


def trouble(records: Sequence[Record], alarms: Sequence[Alarm]) -> list[str]:
    """One sentence that names the trouble and one with what to try; none if no serious alarm came up."""
    serious = [alarm for alarm in alarms if alarm.serious]
    if not serious:
        return []
    diagnosis = first_mover(records)
    if diagnosis is not None and any(alarm.kind == RISE for alarm in serious):
        return [str(diagnosis), ADVICE[RISE]]
    first = serious[0]
    return [f"{str(first)[0].upper()}{str(first)[1:]}", ADVICE[first.kind]]
