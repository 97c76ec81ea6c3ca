"""The report: one HTML file that opens offline. Each claim is a row that opens into a card with its figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from foretrain.core.files import write_text
from foretrain.core.provenance import machine, versions
from foretrain.ledger.claim import Claim
from foretrain.ledger.verdict import Verdict, tally
from foretrain.papers import Paper, claims, papers
from foretrain.show.pages import CONFIG, render
from foretrain.show.plotting import TEMPLATE
from foretrain.show.report.card import ClaimView, claim_views
from foretrain.show.report.compact import for_script
from foretrain.show.report.drawing import draw_all

SHORT = 12  # statements; a report with no more than these hides nothing


@dataclass(frozen=True)
class Section:
    """A paper and its claims on the page."""

    paper: Paper
    views: list[ClaimView]

    @property
    def tally(self) -> str:
        return tally([half.verdict for half in self.halves])

    @property
    def halves(self) -> list[ClaimView]:
        """Every claim, with corrections as claims of their own."""
        return [half for view in self.views for half in view.halves.values()]

    @property
    def errata(self) -> list[ClaimView]:
        """What is wrong as printed, the most important first."""
        wrong = [(view.claim.erratum, view) for view in self.views if view.claim.erratum]
        return [view for _, view in sorted(wrong, key=lambda pair: not pair[0].headline)]

    @property
    def findings(self) -> list[ClaimView]:
        return [half for half in self.halves if half.claim.finding]

    @property
    def drawings(self) -> list[ClaimView]:
        """The claims with figures."""
        return [half for half in self.halves if half.drawn.figures]

    @property
    def picture(self) -> ClaimView | None:
        """The claim whose figure the story shows, if it was judged and has one."""
        wanted = self.paper.story.picture if self.paper.story else ""
        return next((half for half in self.drawings if half.claim.id == wanted), None)


def write_report(verdicts: Mapping[str, Verdict], tier: str, out: Path) -> int:
    """Write the report on these verdicts (with their trajectories) and return its size in bytes."""
    page = report_page(verdicts, tier)
    write_text(out, page)
    return len(page.encode())


def report_page(verdicts: Mapping[str, Verdict], tier: str, known: Mapping[str, Claim] | None = None) -> str:
    """The report as HTML. `known` has the claims of the verdicts; by default, those of the papers."""
    known = claims(*verdicts) if known is None else known
    figures = draw_all([(known[name], verdict) for name, verdict in verdicts.items()])
    views = claim_views(verdicts, known, tier, figures)
    in_order = sorted(papers().values(), key=lambda paper: paper.position)
    by_paper = {paper.name: [view for view in views if view.claim.paper == paper.name] for paper in in_order}
    sections = [Section(papers()[name], of_paper) for name, of_paper in by_paper.items() if of_paper]
    statements = sum(len(section.views) for section in sections)
    everything = verdicts.values()
    return render(
        "report.html",
        tier=tier,
        count=tally(everything),
        statements=statements,
        corrections=len(verdicts) - statements,
        short=statements <= SHORT,
        errata=[view for section in sections for view in section.errata],
        findings=[view for section in sections for view in section.findings],
        figures=[view for section in sections for view in section.drawings],
        facts=_facts(verdicts, tier),
        surprises=[verdict for verdict in everything if not verdict.as_expected and verdict.status != "skipped"],
        skipped=[verdict for verdict in everything if verdict.status == "skipped"],
        sections=sections,
        look=for_script({"template": TEMPLATE.to_plotly_json(), "config": CONFIG}),
    )


def _facts(verdicts: Mapping[str, Verdict], tier: str) -> dict[str, str]:
    seconds = sum(verdict.seconds for verdict in verdicts.values())
    return {
        "tier": tier,
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "computing": f"{seconds:.0f} s on one thread per claim",
        "foretrain": metadata.version("foretrain"),
        **versions(),
        "plotly": metadata.version("plotly"),
        "machine": ", ".join([machine()["system"], machine()["machine"], f"{machine()['cores']} cores"]),
    }
