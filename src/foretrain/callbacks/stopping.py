"""Alarms that end a training: `stop_on={"loss", "not a number"}`."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from inspect import signature

from foretrain.core.errors import InputError, require, require_known
from foretrain.monitor.alarms import KINDS
from foretrain.monitor.guard import is_first_process
from foretrain.monitor.monitor import Monitor

_log = logging.getLogger("foretrain")


def require_options(callback: str, options: Mapping[str, object]) -> None:
    """Refuse options that Monitor does not have now, rather than when the training begins."""
    known = list(signature(Monitor).parameters)[1:]
    for name in options:
        require_known(f"option of {callback}", name, known)


class Stopping:
    """Says when an alarm of one of these kinds has come up. A kind is given whole, or by its first word."""

    def __init__(self, stop_on: Collection[str]) -> None:
        stop_on = {stop_on} if isinstance(stop_on, str) else stop_on
        require(isinstance(stop_on, Collection), f"stop_on must be a set of kinds of alarms; got {stop_on!r}.")
        self.kinds = frozenset(kind for word in stop_on for kind in _kinds(word))
        self._judged = 0

    def reason(self, monitor: Monitor) -> str | None:
        """Why the training ends now, if it does: the first process decides for all, by its first new alarm."""
        if not self.kinds or (monitor.steps - 1) % monitor.every:
            return None  # alarms come with records only
        new, self._judged = monitor.alarms[self._judged :], len(monitor.alarms)
        alarm = next((alarm for alarm in new if alarm.kind in self.kinds), None)
        if alarm is not None and is_first_process():
            _log.warning("The training ends here, as stop_on asks for: %s", alarm)
        if not monitor.all_stop(alarm is not None):
            return None
        return "an alarm of the first process" if alarm is None else f"the alarm {alarm.kind!r}"


def _kinds(word: str) -> list[str]:
    kinds = [kind for kind in KINDS if word in (kind, kind.split()[0])]
    if not kinds:
        raise InputError(f"stop_on has no alarm {word!r}; there are {', '.join(KINDS)}.")
    return kinds
