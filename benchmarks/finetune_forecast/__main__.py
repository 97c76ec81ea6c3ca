"""Forecasts of fine-tuning against real fine-tuning. A finished trial is stored, so the same command goes on.

python -m benchmarks.finetune_forecast --data corpora --model minilm=FOLDER --model stories=FOLDER
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.finetune_forecast.judging import published
from benchmarks.finetune_forecast.trials import Case, run_case
from foretrain.core.files import write_text
from foretrain.core.workers import single_threaded

CORPORA = ("sst2", "ag_news_2", "imdb")
RATES = (2e-5, 5e-5)
TOO_LARGE = (1e-4, 4e-4)  # rates at which forecasts may fail, for the judge of trust


def cases(models: Sequence[str], corpora: Sequence[str], seeds: int) -> list[Case]:
    """All seeds at the usual rates; the first also at larger ones, the first two with rows left out."""
    return [
        Case(model, corpus, seed, RATES + (TOO_LARGE if seed == 1 else ()), drop=seed <= 2)
        for seed in range(1, seeds + 1)
        for model in models
        for corpus in corpora
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.finetune_forecast", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with the corpora")
    parser.add_argument("--model", action="append", required=True, help="NAME=FOLDER; may be repeated")
    parser.add_argument("--corpus", action="append", help="sst2, ag_news_2, imdb (all three by default) or books")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--runs", type=Path, default=Path("runs/finetune_forecast"), help="folder of finished trials")
    parser.add_argument("--publish", type=Path, help="file for the tables")
    arguments = parser.parse_args()
    folders = dict(each.split("=", 1) for each in arguments.model)
    arguments.runs.mkdir(parents=True, exist_ok=True)
    with single_threaded():
        for case in cases(list(folders), arguments.corpus or CORPORA, arguments.seeds):
            file = arguments.runs / f"{case.name}.json"
            if file.is_file():
                continue
            started = time.monotonic()
            found = run_case(case, folders[case.model], arguments.data)
            write_text(file, json.dumps(found, indent=1) + "\n")
            told = "; ".join(
                f"{t['rate']:g}: {t['score']['correlation']:.3f} × {t['score']['scale']:.2f}" for t in found
            )
            print(f"{case.name}: {told} ({time.monotonic() - started:.0f} s)", flush=True)
    if arguments.publish is not None:
        trials = [trial for file in sorted(arguments.runs.glob("*.json")) for trial in json.loads(file.read_text())]
        write_text(arguments.publish, json.dumps(published(trials), indent=1) + "\n")


if __name__ == "__main__":
    main()
