"""How verdicts are printed: up to 25 in sentences, more as a table, both readable at 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from foretrain.cli.terminal import console
from foretrain.core.errors import visible
from foretrain.ledger.claim import Claim
from foretrain.ledger.margins import margin_words
from foretrain.ledger.verdict import Verdict, flipped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

IN_SENTENCES = 25  # more claims than this are printed as a table
NARROWEST = 30  # characters of a sentence, however narrow the terminal is
KINDS = {  # what is judged, where the paper has no error
    "the paper's statement": "statement",
    "a step of the paper's proof": "proof step",
    "our own expectation": "our own",
    None: "",
}


def print_verdicts(claims: Mapping[str, Claim], verdicts: Sequence[Verdict], *, results: bool) -> None:
    """One block per paper: a sentence for each claim if there are few, one line each in a table if there are many."""
    from rich.text import Text

    out = console(results=results)
    for position, (paper, group) in enumerate(groupby(verdicts, lambda verdict: claims[verdict.claim].paper)):
        if len(verdicts) <= IN_SENTENCES:
            out.print(Text("\n" * (position > 0) + visible(_paper_name(paper)), style="bold"))
            _print_sentences(out, claims, list(group))
        else:
            out.print(Text(visible(_paper_name(paper)), style="bold"))
            out.print(_table(list(group)))
    if len(verdicts) <= IN_SENTENCES:
        out.print(f"\n{_controls(verdicts)}\n{_details(verdicts)}".rstrip(), soft_wrap=True)


def colour_of(verdict: Verdict) -> str:
    return "green" if verdict.as_expected else "yellow" if verdict.status == "skipped" else "bold red"


def _paper_name(paper: str) -> str:
    from foretrain.papers import papers

    return papers()[paper].short


def _print_sentences(out: Console, claims: Mapping[str, Claim], verdicts: Sequence[Verdict]) -> None:
    """Each statement by its id and its place in the paper; below it, how it came out as printed and corrected."""
    from rich.text import Text

    statements: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        statements.setdefault(claims[verdict.claim].corrects or verdict.claim, []).append(verdict)
    kinds = {verdict.claim: _kind(claims[verdict.claim], verdict) for verdict in verdicts}
    longest_kind = max(map(len, kinds.values()))
    longest_status = max(len(verdict.status) for verdict in verdicts)
    for judged in statements.values():
        first = claims[judged[0].claim]
        heading = textwrap.wrap(visible(f"{first.id}: {first.source}"), max(NARROWEST, out.width - 4))
        out.print(Text("\n" + textwrap.indent("\n".join(heading), "  ")), soft_wrap=True)
        for verdict in judged:
            start = f"    {kinds[verdict.claim]:<{longest_kind}}{'  ' if longest_kind else ''}"
            indent = len(start) + longest_status + 2
            sentence = visible(f"{verdict.reason.removesuffix('.')}.")
            lines = textwrap.wrap(sentence, max(NARROWEST, out.width - indent - 1))
            text = Text(start).append(f"{verdict.status:<{longest_status}}", style=colour_of(verdict))
            out.print(text.append("  " + f"\n{' ' * indent}".join(lines)), soft_wrap=True)


def _kind(claim: Claim, verdict: Verdict) -> str:
    if claim.corrects:
        return "corrected"
    if claim.erratum:
        return "as printed"
    return "measured" if verdict.expected is None else KINDS[claim.whose]


def _controls(verdicts: Sequence[Verdict]) -> str:
    """Whether the controls flipped the verdicts, in one sentence."""
    tried = [verdict for verdict in verdicts if verdict.expected and verdict.control_status]
    stuck = [verdict.claim for verdict in tried if verdict.control_status != flipped(verdict.status)]
    if not tried:
        return ""
    flips = "it did" if len(tried) == 1 else f"all {len(tried)} did"
    outcome = f"no flip in {', '.join(stuck)}" if stuck else flips
    return f"Control, a change of setting that must flip the verdict: {outcome}."


def _details(verdicts: Sequence[Verdict]) -> str:
    return f"Details: foretrain show {verdicts[0].claim}{' (or any other id above)' * (len(verdicts) > 1)}"


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
