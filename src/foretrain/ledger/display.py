"""How claims and verdicts look in a notebook."""

from __future__ import annotations

from html import escape
from typing import Any

from foretrain.ledger.margins import margin_words

COLOURS = {"holds": "#116329", "fails": "#a40e26"}


def claim_html(claim: Any) -> str:
    """What a claim says, whose statement it is, its erratum and its control."""
    rows = [("whose", claim.whose), ("erratum", claim.erratum and claim.erratum.says), ("finding", claim.finding)]
    rows += [("expected", claim.expect or "nothing: this is a measurement"), ("control", claim.control.says)]
    return _block(f"<b>{escape(claim.id)}</b> ({escape(claim.source)})<br>{escape(claim.says)}", rows)


def verdict_html(verdict: Any) -> str:
    """How a claim came out, in one sentence, with its margin and control."""
    colour = COLOURS.get(verdict.status, "#7a4b00")
    head = (
        f'<b>{escape(verdict.claim)}</b> <b style="color:{colour}">{escape(verdict.status)}</b>'
        f"<br>{escape(verdict.reason)}"
    )
    control = f"{verdict.control_status}: {verdict.control_reason}" if verdict.control_status else None
    rows = [("margin", margin_words(verdict.margin)), ("expected", verdict.expected), ("control", control)]
    return _block(head, rows)


def _block(head: str, rows: list[tuple[str, str | None]]) -> str:
    lines = [f"<tr><td><i>{name}</i></td><td>{escape(text)}</td></tr>" for name, text in rows if text]
    return f'<div style="max-width:50em">{head}<table>{"".join(lines)}</table></div>'
