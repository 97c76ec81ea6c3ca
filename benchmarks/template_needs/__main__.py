"""How many samples template tasks need in training: about 20 minutes on one core.

Errors of every size that was trained go into a file as they come, so the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from benchmarks.template_needs.tasks import chosen, generated
from foretrain.core.workers import single_threaded
from foretrain.forecast.templating.training import trained_errors
from foretrain.kernels.architectures import ARCHITECTURES

RESULTS = Path("docs/results/template_needs.json")
COMMAND = "python -m benchmarks.template_needs"


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file to add to")
    parser.add_argument("--generated", action="store_true", help="also the tasks that are drawn at random")
    arguments = parser.parse_args()
    path: Path = arguments.results
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"tasks": {}}
    tasks = chosen() | (generated() if arguments.generated else {})
    with single_threaded():
        for name, task in tasks.items():
            entry = stored["tasks"].setdefault(
                name,
                {"templates": [str(t) for t in task.templates], "labels": list(task.labels), "errors": {}},
            )
            for architecture in ARCHITECTURES:
                if architecture in entry["errors"]:
                    continue
                started = time.process_time()
                trained = trained_errors(task, architecture)
                entry["errors"][architecture] = {str(n): errors for n, errors in trained.errors.items()}
                written = {"command": f"{COMMAND} --generated", "error": "share of a constant guess's, one per seed"}
                path.write_text(
                    json.dumps({**written, **stored}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
                )
                needs = ", ".join(f"{trained.needed(error):.0f} to {error:g}" for error in (0.5, 0.1))
                print(f"{name}, {architecture}: {needs}, {time.process_time() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
