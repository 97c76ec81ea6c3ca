"""foretrain says what training will do to an attention network, and checks it against what training did."""

from __future__ import annotations

from typing import Any as _Any

# The public names and where they live; loaded on first use, so that `import foretrain` costs nothing.
PUBLIC = {
    "Adagrad": "foretrain.dynamics.optimizers",
    "Adam": "foretrain.dynamics.optimizers",
    "Claim": "foretrain.ledger.claim",
    "InputError": "foretrain.core.errors",
    "Monitor": "foretrain.monitor.monitor",
    "SGD": "foretrain.dynamics.optimizers",
    "Verdict": "foretrain.ledger.verdict",
    "add_identity_scaling": "foretrain.patches.identity",
    "check": "foretrain.api.check",
    "find": "foretrain.api.find",
    "integrate": "foretrain.dynamics.flow",
    "judge": "foretrain.ledger.judge",
    "load": "foretrain.runs.run_folder",
    "report": "foretrain.api.report",
    "run": "foretrain.api.run",
    "save": "foretrain.core.trajectory",
    "sweep": "foretrain.api.sweep",
    "train": "foretrain.dynamics.train",
}
_PACKAGES = ("callbacks", "forecast")  # with public names of their own
__all__ = ["__version__", *sorted([*PUBLIC, *_PACKAGES])]


def __getattr__(name: str) -> _Any:
    from importlib import import_module

    if name in _PACKAGES:
        return import_module(f"foretrain.{name}")
    if name in PUBLIC:
        return getattr(import_module(PUBLIC[name]), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("foretrain")
    raise AttributeError(f"module 'foretrain' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
