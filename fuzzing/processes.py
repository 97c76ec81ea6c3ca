"""One process for each target: a reader that crashes or is killed takes only its own process with it."""

from __future__ import annotations

import sys
from multiprocessing import get_context
from typing import Any

from fuzzing.running import Outcome, limit_memory, run


def in_a_process(name: str, count: int, seed: int) -> Outcome:
    """What came of the inputs of a target. A process that ends early is a finding, too."""
    context = get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(name, count, seed, sending))
    process.start()
    sending.close()
    try:
        outcome = receiving.recv()
    except EOFError:
        outcome = Outcome(name)
    process.join()
    if process.exitcode:
        outcome.findings["crash"] = f"the process ended with {process.exitcode} (seed {seed})"
    return outcome


def _work(name: str, count: int, seed: int, sending: Any) -> None:
    from fuzzing.targets import TARGETS

    limit_memory()

    def show(outcome: Outcome) -> None:
        print(f"{name}: {outcome.inputs:,} of {count:,} after {outcome.seconds:.0f} s", file=sys.stderr, flush=True)

    sending.send(run(TARGETS[name], count, seed, show=show))
