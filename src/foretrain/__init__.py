"""foretrain says what training will do to an attention network, and checks it against what training did."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# The public names and where they live; loaded on first use, so that `import foretrain` costs nothing.
PUBLIC = {
    "Claim": "foretrain.ledger.claim",
    "InputError": "foretrain.core.errors",
    "Monitor": "foretrain.monitor.monitor",
    "SGD": "foretrain.dynamics.optimizers",
    "Adam": "foretrain.dynamics.optimizers",
    "Adagrad": "foretrain.dynamics.optimizers",
    "Verdict": "foretrain.ledger.verdict",
    "check": "foretrain.show.checking",
    "add_identity_scaling": "foretrain.patches.identity",
    "integrate": "foretrain.dynamics.flow",
    "judge": "foretrain.ledger.judge",
    "load": "foretrain.runs.stored",
    "save": "foretrain.core.trajectory",
    "sweep": "foretrain.grids.sweeping",
    "train": "foretrain.dynamics.train",
}
PACKAGES = ("callbacks", "forecast")  # with public names of their own
__all__ = sorted(PUBLIC)


def __getattr__(name: str) -> Any:
    if name in PACKAGES:
        return import_module(f"foretrain.{name}")
    if name in PUBLIC:
        return getattr(import_module(PUBLIC[name]), name)
    raise AttributeError(f"module 'foretrain' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *PUBLIC, *PACKAGES])
