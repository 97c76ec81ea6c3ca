"""Answers questions that come up before training.

`finetune(...)`, `corpus(...)` and `templates(...)` return a forecast with `.summary` (one paragraph), `.dataset`
(xarray), `.table` (a DataFrame), `.figure()` and `.report("file.html")`; in a notebook it shows itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# The public names and where they live; loaded on first use.
PUBLIC = {
    "finetune": "foretrain.forecast.finetuning.forecast",
    "corpus": "foretrain.forecast.corpora.forecast",
    "templates": "foretrain.forecast.templating.forecast",
}
__all__ = sorted(PUBLIC)


def __getattr__(name: str) -> Any:
    if name in PUBLIC:
        return getattr(import_module(PUBLIC[name]), name)
    raise AttributeError(f"module 'foretrain.forecast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
