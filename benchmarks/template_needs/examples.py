"""Every example task that asks for a number, forecast and trained: about fifteen minutes on one core.

    .venv/bin/python -m benchmarks.template_needs.examples

The README shows the task that its own sentence names ("ABA, not ABB"). It shows an error of 0.5, because to 0.1 the
plain transformer needs more samples than the 1024 that `--train` tries. docs/forecast-your-task.md shows all of them.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from foretrain.core.files import write_text
from foretrain.core.workers import single_threaded
from foretrain.forecast.templating.evidence import ERRORS
from foretrain.forecast.templating.forecast import TemplateForecast, templates
from foretrain.forecast.templating.words import about, trained_words
from foretrain.kernels.sample_need import TrainedErrors, within_factor

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results" / "template_examples.json"
EXAMPLES = ("aba", "same_different", "palindrome", "print_program", "majority")


def main() -> None:
    stored: dict[str, Any] = {name: {} for name in EXAMPLES}
    with single_threaded():
        for error in ERRORS:
            for name in EXAMPLES:
                stored[name][str(error)] = _record(templates(ROOT / "examples" / f"{name}.toml", error=error).train())
                print(name, error, templates_row(stored, name, error), flush=True)
    record = {
        "command": "python -m benchmarks.template_needs.examples",
        "forecast": "samples needed; null if never",
        "errors": "squared error on unseen symbols as a share of a constant guess's: one per seed, by samples",
        "tasks": stored,
    }
    write_text(RESULTS, json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def _record(forecast: TemplateForecast) -> dict[str, Any]:
    needs = forecast.table["samples"]
    return {
        name: {
            "forecast": float(needs[name]) if math.isfinite(needs[name]) else None,
            "errors": {str(n): [e if math.isfinite(e) else None for e in each] for n, each in trained.errors.items()},
        }
        for name, trained in forecast.trained
    }


def trained(entry: dict[str, Any]) -> TrainedErrors:
    """The errors of one architecture, as they were stored."""
    return TrainedErrors({int(n): [math.inf if e is None else e for e in each] for n, each in entry["errors"].items()})


def cells(entry: dict[str, Any], error: float) -> tuple[str, str]:
    """Samples needed by forecast and in training, in words."""
    by_forecast = "never" if entry["forecast"] is None else about(entry["forecast"])
    return by_forecast, trained_words(trained(entry), error)


def templates_row(stored: dict[str, Any], name: str, error: float) -> str:
    """A line of the table in docs/forecast-your-task.md: forecast → trained for each architecture."""
    entries = stored[name][str(error)]
    right = sum(
        within_factor(math.inf if entry["forecast"] is None else entry["forecast"], trained(entry), error)
        for entry in entries.values()
    )
    shown = [" → ".join(cells(entry, error)) for entry in entries.values()]
    return f"| `{name}.toml` | {error:g} | {' | '.join(shown)} | {right} of {len(entries)} |"


if __name__ == "__main__":
    main()
