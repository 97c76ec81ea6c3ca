"""What the report shows about one claim: statement, erratum, numbers, assumptions, control, setting, figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foretrain.ledger.claim import Claim
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
    corrected: ClaimView | None = None  # the correction, if the claim has one: both share a row

    @property
    def halves(self) -> dict[str, ClaimView]:
        """What a card shows one after the other."""
        return {"": self} if self.corrected is None else {"As printed": self, "Corrected": self.corrected}

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
        parts = [
            part
            for view in self.halves.values()
            for claim in [view.claim]
            for erratum in [claim.erratum.says if claim.erratum else None]
            for part in (claim.id, claim.source, claim.says, erratum, claim.finding, view.reason)
        ]
        return " ".join(filter(None, parts)).lower()

    @property
    def reason(self) -> str:
        return self.verdict.reason.removesuffix(".")

    @property
    def as_expected(self) -> bool:
        return all(half.verdict.as_expected for half in self.halves.values())

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


def claim_views(
    verdicts: Mapping[str, Verdict], known: Mapping[str, Claim], tier: str, drawn: Mapping[str, Figures]
) -> list[ClaimView]:
    """One view per row: a correction belongs to the claim that it corrects, if both were judged."""
    corrections = {known[id].corrects: id for id in verdicts if known[id].corrects in verdicts}
    rows = [id for id in verdicts if id not in corrections.values()]

    def view(id: str, corrected: ClaimView | None = None) -> ClaimView:
        return ClaimView(known[id], verdicts[id], tier, drawn[id], corrected)

    return [view(id, view(corrections[id]) if id in corrections else None) for id in rows]


def _brief(setting: Mapping[str, Any]) -> dict[str, str]:
    texts = {name: getattr(value, "__qualname__", None) or repr(value) for name, value in setting.items()}
    return {name: text if len(text) <= 200 else f"{text[:197]}…" for name, text in texts.items()}
