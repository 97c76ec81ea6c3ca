"""One page per paper for the site, from the ledger and the kept verdicts; nothing is computed here."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from scripts.architecture import ROOT
from scripts.verdicts import IMAGES, NUMBERED, TIER, kept

from foretrain.ledger.claim import Claim
from foretrain.ledger.verdict import flipped
from foretrain.papers import Paper, claims, papers
from foretrain.show.formulas import typeset
from foretrain.show.prose import prose

NOT_JUDGED = {"status": "not judged", "reason": "Not judged here.", "expected": None, "control": None}
COLOURS = {"holds": "good", "fails": "known", "not judged": "open"}
CONTROL_WORDS = {"holds": "holds", "fails": "fails", "inconclusive": "is inconclusive"}


@dataclass(frozen=True)
class Card:
    """A claim and its kept verdict, as a page shows them."""

    claim: Claim
    kept: Mapping[str, Any]
    corrected: Card | None = None

    @property
    def halves(self) -> list[Card]:
        return [self] if self.corrected is None else [self, self.corrected]

    @property
    def name(self) -> str:
        return self.claim.id.split("/", 1)[1]

    @property
    def anchor(self) -> str:
        return self.claim.id

    @property
    def status(self) -> str:
        return str(self.kept["status"])

    @property
    def surprise(self) -> bool:
        """Whether it was judged and did not come out as expected, or its control did not flip it."""
        expected = self.kept["expected"]
        return expected is not None and (self.status, self.kept["control"]) != (expected, flipped(expected))

    @property
    def too_small(self) -> bool:
        """Whether it was judged at a size that is too small to show it."""
        return self.kept["expected"] is None and self.claim.expect is not None and self.status != NOT_JUDGED["status"]

    @property
    def shown(self) -> str:
        """The status in words."""
        return f"needs tier {self.claim.expect_from}" if self.too_small else self.status

    @property
    def colour(self) -> str:
        if self.kept["expected"] is None:
            return "open"
        return "bad" if self.surprise else COLOURS.get(self.status, "unsure")

    @property
    def reason(self) -> str:
        reason = f"{str(self.kept['reason']).removesuffix('.')}."
        return f"Tier {TIER} is too small to show this. {reason}" if self.too_small else reason

    @property
    def assumptions(self) -> list[Mapping[str, Any]]:
        """With what was measured, or as the claim has them if there is no verdict."""
        if self.status == "not judged":
            return [{"says": a.says, "met": True, "measured": ""} for a in self.claim.assumes]
        return list(self.kept["assumptions"])

    @property
    def control(self) -> str | None:
        return self.kept["control"]

    @property
    def control_words(self) -> str:
        return CONTROL_WORDS.get(str(self.control), str(self.control))

    @property
    def control_reason(self) -> str:
        return f"{str(self.kept['control_reason']).removesuffix('.')}."

    @property
    def _file(self) -> Path:
        return IMAGES / f"{self.claim.id}.webp"

    @property
    def image(self) -> str:
        """Where the figure is, seen from the page; empty if there is none."""
        return f"../images/papers/{self.claim.id}.webp" if self._file.is_file() else ""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, so that the page does not jump while figures load."""
        return webp_size(self._file.read_bytes())


