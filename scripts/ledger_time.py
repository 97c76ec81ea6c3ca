"""How long the ledger takes at a tier, and how it divides over workers: `python -m scripts.ledger_time full [RUNS]`.

Read from the verdicts that `foretrain check --tier TIER` saved. Their seconds are by the clock of one worker, which is
CPU time if nothing else kept its core busy.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Sequence
from pathlib import Path

from foretrain import papers
from foretrain.ledger.verdict_store import VerdictFolder, known

WORKERS = (1, 2, 4, 8, 16, 32, 64, 128)


def makespan(seconds: Sequence[float], workers: int) -> float:
    """How long workers need if each takes the longest piece of work that is left, as `judge_all` hands it out."""
    busy_until = [0.0] * workers
    for length in sorted(seconds, reverse=True):
        heapq.heapreplace(busy_until, busy_until[0] + length)
    return max(busy_until)


def groups(tier: str, runs: Path) -> tuple[list[float], int]:
    """Seconds of what one worker gets at a time (both halves of an erratum go together), and how many are missing."""
    claims = papers.claims()
    verdicts = known(VerdictFolder(runs, tier), claims.values()).verdicts
    together: dict[str, float] = {}
    for name, verdict in verdicts.items():
        key = claims[name].corrects or name
        together[key] = together.get(key, 0.0) + verdict.seconds
    return list(together.values()), len(claims) - len(verdicts)


def main(tier: str = "full", runs: str = "runs") -> int:
    seconds, missing = groups(tier, Path(runs))
    if missing or not seconds:
        print(f"{missing} claims have no verdict of this code at tier {tier} in {runs}; run foretrain check first.")
    if not seconds:
        return 1
    print(f"tier {tier}: {sum(seconds):.0f} s in all, the longest piece {max(seconds):.0f} s")
    print("workers  " + "  ".join(f"{workers:>6}" for workers in WORKERS))
    print("seconds  " + "  ".join(f"{makespan(seconds, workers):>6.0f}" for workers in WORKERS))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
