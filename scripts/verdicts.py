"""Keeps the verdicts and figures that the documentation shows: `make verdicts`, which runs the ledger first.

Writes docs/results/verdicts.json and docs/images/papers/PAPER/CLAIM.webp from the last `foretrain check --tier fast`.
The site then shows verdicts without running the ledger, with their date and their code. For one paper only:

    foretrain check joma
    .venv/bin/python -m scripts.verdicts joma
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kaleido
from scripts.architecture import ROOT

from foretrain.core.files import write_bytes, write_text
from foretrain.core.provenance import versions
from foretrain.core.trajectory import load_file
from foretrain.ledger.claim import Claim
from foretrain.ledger.verdict import Verdict
from foretrain.ledger.verdict_store import VerdictFolder, fingerprint
from foretrain.papers import claims, figure_of, names, papers
from foretrain.show.finishing import finished
from foretrain.show.report.claim_figures import claim_figures

TIER = "fast"
KEPT = ROOT / "docs" / "results" / "verdicts.json"
IMAGES = ROOT / "docs" / "images" / "papers"
NUMBERED = re.compile(r"\b(?:Fig|Table) \d+")  # what a figure or table of a paper is called in `Claim.source`
WIDTH, HEIGHT = 900, 460
PATIENCE = 120  # seconds for a figure; it takes one or two


def record(verdicts: Mapping[str, Verdict], code: str) -> dict[str, Any]:
    """What verdicts.json holds about one paper."""
    return {
        "made": datetime.now(UTC).strftime("%Y-%m-%d"),
        "tier": TIER,
        "code": code,
        "versions": versions(),
        "verdicts": {name: _plain(verdict) for name, verdict in verdicts.items()},
    }


def kept() -> dict[str, Any]:
    """What verdicts.json holds, by paper; nothing if there is no such file."""
    return json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.is_file() else {}


def _plain(verdict: Verdict) -> dict[str, Any]:
    margin = float(f"{verdict.margin:.4g}") if math.isfinite(verdict.margin) else str(verdict.margin)
    return {
        "status": verdict.status,
        "expected": verdict.expected,
        "margin": margin,
        "reason": verdict.reason,
        "control": verdict.control_status,
        "control_reason": verdict.control_reason,
        "assumptions": [{"says": a.says, "met": a.met, "measured": a.measured} for a in verdict.assumptions],
    }


def last_check(paper: str, runs: Path) -> tuple[dict[str, Verdict], str]:
    """The verdicts of the last check of a paper, with their trajectories, and a digest of the code they depend on."""
    folder, verdicts, marks = VerdictFolder(runs, TIER), {}, []
    for claim in claims(paper).values():
        verdict = folder.get(claim, trajectories=True)
        if verdict is None:
            raise SystemExit(f"{claim.id} has no verdict of this code in {folder.path}; run `foretrain check {paper}`.")
        verdicts[claim.id] = verdict
        marks.append(f"{claim.id} {fingerprint(claim, TIER)}")
    return verdicts, hashlib.sha256("\n".join(marks).encode()).hexdigest()[:12]


def pictured(paper: str) -> list[Claim]:
    """The claims whose figures are kept: those about a figure or table of the paper, and the most important ones.

    All of them if none is about a figure or table. A correction shows what the printed claim shows.
    """
    own = [claim for claim in claims(paper).values() if not claim.corrects]
    numbered = [claim for claim in own if NUMBERED.search(claim.source)]
    story = papers()[paper].story
    return [
        c
        for c in own
        if not numbered or c in numbered or (c.erratum and c.erratum.headline) or (story and c.id == story.picture)
    ]


def figures(paper: str, verdicts: Mapping[str, Verdict]) -> Iterator[tuple[str, Any]]:
    """(claim, figure): that of a kept result if there is one, else prediction against measurement."""
    for claim in pictured(paper):
        verdict, result = verdicts[claim.id], KEPT.parent / f"{claim.id.replace('/', '_')}.nc"
        if result.is_file():
            yield claim.id, figure_of(claim.id)(load_file(result))
        elif verdict.prediction is None or verdict.observation is None:
            continue
        elif claim.figure is not None:
            yield claim.id, claim.figure(verdict.prediction, verdict.observation)
        else:
            for figure in claim_figures(verdict.prediction, verdict.observation, claim.compare, claim.quantities)[:1]:
                yield claim.id, figure


def draw(paper: str, verdicts: Mapping[str, Verdict]) -> None:
    """Write the figures of a paper as images, and remove those of claims that are gone."""
    written = set()
    for name, figure in figures(paper, verdicts):
        place = IMAGES / f"{name}.webp"
        write_bytes(place, _image(name, finished(figure, width=WIDTH)))
        written.add(place)
    for old in set((IMAGES / paper).glob("*.webp")) - written:
        old.unlink()
    print(f"{paper}: {len(verdicts)} verdicts, {len(written)} figures")


def _image(name: str, figure: Any) -> bytes:
    """Drawn by a browser. If it stops answering, as it may on a busy machine, this program ends with a sentence."""
    patience = threading.Timer(PATIENCE, _give_up, [name])
    patience.daemon = True
    patience.start()
    try:
        return figure.to_image(format="webp", width=WIDTH, height=figure.layout.height or HEIGHT)
    finally:
        patience.cancel()


def _give_up(name: str) -> None:
    print(f"The browser has not drawn {name} in {PATIENCE} s; run this again.", file=sys.stderr, flush=True)
    os._exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Keep verdicts and figures for the documentation.")
    parser.add_argument("papers", nargs="*", default=names(), help="such as joma; all by default")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", help="the folder that `foretrain check` wrote")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", "The kopts argument is ignored")  # plotly always gives it
    kaleido.start_sync_server(silence_warnings=True)
    records = {name: old for name, old in kept().items() if name in names()}
    for paper in given.papers:
        verdicts, code = last_check(paper, given.runs)
        records[paper] = record(verdicts, code)
        draw(paper, verdicts)
        write_text(KEPT, json.dumps(dict(sorted(records.items())), ensure_ascii=False, indent=1) + "\n")
    kaleido.stop_sync_server()


if __name__ == "__main__":
    main()
