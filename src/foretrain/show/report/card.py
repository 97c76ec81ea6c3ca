"""The card of one claim: statement, erratum, numbers, assumptions, control, setting, figures."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import foretrain
from foretrain.ledger.claim import Claim, other_half
from foretrain.ledger.verdict import Verdict


@dataclass(frozen=True)
class Drawn:
    """The figures of a claim as JSON, or a sentence about why there are none."""

    figures: list[str] = field(default_factory=list)
    problem: str = ""
    wide: bool = False  # one figure made for this claim: takes the whole width


def escape(value: Any) -> str:
    return html.escape(str(value))


def number(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else str(value)


def status_pill(verdict: Verdict) -> str:
    """Green: holds. Grey: fails, as expected. Amber: not judged. Red: a surprise."""
    kind = {"holds": "good", "fails": "known"}.get(verdict.status, "unsure")
    if not verdict.as_expected and verdict.status != "skipped":
        kind = "bad"
    return f'<span class="pill {kind}">{escape(verdict.status)}</span>'


def card(claim: Claim, known: Mapping[str, Claim], verdicts: Mapping[str, Verdict], tier: str, drawn: Drawn) -> str:
    verdict = verdicts[claim.id]
    file, line = claim.code()
    parts = [
        f'<p class="says">{escape(claim.says)}</p>',
        f'<p class="code">{escape(claim.source)}</p>',
        _erratum(claim, known, verdicts),
        _heading("Verdict", _verdict(verdict)),
        _figures(claim, drawn),
        _heading("Assumptions", _assumptions(verdict)),
        _heading("Control: a change under which the verdict must flip", _control(claim, verdict)),
        _heading(f"Setting, tier {tier}", _setting(claim.setting(tier))),
        _heading("Warnings on the way", "".join(f"<p>{escape(note)}</p>" for note in verdict.notes)),
        f'<p class="code">{escape(claim.id)}, measured in {escape(_short(file))}:{line}</p>',
    ]
    return f'<div class="card">{"".join(parts)}</div>'


def _heading(title: str, content: str) -> str:
    return f"<h3>{escape(title)}</h3>{content}" if content else ""


def _short(file: str) -> str:
    """A file of the package without the way to it on this machine."""
    path = Path(file)
    package = Path(foretrain.__file__).parent
    return str(Path("foretrain") / path.relative_to(package)) if path.is_relative_to(package) else path.name


def _verdict(verdict: Verdict) -> str:
    expected = verdict.expected or "no verdict: a measurement"
    told = "Not judged." if verdict.status == "skipped" else "Not as expected."
    surprise = "" if verdict.as_expected else f' <strong class="unmet">{told}</strong>'
    return (
        f"<p>{status_pill(verdict)} {escape(verdict.reason.removesuffix('.'))}.{surprise}</p>"
        f'<dl class="facts"><div><dt>error</dt><dd>{number(verdict.error)}</dd></div>'
        f"<div><dt>tolerance</dt><dd>{number(verdict.tolerance)}</dd></div>"
        f"<div><dt>expected</dt><dd>{escape(expected)}</dd></div>"
        f"<div><dt>took</dt><dd>{verdict.seconds:.2f} s</dd></div></dl>"
    )


def _erratum(claim: Claim, known: Mapping[str, Claim], verdicts: Mapping[str, Verdict]) -> str:
    told = f'<div class="erratum"><strong>Erratum.</strong> {escape(claim.erratum)}</div>' if claim.erratum else ""
    pair = other_half(claim, known)
    names = [claim.corrects, claim.id] if claim.corrects else [claim.id, pair or ""]
    if not all(name in verdicts for name in names):
        return told
    halves = "".join(
        f"<div><h4><a href='#{escape(name)}'>{title}</a>{status_pill(verdicts[name])}</h4>"
        f"<p>{escape(verdicts[name].reason)}.</p>"
        f'<p class="code">error {number(verdicts[name].error)}, tolerance {number(verdicts[name].tolerance)}</p></div>'
        for name, title in zip(names, ("As printed", "Corrected"), strict=True)
    )
    return f'{told}<div class="pair">{halves}</div>'


def _figures(claim: Claim, drawn: Drawn) -> str:
    if drawn.problem:
        return _heading("Prediction and measurement", f"<p>{escape(drawn.problem)}</p>")
    if not drawn.figures:
        return ""
    places = "".join(
        f'<div class="figure" data-figure="{escape(claim.id)}:{i}" role="img" aria-label="prediction and measurement">'
        f'<noscript>The figure needs JavaScript.</noscript></div><script type="application/json" '
        f'id="{escape(claim.id)}:{i}">{figure}</script>'
        for i, figure in enumerate(drawn.figures)
    )
    return _heading("Prediction and measurement", f'<div class="figures{" wide" if drawn.wide else ""}">{places}</div>')


def _assumptions(verdict: Verdict) -> str:
    rows = "".join(
        f"<tr><td class='{'met' if a.met else 'unmet'}'>{'met' if a.met else 'not met'}</td><td>{escape(a.says)}</td>"
        f"<td>{escape(a.measured)}</td><td>{'needed' if a.needed else 'reported'}</td></tr>"
        for a in verdict.assumptions
    )
    head = "<tr><th></th><th>assumption</th><th>measured</th><th></th></tr>"
    return f"<table>{head}{rows}</table>" if rows else ""


def _control(claim: Claim, verdict: Verdict) -> str:
    if verdict.control_status is None:
        return f"<p>{escape(claim.control.says)}. It was not run.</p>{_setting(claim.control.changes)}"
    said = f"It says <strong>{escape(verdict.control_status)}</strong>: {escape(verdict.control_reason)}."
    return f"<p>{escape(claim.control.says)}. {said}</p>{_setting(claim.control.changes)}"


def _setting(setting: Mapping[str, Any]) -> str:
    shown = "".join(f"<span>{escape(name)} = {escape(_brief(value))}</span>" for name, value in setting.items())
    return f'<p class="setting">{shown}</p>' if shown else ""


def _brief(value: Any) -> str:
    text = getattr(value, "__qualname__", None) or repr(value)
    return text if len(text) <= 200 else f"{text[:197]}…"
