"""What the report shows about one claim: statement, erratum, numbers, assumptions, control, setting, figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foretrain.ledger.claim import Claim, other_half
from foretrain.ledger.margins import margin_words
from foretrain.ledger.verdict import Verdict


@dataclass(frozen=True)
class Figures:
    """The figures of a claim as JSON, or a sentence about why there are none."""

    figures: list[str] = field(default_factory=list)
    problem: str = ""
    wide: bool = False  # a figure made for this claim takes the whole width


@dataclass(frozen=True)
class ClaimView:
    """A claim and its verdict, with everything that the page shows about them."""

    claim: Claim
    verdict: Verdict
    tier: str
    drawn: Figures = field(default_factory=Figures)
    pair: Mapping[str, ClaimView] = field(
        default_factory=dict
    )  # "As printed" and "Corrected", if the claim has an erratum

    @property
    def name(self) -> str:
        return self.claim.id.split("/", 1)[-1]

    @property
    def colour(self) -> str:
        """Green: holds. Grey: fails, as expected. Amber: not judged. Red: a surprise. Outline: no expected verdict."""
        if self.verdict.expected is None and self.verdict.judged:
            return "open"
        if not self.verdict.as_expected and self.verdict.status != "skipped":
            return "bad"
        return {"holds": "good", "fails": "known"}.get(self.verdict.status, "unsure")

    @property
    def text(self) -> str:
        """The text that the page's search box searches."""
        claim = self.claim
        return f"{claim.id} {claim.source} {claim.says} {claim.erratum or ''} {self.verdict.reason}".lower()

    @property
    def reason(self) -> str:
        return self.verdict.reason.removesuffix(".")

    @property
    def margin(self) -> str:
        return margin_words(self.verdict.margin)

    @property
    def setting(self) -> dict[str, str]:
        return _brief(self.claim.setting(self.tier))

    @property
    def control(self) -> dict[str, str]:
        return _brief(self.claim.control.changes)

    @property
    def code(self) -> str:
        """File and line of the measurement, relative to the package."""
        file, line = self.claim.code()
        path, package = Path(file), Path(__file__).parents[2]
        inside = path.is_relative_to(package)
        return f"{Path('foretrain') / path.relative_to(package) if inside else path.name}:{line}"


def claim_view(
    claim: Claim, known: Mapping[str, Claim], verdicts: Mapping[str, Verdict], tier: str, drawn: Figures
) -> ClaimView:
    other = other_half(claim, known)
    printed, corrected = (other, claim.id) if claim.corrects else (claim.id, other)
    pair = {
        title: ClaimView(known[id], verdicts[id], tier)
        for title, id in (("As printed", printed), ("Corrected", corrected))
        if id is not None and id in verdicts
    }
    return ClaimView(claim, verdicts[claim.id], tier, drawn, pair if len(pair) == 2 else {})


def _brief(setting: Mapping[str, Any]) -> dict[str, str]:
    texts = {name: getattr(value, "__qualname__", None) or repr(value) for name, value in setting.items()}
    return {name: text if len(text) <= 200 else f"{text[:197]}…" for name, text in texts.items()}
