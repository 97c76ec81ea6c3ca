"""The forecast of a template task in words and as JSON."""

from __future__ import annotations

import numpy as np
import xarray as xr

from foretrain.core.trajectory import config_of


def summary(forecast: xr.Dataset) -> dict[str, object]:
    """The forecast as JSON can say it; what is infinite is null."""
    config = config_of(forecast)
    listed = []
    for name in forecast.architecture.values.tolist():
        of = forecast.sel(architecture=name)
        listed.append(
            {
                "architecture": name,
                "learnable": bool(of.learnable),
                "tells_apart": bool(of.tells_apart),
                "undecided": bool(of.undecided),
                "why": str(of.why.item()),
                "condition": _finite(of.condition.item()),
                "inverse_norm": _finite(of.inverse_norm.item()),
                "nonsingular": bool(of.nonsingular),
                "condition_at_least": of.condition_at_least.item(),
                "limit_error": of.limit_error.item(),
                "samples_needed": _finite(of.samples_needed.item()),
                "samples_limit": of.samples_limit.item(),
                "curve": [
                    {"n": int(n), "error": e, "low": low, "high": high}
                    for n, e, low, high in zip(
                        forecast.n.values,
                        *(of[k].values.tolist() for k in ("error", "error_low", "error_high")),
                        strict=True,
                    )
                ],
            }
        )
    return {**config, "architectures": listed}


def verdict_words(of: xr.Dataset) -> str:
    """Whether one architecture learns the task on unseen symbols, in words."""
    if bool(of.learnable):
        return "learns"
    if bool(of.tells_apart):
        return "tells answers apart, cannot copy"
    if bool(of.undecided):
        return f"undecided (eigenvalues below {of.resolution.item():.1g})"
    return f"fails (error {of.limit_error.item():.2g} stays)"


def samples_words(of: xr.Dataset) -> str:
    """How many samples one architecture needs, in words."""
    needed = of.samples_needed.item()
    if np.isfinite(needed):
        return f"{needed:,.0f}"
    if not bool(of.learnable) and not bool(of.undecided):
        return "never"
    return "not with so few tokens" if bool(of.too_few_tokens) else f"more than {of.samples_limit.item():,.0f}"


def condition_words(of: xr.Dataset) -> str:
    """The condition number of one architecture's N, or what it exceeds if its least eigenvalue is too small to see."""
    if np.isfinite(of.condition):
        return f"{of.condition.item():.3g}"
    return "∞" if bool(of.singular) else f"> {of.condition_at_least.item():.1g}"


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
