"""Run the evaluation and keep its result: python -m benchmarks.corpus_forecast --data DIR [--only agreement]."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from foretrain.core.workers import settle

TRAIN, TEST = 4000, 2000  # rows of each corpus
PLANTED_ROWS = 2000  # rows of a corpus with planted shortcuts
RESULT = Path(__file__).parents[2] / "docs" / "results" / "corpus_forecast.json"


def agreement(data: Path) -> dict[str, Any]:
    from benchmarks.corpus_forecast.agreement import compare
    from benchmarks.corpus_forecast.corpora import NAMES, train_and_test

    result = {}
    for name in NAMES:
        result[name] = compare(*train_and_test(name, data, TRAIN, TEST))
        print(name, json.dumps(result[name]), flush=True)
    return result


def shortcuts(data: Path) -> dict[str, Any]:
    """Chosen on SST-2 and the training rows of AG News; judged on other rows and corpora, with other shortcuts."""
    from benchmarks.corpus_forecast.corpora import train_and_test
    from benchmarks.corpus_forecast.planting import CHOSEN, JUDGED, described, finds, listed, planted

    corpora = {
        "chosen": {name: train_and_test(name, data, PLANTED_ROWS, 1)[0] for name in ("sst2", "ag_news")},
        "judged": {
            "sst2": train_and_test("sst2", data, PLANTED_ROWS, 1)[0],
            "imdb": train_and_test("imdb", data, 1, PLANTED_ROWS)[1],
            "ag_news": train_and_test("ag_news", data, 1, PLANTED_ROWS)[1],
            "authors": train_and_test("authors", data, PLANTED_ROWS, 1)[0],
        },
    }
    result: dict[str, Any] = {}
    for part, plants in (("chosen", CHOSEN), ("judged", JUDGED)):
        result[part] = {}
        for name, corpus in corpora[part].items():
            rows = {}
            for plant in plants:
                with_it, own = planted(corpus, plant)
                rows[plant.name] = {"kind": plant.kind, "share": plant.share, **finds(listed(with_it), plant, own)}
            result[part][name] = {"planted": rows, "untouched": described(listed(corpus))}
            print(part, name, json.dumps(result[part][name]), flush=True)
    return result


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.corpus_forecast", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with the corpora")
    parser.add_argument("--only", choices=("agreement", "shortcuts"), help="run one part, keep the other's result")
    chosen = parser.parse_args(words)
    settle()
    kept = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.is_file() else {}
    kept["command"] = "python -m benchmarks.corpus_forecast --data DIR"
    if chosen.only != "shortcuts":
        kept["agreement"] = agreement(chosen.data)
    if chosen.only != "agreement":
        kept["shortcuts"] = shortcuts(chosen.data)
    RESULT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"Wrote {RESULT}.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
