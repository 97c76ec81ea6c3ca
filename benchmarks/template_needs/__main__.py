"""How many samples template tasks need in training, and by forecast: about half an hour on one core.

Errors of every size that was trained go into the results file as they come, so the same command goes on where it
stopped. Forecasts are computed anew each time. The table is for docs/forecast-your-task.md.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

from benchmarks.template_needs.tables import summary, table
from benchmarks.template_needs.tasks import chosen, generated
from foretrain.core.workers import single_threaded
from foretrain.data.template_task import TemplateTask
from foretrain.forecast.templating.evidence import ERRORS
from foretrain.forecast.templating.forecast import forecast_templates
from foretrain.forecast.templating.training import errors_at, trained_errors
from foretrain.kernels.architectures import ARCHITECTURES
from foretrain.kernels.sample_need import PER_SYMBOL
from foretrain.papers.abstract_symbols.claims.forecast import measured_need

RESULTS = Path("docs/results/template_needs.json")
MORE = 2048  # samples that are tried where the usual sizes do not reach the larger error
COMMAND = "python -m benchmarks.template_needs"


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file to add to")
    parser.add_argument("--generated", action="store_true", help="also the tasks that are drawn at random")
    arguments = parser.parse_args()
    path: Path = arguments.results
    stored = json.loads(path.read_text(encoding="utf-8"))["tasks"] if path.exists() else {}
    tasks = chosen() | (generated() if arguments.generated else {})
    with single_threaded():
        for name, task in tasks.items():
            stored.setdefault(name, {"errors": {}}).update(_described(task))
            for architecture in ARCHITECTURES:
                if architecture not in stored[name]["errors"]:
                    stored[name]["errors"][architecture] = _trained(name, task, architecture)
                    _write(path, stored)
        for name, task in tasks.items():
            for architecture in PER_SYMBOL:  # an MLP without XXᵀ would not learn from any number
                errors = stored[name]["errors"][architecture]
                if str(MORE) not in errors and not math.isfinite(measured_need(stored[name], architecture, ERRORS[0])):
                    errors[str(MORE)] = [_finite(e) for e in errors_at(task, architecture, MORE)]
                    print(f"{name}, {architecture}, {MORE} samples: {errors[str(MORE)]}", flush=True)
                    _write(path, stored)
        for name, task in tasks.items():
            stored[name]["forecast"] = {architecture: _forecast(task, architecture) for architecture in ARCHITECTURES}
            print(f"{name}: {stored[name]['forecast']}", flush=True)
            _write(path, stored)
    print(f"\n{table(stored)}\n\n{summary(stored)}")


def _described(task: TemplateTask) -> dict[str, Any]:
    return {"templates": [str(t) for t in task.templates], "length": task.length, "labels": list(task.labels)}


def _trained(name: str, task: TemplateTask, architecture: str) -> dict[str, list[float | None]]:
    started = time.process_time()
    trained = trained_errors(task, architecture)
    needs = ", ".join(f"{trained.needed(error):.0f} to {error:g}" for error in ERRORS)
    print(f"{name}, {architecture}: {needs}, {time.process_time() - started:.0f} s", flush=True)
    return {str(n): [_finite(error) for error in errors] for n, errors in trained.errors.items()}


def _forecast(task: TemplateTask, architecture: str) -> dict[str, float | None]:
    """Samples needed by the forecast for each error; None if more than it can tell, or never."""
    forecasts = (forecast_templates(task, error=e, samples=(64,), architectures=(architecture,)) for e in ERRORS)
    return {
        str(e): _finite(forecast.samples_needed.values[0].item()) for e, forecast in zip(ERRORS, forecasts, strict=True)
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _write(path: Path, stored: dict[str, Any]) -> None:
    written = {
        "command": f"{COMMAND} --generated",
        "errors": "squared error on unseen symbols as a share of a constant guess's: one per seed, by samples",
        "forecast": "samples needed, by error",
        "tasks": stored,
    }
    path.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
