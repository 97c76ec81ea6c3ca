"""foretrain check: check claims and show the verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foretrain.api.check import check as check_claims
from foretrain.cli.common import RUNS, Cluster, Jobs, Patterns, Runs, Tier, option, say
from foretrain.cli.progress import progress_shown
from foretrain.cli.terminal import json_text, show_json
from foretrain.cli.verdicts import print_verdicts
from foretrain.core.files import require_writable, write_text

DATA = ("Folder with the corpora that larger tiers need.", "DIR")
REUSE = ("Take saved verdicts whose code and setting are unchanged.", None, "--reuse")
REFRESH = ("First compute the kept results again whose code has changed: up to an hour each.", None, "--refresh")
JSON = ("Write the verdicts as JSON to this file; - for stdout.", "FILE", "--json")


def check(
    patterns: Patterns = None,
    tier: Tier = "fast",
    as_json: Annotated[Path | None, option(*JSON)] = None,
    report: Annotated[Path | None, option("Also write an HTML report to this file.", "FILE")] = None,
    reuse: Annotated[bool, option(*REUSE)] = False,
    refresh: Annotated[bool, option(*REFRESH)] = False,
    jobs: Jobs = 1,
    cluster: Cluster = None,
    data: Annotated[Path | None, option(*DATA, default="$FORETRAIN_DATA")] = None,
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
      foretrain check "Theorem 4"                      by number, in every paper
      foretrain check "scan_snap Theorem 4"            in one paper
      foretrain check --report report.html             everything on a page
      foretrain check --reuse --report report.html     from saved verdicts
      foretrain check --tier full --cluster tcp://scheduler:8786
    """
    to_stdout = as_json == Path("-")
    for name, file in (("--json", None if to_stdout else as_json), ("--report", report)):
        if file is not None:
            require_writable(name, file)
    if refresh:
        from foretrain.api.refresh import refresh as refresh_results

        with progress_shown("computing kept results"):
            left = refresh_results(*patterns or (), jobs=jobs, data=data, runs=runs)
        for sentence in left:
            say(sentence)
    with progress_shown("checking"):
        checked = check_claims(
            *patterns or (), tier=tier, jobs=jobs, cluster=cluster, runs=runs, data=data, reuse=reuse
        )
    print_verdicts(checked.claims, list(checked.verdicts.values()), results=not to_stdout)
    say(checked.summary)
    for claim, surprise in checked.surprises.items():
        say(f"{claim}: {surprise}")
    if to_stdout:
        show_json(checked.rows())
    elif as_json:
        write_text(as_json, json_text(checked.rows()) + "\n")
    if report:
        with progress_shown("writing the report"):
            checked.report(report)
        say(f"The report is at {report} ({report.stat().st_size / 1e6:.1f} MB).")
    if not checked.as_expected:
        raise typer.Exit(1)
