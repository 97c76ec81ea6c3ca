"""The report: one HTML file that opens offline. A row per claim, which opens into a card with its figures."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from string import Template

from plotly.offline import get_plotlyjs

from foretrain.core.files import write_text
from foretrain.core.provenance import machine, versions
from foretrain.ledger.claim import Claim
from foretrain.ledger.verdict import Verdict, tally
from foretrain.papers import Paper, claims, papers
from foretrain.show.plotting import TEMPLATE
from foretrain.show.report.card import Drawn, card, escape, status_pill
from foretrain.show.report.compact import for_script
from foretrain.show.report.drawing import draw_all
from foretrain.show.report.files import CONFIG, report_file

COLUMNS = ("verdict", "claim", "error", "tolerance", "control", "seconds")


def write_report(verdicts: Mapping[str, Verdict], tier: str, out: Path) -> int:
    """Write the report of these verdicts (with their trajectories) and return its size in bytes."""
    page = report_page(verdicts, tier)
    write_text(out, page)
    return len(page.encode())


def report_page(verdicts: Mapping[str, Verdict], tier: str, known: Mapping[str, Claim] | None = None) -> str:
    known = claims() if known is None else known
    drawn = draw_all([(known[name], verdict) for name, verdict in verdicts.items()])
    by_paper = {name: [v for c, v in verdicts.items() if known[c].paper == name] for name in papers()}
    return Template(report_file("page.html")).substitute(
        count=tally(verdicts.values()),
        css=report_file("page.css"),
        js=report_file("narrow.js") + report_file("page.js"),
        plotly=get_plotlyjs(),
        look=for_script({"template": TEMPLATE.to_plotly_json(), "config": CONFIG}),
        header=_header(verdicts, known, tier),
        filters=_filters([name for name, judged in by_paper.items() if judged]),
        papers="\n".join(
            _paper(papers()[name], judged, known, verdicts, tier, drawn) for name, judged in by_paper.items() if judged
        ),
    )


def _header(verdicts: Mapping[str, Verdict], known: Mapping[str, Claim], tier: str) -> str:
    surprises = [verdict for verdict in verdicts.values() if not verdict.as_expected and verdict.status != "skipped"]
    skipped = [verdict for verdict in verdicts.values() if verdict.status == "skipped"]
    errata = sum(known[name].corrects in verdicts for name in verdicts)
    seconds = sum(verdict.seconds for verdict in verdicts.values())
    facts = {
        "tier": tier,
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "computing": f"{seconds:.0f} s on one thread per claim",
        **versions(),
        "machine": ", ".join([machine()["system"], machine()["machine"], f"{machine()['cores']} cores"]),
    }
    told = f"{errata} of them are formulas with an erratum: as printed they fail; the correction is beside them."
    told = told if errata else ""
    alarms = "\n".join(
        f'<div class="{kind}"><strong>{title}</strong><ul>{_listed(found)}</ul></div>'
        for kind, title, found in (("surprises", "Not as expected", surprises), ("skipped", "Not judged", skipped))
        if found
    )
    return f"""<h1>foretrain: what theory says training will do, against what it did</h1>
<p class="count">{tally(verdicts.values())}<small>{told}</small></p>
<dl class="facts">{"".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts.items())}</dl>
{alarms}"""


def _listed(verdicts: list[Verdict]) -> str:
    return "".join(f'<li><a href="#{escape(v.claim)}">{escape(v.claim)}</a>: {escape(v.reason)}</li>' for v in verdicts)


def _filters(names: list[str]) -> str:
    def choice(field: str, first: str, values: list[str]) -> str:
        options = "".join(f'<option value="{escape(value)}">{escape(value)}</option>' for value in values)
        return f'<select name="{field}" aria-label="{first}"><option value="">{first}</option>{options}</select>'

    return f"""<input class="search" type="search" name="text" placeholder="Search claims" aria-label="Search claims">
{choice("paper", "every paper", names)}
{choice("status", "any verdict", ["holds", "fails", "inconclusive", "skipped", "stopped"])}
{choice("expected", "any expectation", ["holds", "fails", "inconclusive", "none"])}
<label><input type="checkbox" name="surprises"> only surprises</label>
<output name="shown"></output>"""


def _paper(
    paper: Paper,
    judged: list[Verdict],
    known: Mapping[str, Claim],
    verdicts: Mapping[str, Verdict],
    tier: str,
    drawn: Mapping[str, Drawn],
) -> str:
    rows = "\n".join(
        _row(known[v.claim], v, card(known[v.claim], known, verdicts, tier, drawn[v.claim])) for v in judged
    )
    head = "".join(
        f"<span{' class=number' if c in ('error', 'tolerance', 'seconds') else ''}>{c}</span>" for c in COLUMNS
    )
    return f"""<section class="paper" id="paper-{escape(paper.name)}">
<h2>{escape(paper.title)}</h2>
<p class="citation">{escape(paper.citation)}</p>
<p class="tally">{tally(judged)}</p>
{_symbols(paper)}
<div class="row head" aria-hidden="true">{head}</div>
{rows}
</section>"""


def _symbols(paper: Paper) -> str:
    if not paper.symbols:
        return ""
    rows = "".join(
        f"<tr><td>{escape(s.letter)}</td><td>{escape(s.name)} {escape(s.shape)}</td><td>{escape(s.meaning)}</td></tr>"
        for s in paper.symbols
    )
    head = "<tr><th>letter</th><th>name and shape here</th><th>meaning</th></tr>"
    return f'<details class="symbols"><summary>Symbols</summary><table>{head}{rows}</table></details>'


def _row(claim: Claim, verdict: Verdict, opened: str) -> str:
    text = f"{claim.id} {claim.source} {claim.says} {claim.erratum or ''} {verdict.reason}".lower()
    data = {
        "paper": claim.paper,
        "status": verdict.status,
        "expected": verdict.expected or "none",
        "surprise": "no" if verdict.as_expected else "yes",
        "text": text,
    }
    marks = " ".join(f'data-{key}="{escape(value)}"' for key, value in data.items())
    short = claim.id.split("/", 1)[-1]
    return f"""<details class="claim" id="{escape(claim.id)}" {marks}>
<summary class="row">
<span>{status_pill(verdict)}</span>
<span class="name-cell"><span class="name">{escape(short)}</span><span class="short">{escape(claim.says)}</span></span>
<span class="number" data-label="error">{verdict.error:.3g}</span>
<span class="number" data-label="of">{verdict.tolerance:.3g}</span>
<span class="plain" data-label="control">{escape(verdict.control_status or "")}</span>
<span class="number" data-label="">{verdict.seconds:.1f}<span class="unit"> s</span></span>
</summary>
{opened}
</details>"""
