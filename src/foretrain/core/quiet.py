"""Other people's libraries without their progress bars and notices."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Without the progress bars and warnings of transformers; what matters raises an error here."""
    from transformers.utils import logging as notices

    level, bars = notices.get_verbosity(), notices.is_progress_bar_enabled()
    notices.set_verbosity_error()
    notices.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        notices.set_verbosity(level)
        if bars:
            notices.enable_progress_bar()


@contextmanager
def quiet_dask() -> Iterator[None]:
    """Without what Dask logs about lost connections; what matters raises an error here."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client", "tornado.application")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
