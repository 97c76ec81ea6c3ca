"""The forecast of a template task in words and as JSON."""

from __future__ import annotations

import numpy as np
import xarray as xr

from foretrain.core.trajectory import config_of


def summary(forecast: xr.Dataset) -> dict[str, object]:
    """The forecast as data for JSON; infinite numbers become null."""
    config = config_of(forecast)
    listed = []
    for name in forecast.architecture.values.tolist():
        own = forecast.sel(architecture=name)
        listed.append(
            {
                "architecture": name,
                "learnable": bool(own.learnable),
                "tells_apart": bool(own.tells_apart),
                "undecided": bool(own.undecided),
                "why": str(own.why.item()),
                "condition": _finite(own.condition.item()),
                "inverse_norm": _finite(own.inverse_norm.item()),
                "nonsingular": bool(own.nonsingular),
                "condition_at_least": own.condition_at_least.item(),
                "limit_error": own.limit_error.item(),
                "samples_needed": _finite(own.samples_needed.item()),
                "samples_limit": own.samples_limit.item(),
                "curve": [
                    {"n": int(n), "error": e, "low": low, "high": high}
                    for n, e, low, high in zip(
                        forecast.n.values,
                        *(own[k].values.tolist() for k in ("error", "error_low", "error_high")),
                        strict=True,
                    )
                ],
            }
        )
    return {**config, "architectures": listed}


def verdict_words(own: xr.Dataset) -> str:
    """Whether one architecture learns the task on unseen symbols, in words."""
    if bool(own.learnable):
        return "learns"
    if bool(own.tells_apart):
        return "tells answers apart, cannot copy"
    if bool(own.undecided):
        return f"undecided (eigenvalues below {own.resolution.item():.1g})"
    return f"fails (error {own.limit_error.item():.2g} stays)"


def samples_words(own: xr.Dataset) -> str:
    """How many samples one architecture needs, in words."""
    needed = own.samples_needed.item()
    if np.isfinite(needed):
        return f"{needed:,.0f}"
    if not bool(own.learnable) and not bool(own.undecided):
        return "never"
    return "not with so few tokens" if bool(own.too_few_tokens) else f"more than {own.samples_limit.item():,.0f}"


def condition_words(own: xr.Dataset) -> str:
    """The condition number of one architecture's N, or a lower bound if the smallest eigenvalue cannot be resolved."""
    if np.isfinite(own.condition):
        return f"{own.condition.item():.3g}"
    return "∞" if bool(own.singular) else f"> {own.condition_at_least.item():.1g}"


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
