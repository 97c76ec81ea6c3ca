"""The report: verdicts, errata, numbers and figures in one HTML file."""

from __future__ import annotations

from pathlib import Path

from foretrain.api.check import check
from foretrain.core.files import require_writable


def report(
    *queries: str,
    file: str | Path = "report.html",
    tier: str = "fast",
    jobs: int = 1,
    cluster: str | None = None,
    runs: str | Path = "runs",
    data: str | Path | None = None,
) -> Path:
    """Write a report on the claims that match any of the queries; without a query, on all of them.

    It takes the verdicts that earlier checks saved and checks the missing claims first. For a report on verdicts of
    this very moment: `foretrain.check(...).report(file)`.
    """
    require_writable("file", Path(file))
    return check(*queries, tier=tier, jobs=jobs, cluster=cluster, runs=runs, data=data, reuse=True).report(file)
