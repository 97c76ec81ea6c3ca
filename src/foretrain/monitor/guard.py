"""Keeps the monitor's own errors out of the training that it watches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeAlias

import torch

_log = logging.getLogger("foretrain")
Guard: TypeAlias = Callable[[str], AbstractContextManager[None]]  # `with guard("read attention"): …`


def no_guard(_: str) -> AbstractContextManager[None]:
    """Errors are raised, as outside a training."""
    return nullcontext()


class LoggedErrors:
    """Ends a block at its first error. The first error of each kind of reading is logged; none is raised.

    A logger, not a warning: where warnings are errors, a warning would stop the training.
    """

    def __init__(self) -> None:
        self.logged: set[str] = set()

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if what not in self.logged and is_first_process():
                reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
                _log.warning(
                    "foretrain could not %s (%s). The training goes on, and everything else is recorded.",
                    what, reason, exc_info=_log.isEnabledFor(logging.DEBUG),
                )  # fmt: skip
            self.logged.add(what)


def is_first_process() -> bool:
    """Whether this process is the one that writes and logs; true outside of distributed trainings."""
    distributed = torch.distributed
    return not (distributed.is_available() and distributed.is_initialized()) or distributed.get_rank() == 0
