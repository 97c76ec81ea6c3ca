"""Check claims: compare prediction with measurement, run the control, save every verdict."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretrain import papers
from foretrain.api.find import find_claims
from foretrain.core.engines import cluster as cluster_at
from foretrain.core.engines import engine_of
from foretrain.core.errors import require, require_known
from foretrain.core.files import require_writable
from foretrain.core.progress import Progress, tell
from foretrain.data.corpora import DATA_FOLDER
from foretrain.ledger.claim import Claim
from foretrain.ledger.margins import margin_words
from foretrain.ledger.tiers import TIERS
from foretrain.ledger.verdict import Verdict, tally
from foretrain.ledger.verdict_store import VerdictFolder, judge_all, known

if TYPE_CHECKING:
    import pandas as pd

_log = logging.getLogger("foretrain")


@dataclass(frozen=True)
class Checked:
    """The verdicts of a check, by claim. Their trajectories are on disk, for the report."""

    claims: Mapping[str, Claim]
    verdicts: Mapping[str, Verdict]
    folder: VerdictFolder
    seconds: float

    def __len__(self) -> int:
        return len(self.verdicts)

    def __repr__(self) -> str:
        return f"<Checked: {self.summary}>"

    def _repr_html_(self) -> str:
        return self.table._repr_html_()

    @property
    def as_expected(self) -> bool:
        """Whether every verdict is as expected; a skipped claim is not."""
        return all(verdict.as_expected for verdict in self.verdicts.values())

    @property
    def summary(self) -> str:
        """How many verdicts are as expected, in a sentence."""
        return f"{tally(self.verdicts.values())} (tier {self.folder.tier}, {self.seconds:.1f} s)."

    @property
    def surprises(self) -> dict[str, str]:
        """What is not as expected, with the reason, by claim."""
        return {id: _surprise(verdict) for id, verdict in self.verdicts.items() if not verdict.as_expected}

    @property
    def table(self) -> pd.DataFrame:
        """One row per claim: verdict, reason, margin, whether it came out as expected, and the control's verdict."""
        import pandas as pd

        rows = [
            {
                "claim": id,
                "source": self.claims[id].source,
                "verdict": verdict.status,
                "reason": verdict.reason,
                "margin": margin_words(verdict.margin),
                "as expected": verdict.as_expected,
                "control": verdict.control_status,
                "whose": self.claims[id].whose,
            }
            for id, verdict in self.verdicts.items()
        ]
        return pd.DataFrame(rows).set_index("claim")

    def rows(self) -> list[dict[str, Any]]:
        """What `foretrain check --json` writes."""
        return [verdict.summary() for verdict in self.verdicts.values()]

    def report(self, file: str | Path = "report.html") -> Path:
        """Write one HTML file with these verdicts, errata, numbers and interactive figures; it opens offline."""
        from foretrain.show.report import write_report

        verdicts = {}
        for position, claim in enumerate(self.claims.values()):
            tell(Progress(position, len(self.claims), f"reading {claim.id}"))
            verdict = self.folder.get(claim, trajectories=True)
            assert verdict is not None, claim.id
            verdicts[claim.id] = verdict
        write_report(verdicts, self.folder.tier, Path(file))
        return Path(file)


def check(
    *queries: str,
    tier: str = "fast",
    jobs: int = 1,
    cluster: str | None = None,
    runs: str | Path = "runs",
    data: str | Path | None = None,
    reuse: bool = False,
) -> Checked:
    """Check the claims that match any of the queries (see `find`); without a query, all of them.

    Verdicts are saved in `runs` as they come: an interrupted check goes on where it stopped, and a finished one starts
    anew, unless `reuse` takes every saved verdict whose code, versions and setting are unchanged. `jobs` is the number
    of local processes, `cluster` the address of a Dask scheduler, `data` the folder with the corpora that larger tiers
    need.
    """
    require(jobs >= 1, f"jobs must be at least 1; got {jobs}.")
    require_known("tier", tier, TIERS)
    claims = find_claims(queries)
    require_writable("runs", Path(runs), folder=True)
    folder, started = VerdictFolder(Path(runs), tier), time.perf_counter()
    with data_folder(data), nullcontext() if cluster is None else cluster_at(cluster) as engine:
        this_check = None if reuse else folder.begin(list(claims))
        saved = known(folder, claims.values(), this_check)
        for sentence in saved.damaged:
            warnings.warn(sentence, stacklevel=2)
        verdicts = saved.verdicts
        if verdicts and not reuse:
            _log.info("Continuing an interrupted check: %d of %d claims are done.", len(verdicts), len(claims))
        missing = [claim for id, claim in claims.items() if id not in verdicts]
        tell(Progress(len(verdicts), len(claims)))
        workers = engine or engine_of(min(jobs, len(missing)))
        for verdict in judge_all(missing, folder, check=this_check or "", engine=workers, look_up=papers.claim):
            verdicts[verdict.claim] = verdict
            tell(Progress(len(verdicts), len(claims), f"{verdict.claim} {verdict.status}"))
        if this_check is not None:
            folder.finish(this_check, list(claims))
    return Checked(claims, {id: verdicts[id] for id in claims}, folder, time.perf_counter() - started)


@contextmanager
def data_folder(folder: str | Path | None) -> Iterator[None]:
    """Inside this block, claims find their corpora in `folder`, also those that other processes check."""
    if folder is None:
        yield
        return
    require(Path(folder).is_dir(), f"data takes a folder; {folder} is not one.")
    before = os.environ.get(DATA_FOLDER)
    os.environ[DATA_FOLDER] = str(Path(folder).resolve())
    try:
        yield
    finally:
        if before is None:
            del os.environ[DATA_FOLDER]
        else:
            os.environ[DATA_FOLDER] = before


def _surprise(verdict: Verdict) -> str:
    if verdict.expected and verdict.status == verdict.expected:
        control = f"its control does not flip it ({verdict.control_status})"
        return f"{verdict.status} as expected, but {control}: {verdict.control_reason}"
    expected = f", {verdict.expected} expected" if verdict.expected and verdict.status != "skipped" else ""
    return f"{verdict.status}{expected}: {verdict.reason}"
