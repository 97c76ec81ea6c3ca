"""foretrain check, foretrain report: check claims and show the verdicts."""

from __future__ import annotations

import json
import math
import os
import time
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foretrain.cli.common import RUNS, Cluster, Jobs, Runs, Tier, require_jobs, require_writable, say, show_json
from foretrain.cli.listing import Patterns
from foretrain.cli.progress import progress_shown
from foretrain.core.errors import require, require_known
from foretrain.show.finding import find_claims

if TYPE_CHECKING:
    from foretrain.ledger.claim import Claim
    from foretrain.ledger.verdict import Verdict
    from foretrain.ledger.verdict_store import VerdictFolder


Data = Annotated[
    Path | None,
    typer.Option(help="Folder with the corpora that larger tiers need.", metavar="DIR", show_default="$FORETRAIN_DATA"),
]


def check(
    patterns: Patterns = None,
    tier: Tier = "fast",
    as_json: Annotated[
        Path | None,
        typer.Option("--json", help="Write the verdicts as JSON to this file; - for stdout.", metavar="FILE"),
    ] = None,
    jobs: Jobs = 1,
    cluster: Cluster = None,
    report: Annotated[Path | None, typer.Option(help="Also write an HTML report to this file.", metavar="FILE")] = None,
    data: Data = None,
    runs: Runs = RUNS,
) -> None:
    """Check claims: compare prediction with measurement, and run the control, a change that must flip the verdict.

    Claims marked "measured" have no expected verdict at this tier, because the networks are too small to show what
    they say. Claims are skipped if their corpus is not on this machine. The exit code is 0 if every verdict is as
    expected, 1 if not (or if a claim was skipped), and 2 for bad input. After an interruption, run the same command
    again to continue.

    \b
    Examples:
      foretrain check                                  all claims, tier fast
      foretrain check scan_snap --jobs 2               one paper, two processes
      foretrain check 'scan_snap/theorem*' lemma6      globs and names
      foretrain check "Theorem 4"                      by the number in the paper
      foretrain check --tier full --json verdicts.json --report report.html
      foretrain check --tier full --cluster tcp://scheduler:8786
    """
    from foretrain.cli.verdicts import print_verdicts
    from foretrain.ledger.verdict import tally

    to_stdout = as_json == Path("-")
    _use_data(data)
    chosen, folder = _prepare(patterns, tier, jobs, runs)
    if as_json and not to_stdout:
        require_writable("--json", as_json)
    if report:
        require_writable("--report", report)
    names = [claim.id for claim in chosen]
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        this_check = folder.begin(names)
    for warning in caught:
        say(f"Note: {warning.message}")
    verdicts = _judge(chosen, folder, check=this_check, jobs=jobs, cluster=cluster)
    folder.finish(this_check, names)

    print_verdicts({claim.id: claim for claim in chosen}, verdicts, results=not to_stdout)
    say(f"{tally(verdicts)} (tier {tier}, {time.perf_counter() - started:.1f} s).")
    for verdict in verdicts:
        if not verdict.as_expected:
            say(f"{verdict.claim}: {_surprise(verdict)}")
    if as_json:
        _write_json(verdicts, None if to_stdout else as_json)
    if report:
        _write_report(chosen, folder, report)
    if not all(verdict.as_expected for verdict in verdicts):
        raise typer.Exit(1)


def report(
    patterns: Patterns = None,
    out: Annotated[Path, typer.Option(help="File to write the report to.", metavar="FILE")] = Path("report.html"),
    tier: Tier = "fast",
    jobs: Jobs = 1,
    data: Data = None,
    runs: Runs = RUNS,
) -> None:
    """Write one HTML file with all verdicts, errata, numbers and interactive figures; it opens offline.

    It uses the verdicts that `foretrain check` saved, and checks the missing claims first.

    \b
    Examples:
      foretrain report
      foretrain report --tier full --out full.html
      foretrain report scan_snap --out scan_snap.html
    """
    _use_data(data)
    chosen, folder = _prepare(patterns, tier, jobs, runs)
    require_writable("--out", out)
    _judge(chosen, folder, check=None, jobs=jobs)
    _write_report(chosen, folder, out)


