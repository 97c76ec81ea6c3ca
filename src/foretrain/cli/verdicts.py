"""How verdicts are printed: a few in full sentences, many as a table, both readable at 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from foretrain.cli.common import console
from foretrain.core.errors import visible
from foretrain.ledger.claim import Claim
from foretrain.ledger.margins import margin_words
from foretrain.ledger.verdict import Verdict

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

IN_FULL = 12  # as many claims are shown with their reasons


def print_verdicts(claims: Mapping[str, Claim], verdicts: Sequence[Verdict], *, results: bool) -> None:
    """One block per paper, or one per statement if there are few."""
    from rich.text import Text

    out = console(results=results)
    if len(verdicts) <= IN_FULL:
        for (paper, source), group in groupby(verdicts, lambda verdict: _statement(claims[verdict.claim])):
            out.print(Text(visible(f"{paper}, {source}"), style="bold"), soft_wrap=True)
            out.print(_in_full([(claims[verdict.claim], verdict) for verdict in group]))
        return
    for paper, group in groupby(verdicts, lambda verdict: _paper_name(claims[verdict.claim].paper)):
        out.print(Text(visible(paper), style="bold"))
        out.print(_table(list(group)))


def colour_of(verdict: Verdict) -> str:
    return "green" if verdict.as_expected else "yellow" if verdict.status == "skipped" else "bold red"


def _statement(claim: Claim) -> tuple[str, str]:
    return _paper_name(claim.paper), claim.source


def _paper_name(paper: str) -> str:
    from foretrain.papers import papers

    return papers()[paper].short


def _in_full(judged: Sequence[tuple[Claim, Verdict]]) -> Table:
    """Each claim: its name and status on the left; reason, margin and control on the right."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 1, 2), show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    for claim, verdict in judged:
        table.add_row(_name_and_status(claim, verdict), _reasons(claim, verdict))
    return table


def _name_and_status(claim: Claim, verdict: Verdict) -> Text:
    from rich.text import Text

    kind = "as printed" if claim.erratum and not claim.corrects else "corrected" if claim.corrects else ""
    text = Text(f"{verdict.status}", style=colour_of(verdict))
    return text.append(f"\n{kind}" if kind else "", style="not bold default")


def _reasons(claim: Claim, verdict: Verdict) -> Any:
    from rich.text import Text

    text = Text(visible(f"{verdict.reason.removesuffix('.')}."))
    facts = [claim.id, margin_words(verdict.margin) and f"{margin_words(verdict.margin)} what is allowed"]
    if verdict.control_status:
        facts.append(f"control ({claim.control.says}) {verdict.control_status}")
    return text.append(f"\n{'; '.join(filter(None, facts))}", style="dim")


def _table(verdicts: Sequence[Verdict]) -> Table:
    """One line per claim of one paper."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name in ("verdict", "claim", "margin", "control"):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    table.add_column("seconds", justify="right", no_wrap=True)
    for verdict in verdicts:
        status = Text(verdict.status, style=colour_of(verdict))
        status.append("" if verdict.expected else " (measured)", style="not bold default")
        name = verdict.claim.split("/", 1)[-1]
        margin, control = margin_words(verdict.margin), verdict.control_status or ""
        table.add_row(status, name, margin, control, f"{verdict.seconds:.1f}")
    return table
