"""The results as a table for the docs, and how often forecasts were right."""

from __future__ import annotations

from typing import Any

import numpy as np

from foretrain.forecast.templating.evidence import ERRORS
from foretrain.kernels.architectures import TRANSFORMER
from foretrain.kernels.sample_need import PER_SYMBOL, within_factor
from foretrain.papers.abstract_symbols.claims.forecast import (
    forecast_agrees,
    measured_need,
    rank_correlations,
    trained_errors_of,
)

LIMIT = 2048  # the most samples that were trained


def table(stored: dict[str, Any]) -> str:
    """Samples needed by forecast and in training: plain transformers for the larger error, others for the smaller."""
    lines = ["| task | size | " + " | ".join(f"{n}: forecast | trained" for n in PER_SYMBOL) + " |"]
    lines.append("| --- " * (2 + 2 * len(PER_SYMBOL)) + "|")
    for name, entry in stored.items():
        cells = [name, str(len(entry["templates"]) * entry["length"])]
        for architecture in PER_SYMBOL:
            error = ranking_error(architecture)
            forecast = entry["forecast"][architecture][str(error)]
            cells += ["more" if forecast is None else f"{forecast:,.0f}", trained_words(entry, architecture, error)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def ranking_error(architecture: str) -> float:
    return ERRORS[0] if architecture == TRANSFORMER else ERRORS[1]


def trained_words(entry: dict[str, Any], architecture: str, error: float) -> str:
    sizes = [int(n) for n in entry["errors"][architecture]]
    need, least = measured_need(entry, architecture, error), min(sizes)
    if not np.isfinite(need):
        return f"over {max(sizes):,}"
    return f"to {least}" if need <= least else f"{need:,.0f}"


def close(stored: dict[str, Any], architecture: str, error: float) -> dict[str, bool]:
    """Whether each task's forecast is within a factor of 3 of training, as far as the sizes that were tried tell."""
    found = {}
    for name, entry in stored.items():
        forecast = entry["forecast"][architecture][str(error)]
        trained = trained_errors_of(entry, architecture)
        found[name] = within_factor(float("inf") if forecast is None else forecast, trained, error)
    return found


def samples_per_symbol(stored: dict[str, Any], architecture: str, error: float) -> float:
    """The baseline's constant: the median of need over size, chosen tasks only; needs beyond the limit count as it."""
    needs = [
        min(measured_need(e, architecture, error), LIMIT) / (len(e["templates"]) * e["length"])
        for name, e in stored.items()
        if not name.startswith("random")
    ]
    return float(np.median(needs))


def summary(stored: dict[str, Any]) -> str:
    """How many forecasts are within a factor of 3 of training, and rank correlations of forecast and size."""
    lines = []
    for architecture in PER_SYMBOL:
        for error in ERRORS:
            right = close(stored, architecture, error)
            drawn = [ok for name, ok in right.items() if name.startswith("random")]
            lines.append(
                f"{architecture} to {error:g}: {sum(right.values())} of {len(right)} within a factor of 3 "
                f"(drawn: {sum(drawn)} of {len(drawn)}); "
                f"samples per symbol {samples_per_symbol(stored, architecture, error):.1f}"
            )
    for error in ERRORS:
        for drawn_only in (False, True):
            trained = forecast_agrees.observe(error=error, drawn_only=drawn_only)
            taus = rank_correlations(forecast_agrees.prediction({"error": error}), trained)
            listed = ", ".join(f"{name} {ours:.2f} : {size:.2f}" for name, (ours, size) in taus.items())
            lines.append(f"Kendall's τ to {error:g}, {'drawn tasks' if drawn_only else 'all tasks'}: {listed}")
    return "\n".join(lines)