def _use_data(folder: Path | None) -> None:
    """Set the data folder for claims, which have no argument for it, and for the processes that check them."""
    if folder is not None:
        from foretrain.data.corpora import DATA_FOLDER

        require(folder.is_dir(), f"--data takes a folder; {folder} is not one.")
        os.environ[DATA_FOLDER] = str(folder.resolve())


def _prepare(patterns: Sequence[str] | None, tier: str, jobs: int, runs: Path) -> tuple[list[Claim], VerdictFolder]:
    require_jobs(jobs)
    from foretrain.ledger.tiers import TIERS
    from foretrain.ledger.verdict_store import VerdictFolder

    require_known("tier", tier, TIERS)
    chosen = list(find_claims(patterns or []).values())
    require_writable("--runs", runs, folder=True)
    return chosen, VerdictFolder(runs, tier)


def _judge(
    chosen: list[Claim], folder: VerdictFolder, *, check: str | None, jobs: int, cluster: str | None = None
) -> list[Verdict]:
    """Verdicts in the order of the claims. Those that this check (or any, if `check` is None) saved are reused."""
    from foretrain import papers
    from foretrain.core.engines import cluster as cluster_at
    from foretrain.core.engines import engine_of
    from foretrain.core.progress import Progress, tell
    from foretrain.ledger.verdict_store import judge_all, known

    saved = known(folder, chosen, check)
    for sentence in saved.damaged:
        say(sentence)
    verdicts = saved.verdicts
    todo = [claim for claim in chosen if claim.id not in verdicts]
    if verdicts and check:
        say(f"Continuing an interrupted check: {len(verdicts)} of {len(chosen)} claims are already done.")
    chosen_engine = nullcontext(engine_of(min(jobs, len(todo)))) if cluster is None else cluster_at(cluster)
    with progress_shown("checking"), chosen_engine as engine:
        tell(Progress(len(verdicts), len(chosen)))
        for verdict in judge_all(todo, folder, check=check or "", engine=engine, look_up=papers.claim):
            verdicts[verdict.claim] = verdict
            tell(Progress(len(verdicts), len(chosen), f"{verdict.claim} {verdict.status}"))
    return [verdicts[claim.id] for claim in chosen]


def _surprise(verdict: Verdict) -> str:
    if verdict.expected and verdict.status == verdict.expected:
        control = f"its control does not flip it ({verdict.control_status})"
        return f"{verdict.status} as expected, but {control}: {verdict.control_reason}"
    expected = f", {verdict.expected} expected" if verdict.expected and verdict.status != "skipped" else ""
    return f"{verdict.status}{expected}: {verdict.reason}"


def _write_json(verdicts: list[Verdict], place: Path | None) -> None:
    from foretrain.core.files import plain, write_text

    def valid(value: Any) -> Any:
        return None if isinstance(value, float) and not math.isfinite(value) else value

    rows = [{key: valid(value) for key, value in verdict.summary().items()} for verdict in verdicts]
    if place is None:
        show_json(rows, allow_nan=False, default=plain)
    else:
        write_text(place, json.dumps(rows, indent=1, ensure_ascii=False, allow_nan=False, default=plain) + "\n")


def _write_report(chosen: list[Claim], folder: VerdictFolder, out: Path) -> None:
    from foretrain.show.report import write_report

    verdicts = {}
    for claim in chosen:
        verdict = folder.get(claim, trajectories=True)
        assert verdict is not None, claim.id
        verdicts[claim.id] = verdict
    size = write_report(verdicts, folder.tier, out)
    say(f"The report is at {out} ({size / 1e6:.1f} MB).")
