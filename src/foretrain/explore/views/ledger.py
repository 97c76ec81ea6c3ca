"""Ledger: what each paper says, what holds, and every claim with its verdict and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlencode

import plotly.graph_objects as go

from foretrain.api.find import claim_entries
from foretrain.core.errors import require_known
from foretrain.explore.sliders import Slider, State, write_state
from foretrain.explore.view import Cell, Formula, Light, Passage, Picture, Places, Shade, TextTable, View, python_call
from foretrain.ledger.claim import Claim
from foretrain.ledger.search import matching
from foretrain.ledger.tiers import TIERS
from foretrain.ledger.verdict import Verdict
from foretrain.ledger.verdict_store import VerdictFolder, known
from foretrain.papers import claims, papers
from foretrain.show.report.claim_figures import claim_figures

ALL = "all"
VERDICTS = (ALL, "holds", "fails", "inconclusive", "unexpected", "not judged here")
MOST = 25  # rows
SHADES: dict[str, Shade] = {"holds": "good", "fails": "known", "inconclusive": "unsure"}


@dataclass(frozen=True)
class FilteredClaims:
    """The claims that the filters leave, all verdicts, and the figures of the claim that is shown."""

    claims: Mapping[str, Claim]
    verdicts: Mapping[str, Verdict]
    total: int
    shown: str
    figures: dict[str, go.Figure] = field(default_factory=dict)
    problem: str = ""


def controls(_: Places) -> Sequence[Slider]:
    ordered = sorted(papers().values(), key=lambda paper: paper.position)
    return (
        Slider("paper", "paper", "choice", "scan_snap", options=(*(paper.name for paper in ordered), ALL),
                shown=(*(paper.short for paper in ordered), "all papers")),
        Slider("verdict", "verdict", "choice", ALL, options=VERDICTS),
        Slider("words", "words", "text", "", says='An id, "Theorem 4", or words of a statement.'),
        Slider("tier", "size of the check", "choice", "fast", options=TIERS),
        Slider("claim", "claim to open", "text", "", says="Its id; the links in the table fill it in."),
    )  # fmt: skip


def work(state: State, places: Places) -> FilteredClaims:
    known_claims, verdicts = _claims(), _verdicts(places.runs, state["tier"], _changed(places.runs, state["tier"]))
    chosen = _filtered(state, known_claims, verdicts)
    stories = papers()
    shown = state["claim"]
    if not shown and state["paper"] != ALL and not state["words"]:
        story = stories[state["paper"]].story
        shown = story.picture if story else ""
    if shown:
        require_known("claim", shown, known_claims)
    figures, problem = _figures(places.runs, state["tier"], shown) if shown in verdicts else ({}, "")
    return FilteredClaims(chosen, verdicts, len(known_claims), shown, figures, problem)


@lru_cache(maxsize=1)
def _claims() -> dict[str, Claim]:
    return claims()


def _changed(runs: Path, tier: str) -> float:
    """When a verdict was last added, or the record of the check was written."""
    folder = runs / "check" / tier
    written = [folder / "check.json", *(path for path in folder.rglob("*") if path.is_dir())]
    return max((path.stat().st_mtime for path in written if path.exists()), default=0.0)


@lru_cache(maxsize=4)
def _verdicts(runs: Path, tier: str, changed: float) -> dict[str, Verdict]:
    """The verdicts on disk that this source code came to."""
    return known(VerdictFolder(runs, tier), _claims().values()).verdicts if changed else {}


def _filtered(state: State, claims: Mapping[str, Claim], verdicts: Mapping[str, Verdict]) -> dict[str, Claim]:
    left = {id: claim for id, claim in claims.items() if state["paper"] in (ALL, claim.paper)}
    wanted = state["verdict"]
    if wanted != ALL:
        left = {id: claim for id, claim in left.items() if _is(wanted, verdicts.get(id))}
    if state["words"].strip():
        hits = {entry.id for entry in matching(state["words"].strip(), claim_entries(left))}
        left = {id: claim for id, claim in left.items() if id in hits}
    return left


def _is(wanted: str, verdict: Verdict | None) -> bool:
    if verdict is None:
        return wanted == "not judged here"
    return not verdict.as_expected if wanted == "unexpected" else verdict.status == wanted


def _figures(runs: Path, tier: str, id: str) -> tuple[dict[str, go.Figure], str]:
    claim = _claims()[id]
    verdict = VerdictFolder(runs, tier).get(claim, trajectories=True)
    if verdict is None or verdict.prediction is None or verdict.observation is None:
        return {}, "There is no figure, because no trajectories were saved with this verdict."
    if claim.figure is not None:
        return {"claim": claim.figure(verdict.prediction, verdict.observation)}, ""
    drawn = claim_figures(verdict.prediction, verdict.observation, claim.compare, claim.quantities)
    for figure in drawn:
        named = figure.layout.title.text or figure.layout.yaxis.title.text or ""
        figure.update_layout(title=f"{id}: {named}" if named else id, height=figure.layout.height or 380)
    return {f"claim-{number}": figure for number, figure in enumerate(drawn)}, ""


def draw(state: State, worked: FilteredClaims | None, places: Places) -> Picture:
    passages = _stories(state)
    python = python_call(VIEW.path, controls(places), state, runs=places.runs)
    if worked is None:
        return Picture(
            _story_answer(state), passages=passages, python=python, waiting="Loading the claims …", empty=True
        )
    claim = worked.claims.get(worked.shown) or (_claims()[worked.shown] if worked.shown else None)
    verdict = worked.verdicts.get(claim.id) if claim is not None else None
    judged = [worked.verdicts[id] for id in worked.claims if id in worked.verdicts]
    surprising = sum(not each.as_expected for each in judged)
    counts = {status: sum(v.status == status for v in judged) for status in ("holds", "fails", "inconclusive")}
    said = ", ".join(f"{number} {'hold' if word == 'holds' else 'fail' if word == 'fails' else word}"
                     for word, number in counts.items() if number)  # fmt: skip
    number = len(worked.claims)
    answer = f"{number} of {worked.total} claims match" if number != worked.total else f"There are {number} claims"
    if judged:
        answer += f"; {said}; " + ("all came out as expected." if not surprising else f"{surprising} unexpectedly.")
        left = number - len(judged)
        answer = f"{answer.removesuffix('.')}, {left} not judged here yet." if left else answer
    else:
        answer += f"; none of them has been judged in {places.runs} by this code: run foretrain check."
    counted: tuple[str, ...] = ()
    if claim is not None and state["claim"]:
        counted, answer = (answer,), _claim_answer(claim, verdict)
    about = () if claim is None else (_claim_passage(claim, verdict, worked.problem),)
    return Picture(
        answer=answer,
        sentences=counted,
        slow_figures=worked.figures,
        lights=tuple(
            Light("good" if check.met else "bad", "met" if check.met else "not met", check.says, check.measured)
            for check in (verdict.assumptions if verdict else ())
        ),
        lights_title="Its assumptions",
        tables=(_table(state, worked, places),),
        passages=(*about, *passages) if state["claim"] else (*passages, *about),
        formulas=() if claim is None else _formulas(claim),
        python=_python(state, worked, python),
    )


def _claim_answer(claim: Claim, verdict: Verdict | None) -> str:
    if verdict is None:
        return f"{claim.source} ({claim.id}) has not been judged here by this code: run foretrain check {claim.id}."
    return f"{claim.source} {verdict.status}: {verdict.reason.removesuffix('.')}."


def _story_answer(state: State) -> str:
    if state["paper"] == ALL:
        return "Papers about training dynamics: what they say, what holds, and what training does instead."
    story = papers()[state["paper"]].story
    return story.says if story else papers()[state["paper"]].title


def _stories(state: State) -> tuple[Passage, ...]:
    wanted = papers().values() if state["paper"] == ALL else [papers()[state["paper"]]]
    return tuple(
        Passage(
            paper.short,
            (
                f"It says: {paper.story.says}",
                f"What holds: {paper.story.holds}",
                f"What is wrong as printed: {paper.story.wrong}",
                f"What training does: {paper.story.training}",
            ),
        )
        for paper in sorted(wanted, key=lambda paper: paper.position)
        if paper.story
    )


def _claim_passage(claim: Claim, verdict: Verdict | None, problem: str) -> Passage:
    lines = [claim.says]
    if verdict is not None:
        lines.append(f"Verdict: {verdict.status}. {verdict.reason.removesuffix('.')}.")
        lines.append(f"Control ({claim.control.says}): {verdict.control_status}.")
    else:
        lines.append("It has not been judged here by this code; run: foretrain check " + claim.id)
    if claim.erratum:
        lines += [f"Erratum: {claim.erratum.says}", f"What it changes: {claim.erratum.consequence}"]
    lines += [f"Finding: {claim.finding}"] if claim.finding else []
    return Passage(f"{claim.id} ({claim.source})", (*lines, *([problem] if problem else [])))


def _formulas(claim: Claim) -> tuple[Formula, ...]:
    formulas = claim.erratum.formulas if claim.erratum else ()
    words = ("As printed.", "Corrected.")
    return tuple(Formula(latex, word, claim.id) for latex, word in zip(formulas, words, strict=False))


def _table(state: State, worked: FilteredClaims, places: Places) -> TextTable:
    rows = []
    for id, claim in list(worked.claims.items())[:MOST]:
        verdict = worked.verdicts.get(id)
        status = "not judged" if verdict is None else verdict.status
        unexpected = verdict is not None and not verdict.as_expected
        query = urlencode(write_state(controls(places), {**state, "claim": id}))
        rows.append(
            (
                Cell(id, link=f"/{VIEW.path}?{query}"),
                claim.source,
                Cell(status + " (unexpected)" * unexpected, shade="bad" if unexpected else SHADES.get(status, "open")),
                claim.says,
            )
        )
    title = "Claims" if len(worked.claims) <= MOST else f"Claims, the first {MOST} of {len(worked.claims)}"
    return TextTable(title, ("claim", "in the paper", "verdict", "what it says"), tuple(rows))


def _python(state: State, worked: FilteredClaims, call: str) -> str:
    if not worked.shown:
        return call
    return (
        f"import foretrain\n\nchecked = foretrain.check({worked.shown!r}, tier={state['tier']!r})  # judges it again\n"
        'print(checked.table[["verdict", "reason"]])\n\n' + call
    )


VIEW = View(
    path="ledger",
    title="Ledger",
    question="What do the papers claim, and does it hold?",
    controls=controls,
    draw=draw,
    work=work,
)
