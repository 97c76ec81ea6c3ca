"""How early the monitor's alarms warn, and how often falsely: 264 small trainings, about 45 minutes on one core.

A run that is finished is stored, so the same command goes on where it stopped. `--publish` writes the results into
docs/ and into the package.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import time
from datetime import date
from pathlib import Path

from benchmarks.early_warnings.page import publish, tables
from benchmarks.early_warnings.results import results
from benchmarks.early_warnings.settings import settings
from benchmarks.early_warnings.tasks import read_text
from benchmarks.early_warnings.training import load_or_train
from foretrain.core.workers import single_threaded


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.early_warnings", description=__doc__)
    parser.add_argument("--data", type=Path, help="a text file to train on; without it, a made-up text")
    parser.add_argument("--runs", type=Path, default=Path("runs/early_warnings"), help="folder of finished runs")
    parser.add_argument("--publish", action="store_true", help="write the results into docs/ and the package")
    arguments = parser.parse_args()
    logging.getLogger("foretrain").setLevel(logging.CRITICAL)  # alarms are what we came for
    text, listed, pairs = read_text(arguments.data), settings(), []
    with single_threaded():
        for number, setting in enumerate(listed, start=1):
            started = time.monotonic()
            run, trained = load_or_train(setting, text, arguments.runs)
            pairs.append((setting, run))
            took = f"{time.monotonic() - started:.0f} s" if trained else "was finished"
            print(f"{number} of {len(listed)}: {setting.name}: {len(run['losses'])} steps, {took}", flush=True)
        print("choosing thresholds ...", flush=True)
        published = results(pairs, hashlib.sha256(text).hexdigest(), date.today().isoformat())
    for name, values in published["chosen"].items():
        print(f"{name}: {', '.join(f'{key} {value:g}' for key, value in values.items())}")
    print(f"serious: {', '.join(published['serious'])}\n\n{tables(published)}")
    if arguments.publish:
        publish(published)


if __name__ == "__main__":
    main()
