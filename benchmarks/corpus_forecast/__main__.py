"""Run the evaluation: about 15 minutes on one core. What is finished is kept, so the same command goes on where it
stopped; delete docs/results/corpus_forecast.json to start anew."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from foretrain.core.workers import settle

TRAIN, TEST = 4000, 2000  # rows of each corpus
PLANTED_ROWS = 1500  # rows of a corpus with planted shortcuts
RESULT = Path(__file__).parents[2] / "docs" / "results" / "corpus_forecast.json"


def keep(result: dict[str, Any]) -> None:
    RESULT.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def agreement(data: Path, result: dict[str, Any]) -> None:
    """Forecast scores against those of trained networks."""
    from benchmarks.corpus_forecast.agreement import compare
    from benchmarks.corpus_forecast.corpora import NAMES, train_and_test

    done = result.setdefault("agreement", {})
    for name in NAMES:
        if name not in done:
            done[name] = compare(*train_and_test(name, data, TRAIN, TEST))
            print(name, json.dumps(done[name]), flush=True)
            keep(result)


def shortcuts(data: Path, result: dict[str, Any]) -> None:
    """Chosen on SST-2 and the training rows of AG News; judged on other rows and corpora, with other shortcuts."""
    from benchmarks.corpus_forecast.corpora import train_and_test
    from benchmarks.corpus_forecast.planting import CHOSEN, JUDGED, described, finds, listed, planted

    parts = {"chosen": (CHOSEN, ("sst2", "ag_news")), "judged": (JUDGED, ("sst2", "imdb", "ag_news", "authors"))}
    for part, (plants, names) in parts.items():
        done = result.setdefault("shortcuts", {}).setdefault(part, {})
        for name in names:
            if name in done:
                continue
            train, test = train_and_test(name, data, PLANTED_ROWS, PLANTED_ROWS)
            corpus = test if part == "judged" and name != "sst2" else train  # rows that no threshold was chosen on
            rows = {}
            for plant in plants:
                with_it, own = planted(corpus, plant)
                rows[plant.name] = {"kind": plant.kind, "share": plant.share, **finds(listed(with_it), plant, own)}
            done[name] = {"planted": rows, "untouched": described(listed(corpus))}
            print(part, name, json.dumps(done[name]), flush=True)
            keep(result)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.corpus_forecast", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with the corpora")
    chosen = parser.parse_args(words)
    settle()
    result = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.is_file() else {}
    result["command"] = "python -m benchmarks.corpus_forecast --data DIR"
    shortcuts(chosen.data, result)
    agreement(chosen.data, result)
    print(f"Wrote {RESULT}.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