def webp_size(content: bytes) -> tuple[int, int]:
    """Width and height of a WebP image, from its first bytes."""
    kind = content[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(content[24:27], "little"), 1 + int.from_bytes(content[27:30], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(content[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return int.from_bytes(content[26:28], "little") & 0x3FFF, int.from_bytes(content[28:30], "little") & 0x3FFF


@cache
def kept_verdicts() -> dict[str, Any]:
    """What verdicts.json holds, by paper."""
    return kept()


def cards_of(paper: str) -> list[Card]:
    """One card per claim; a correction belongs to the card of the claim that it corrects."""
    own = claims(paper)
    verdicts = kept_verdicts().get(paper, {}).get("verdicts", {})
    corrections = {claim.corrects: claim for claim in own.values() if claim.corrects in own}

    def card(claim: Claim, corrected: Card | None = None) -> Card:
        return Card(claim, verdicts.get(claim.id, NOT_JUDGED), corrected)

    return [
        card(claim, card(corrections[claim.id]) if claim.id in corrections else None)
        for claim in own.values()
        if claim.corrects not in own
    ]


def pictures(cards: list[Card]) -> dict[str, list[Card]]:
    """Cards by the figure or table of the paper that they are about, in its order; else those that have an image."""
    numbered = [card for card in cards if NUMBERED.search(card.claim.source)]
    if not numbered:
        return {card.claim.source: [card] for card in cards if card.image}
    groups: dict[str, list[Card]] = {}
    for card in numbered:
        found = NUMBERED.search(card.claim.source)
        assert found is not None
        groups.setdefault(found[0], []).append(card)
    return dict(sorted(groups.items(), key=lambda item: (item[0].split()[0], int(item[0].split()[1]))))


def tally(cards: list[Card]) -> str:
    halves = [half for card in cards for half in card.halves]
    counts = Counter("too small" if half.too_small else half.status for half in halves)
    words = {
        "holds": "{} hold",
        "fails": "{} fail",
        "inconclusive": "{} inconclusive",
        "too small": f"{{}} cannot be seen at the sizes of tier {TIER}",
        "not judged": "{} not judged",
    }
    listed = ", ".join(says.format(counts[status]) for status, says in words.items() if counts[status])
    bound = [half for half in halves if half.kept["expected"] is not None]
    met = sum(not half.surprise for half in bound)
    share = f"All {met}" if met == len(bound) else f"{met} of the {len(bound)}"
    rest = len(halves) - len(bound)
    others = f"; the other {rest if rest > 1 else 'one'} {'have' if rest > 1 else 'has'} none at this tier" * bool(rest)
    return f"{len(halves)} claims: {listed}. {share} with an expected verdict came out as expected{others}."


def origin(paper: str) -> str:
    record = kept_verdicts().get(paper)
    if record is None:
        return "Nothing has been judged yet; `make verdicts` judges every claim."
    return f"Judged on {record['made']} at tier {record['tier']}, code `{record['code']}`."


def agreement(cards: list[Card]) -> str:
    """One sentence on what agrees about a figure."""
    judged = [card for card in cards if card.status in ("holds", "fails") and not card.too_small]
    holds = sum(card.status == "holds" for card in judged)
    if not judged:
        return f"Tier {TIER} cannot tell whether it agrees." if any(card.too_small for card in cards) else ""
    if len(judged) == 1:
        return f"What is said about it {'agrees' if holds else 'does not agree'} with what we measured."
    if holds == len(judged):
        every = "Both" if holds == 2 else f"All {holds}"
        return f"{every} statements about it agree with what we measured."
    if holds == 0:
        return f"None of the {len(judged)} statements about it agrees with what we measured."
    return f"{holds} of {len(judged)} statements about it {'agrees' if holds == 1 else 'agree'} with what we measured."


def introduction_of(paper: Paper) -> str:
    """The hand-written page of a paper, if there is one."""
    name = f"{paper.name.replace('_', '-')}.md"
    return name if (ROOT / "docs" / name).is_file() else ""


def page(paper: Paper) -> str:
    """The page of a paper as Markdown."""
    cards = cards_of(paper.name)
    shown = pictures(cards)
    text = (
        _environment()
        .get_template("paper_page.md")
        .render(
            paper=paper,
            introduction=introduction_of(paper),
            tally=tally(cards),
            origin=Markup(origin(paper.name)),
            agreement=agreement,
            pictures={_heading(name): own for name, own in shown.items()},
            numbered=any(NUMBERED.search(card.claim.source) for card in cards),
            errata=sorted(
                (card for card in cards if card.claim.erratum), key=lambda card: not card.claim.erratum.headline
            ),
            cards=cards,
        )
    )
    return text


def _heading(name: str) -> Markup:
    return Markup(escape(name).replace("_", r"\_"))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(os.path.dirname(__file__)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(typeset=typeset, prose=prose)
    return environment


def in_order() -> list[Paper]:
    """The papers that have claims, in the order of the report."""
    return [paper for paper in sorted(papers().values(), key=lambda paper: paper.position) if cards_of(paper.name)]
