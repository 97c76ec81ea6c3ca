"""Keeps what takes long, and computes only what is still wanted: a slider that moves on leaves old settings behind."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

MOST = 48  # results


class ResultCache:
    """Results by key, the newest MOST of them. Work is done one at a time, and only for each tab's latest request."""

    def __init__(self) -> None:
        self._results: OrderedDict[Any, Any] = OrderedDict()
        self._newest: dict[str, int] = {}
        self._numbers = itertools.count()
        self._access, self._work = threading.Lock(), threading.Lock()

    def get(self, key: Any) -> Any:
        """The result, or None if it has not been computed yet. An error that was raised is raised again."""
        with self._access:
            result = self._results.get(key)
        if isinstance(result, Exception):
            raise result
        return result

    def has(self, key: Any) -> bool:
        with self._access:
            return key in self._results

    def compute(self, tab: str, key: Any, work: Callable[[], Any]) -> bool:
        """Compute and keep a result; False if the tab wanted something else before its turn came."""
        with self._access:
            number = self._newest[tab] = next(self._numbers)
        with self._work:
            if self.has(key):
                return True
            if self._newest[tab] != number:
                return False
            try:
                result = work()
            except Exception as error:  # shown by whoever draws it
                result = error
            with self._access:
                self._results[key] = result
                while len(self._results) > MOST:
                    self._results.popitem(last=False)
        return True
