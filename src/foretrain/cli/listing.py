"""foretrain list, foretrain show: what there is, and what it says."""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foretrain.cli.common import console
from foretrain.errors import InputError, nearest

if TYPE_CHECKING:
    from rich.table import Table

    from foretrain.claim import Claim
    from foretrain.experiment import Experiment

Patterns = Annotated[
    list[str] | None, typer.Argument(metavar="PATTERN", help="A name, its beginning, or a glob.", show_default=False)
]


def list_all(
    patterns: Patterns = None,
    experiments: Annotated[bool, typer.Option("--experiments", help="Experiments in place of claims.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON on stdout.")] = False,
) -> None:
    """List the claims of every paper, or its experiments.

    \b
    Examples:
      foretrain list
      foretrain list 'scan_snap/theorem*'
      foretrain list --experiments
      foretrain list --json
    """
    from foretrain import papers
    from foretrain.check import select

    rows = _experiment_rows(papers.experiments()) if experiments else _claim_rows(papers.claims())
    chosen = set(select(patterns or (), [row["id"] for row in rows])) if rows or patterns else set()
    rows = [row for row in rows if row["id"] in chosen]
    if as_json:
        typer.echo(json.dumps(rows, indent=1, ensure_ascii=False, default=str))
        return
    out = console(results=True)
    out.print(_experiment_table(rows, out.width) if experiments else _claim_table(rows, out.width))


def _claim_rows(claims: dict[str, Claim]) -> list[dict[str, Any]]:
    return [
        {
            "id": claim.id,
            "paper": claim.paper,
            "source": claim.source,
            "expected": claim.expect,
            "expected_from": claim.expect_from if claim.expect else None,
            "erratum": claim.erratum,
            "says": claim.says,
        }
        for claim in claims.values()
    ]


def _experiment_rows(experiments: dict[str, Experiment]) -> list[dict[str, Any]]:
    return [
        {
            "id": experiment.id,
            "paper": experiment.id.split("/", 1)[0],
            "says": experiment.says,
            "arguments": experiment.defaults(),
            "cut": experiment.cut,
        }
        for experiment in experiments.values()
    ]


def _claim_table(rows: list[dict[str, Any]], width: int) -> Table:
    cells = [
        (row["id"], row["source"], _expectation(row["expected"], row["expected_from"]), row["says"]) for row in rows
    ]
    table = _one_line_each(("claim", "source", "expected", "says"), cells, width)
    table.caption = f"{len(rows)} claim{'s' * (len(rows) != 1)}; foretrain show CLAIM says all of one"
    return table


def _expectation(expected: str | None, first_tier: str | None) -> str:
    if expected is None:
        return "(measured)"
    return expected if first_tier == "fast" else f"{expected} from tier {first_tier} on"


def _experiment_table(rows: list[dict[str, Any]], width: int) -> Table:
    cells = [(row["id"], ", ".join(row["arguments"]), row["says"]) for row in rows]
    table = _one_line_each(("experiment", "arguments", "says"), cells, width)
    table.caption = f"{len(rows)} experiments; foretrain show EXPERIMENT says all of one"
    return table


def _one_line_each(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], width: int) -> Table:
    """A row is one line: the last cell is cut where the line ends, those in the middle at 34; names never."""
    texts = [[row[0], *(textwrap.shorten(cell, 34, placeholder="…") for cell in row[1:-1])] for row in rows]
    taken = sum(max(map(len, column)) + 3 for column in zip(columns[:-1], *texts, strict=False))
    table = _table(*columns)
    for text, row in zip(texts, rows, strict=True):
        last = textwrap.shorten(row[-1], max(20, width - taken - 3), placeholder="…")
        table.add_row(*map(_text, [*text, last]))
    return table


def _table(*columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, caption_justify="left", pad_edge=False)
    for position, column in enumerate(columns):
        table.add_column(column, no_wrap=position == 0, overflow="fold")
    return table


def _text(words: Any) -> Any:
    """Words as they are, on one line: brackets in a formula are not markup."""
    from rich.text import Text

    return Text(" ".join(str(words).split()))


def show(
    name: Annotated[str, typer.Argument(metavar="CLAIM", help="The name of a claim or an experiment.")],
) -> None:
    """Show what a claim says and how it is checked, or what an experiment takes.

    \b
    Examples:
      foretrain show scan_snap/lemma6
      foretrain show scan_snap/fig6
    """
    from foretrain import papers

    claims, experiments = papers.claims(), papers.experiments()
    if name not in claims and name not in experiments:
        near = ", ".join(nearest(name, dict.fromkeys([*claims, *experiments])))
        raise InputError(f"There is no claim or experiment {name!r}; the nearest names are {near}.")
    out = console(results=True)
    for heading, rows in [
        *([(f"claim {name}", _claim_facts(claims[name], claims))] if name in claims else []),
        *([(f"experiment {name}", _experiment_facts(experiments[name]))] if name in experiments else []),
    ]:
        table = _table(heading, "")
        table.columns[0].style = "bold"
        for label, value in rows:
            table.add_row(label, _text(value))
        out.print(table)


def _claim_facts(claim: Claim, claims: dict[str, Claim]) -> list[tuple[str, str]]:
    from foretrain.claim import TIERS, other_half

    file, line = claim.code()
    expected = _expectation(claim.expect, claim.expect_from) if claim.expect else "a measurement: no verdict"
    if claim.expected_at("fast") != claim.expect:
        expected += "; below, a measurement"
    facts = [("says", claim.says), ("source", claim.source), ("expected", expected)]
    if claim.erratum:
        facts.append(("erratum", claim.erratum))
    if other_half(claim.id) in claims:
        facts.append(("pair", other_half(claim.id)))
    for assumption in claim.assumes:
        facts.append(("assumes", assumption.says + ("" if assumption.needed else " (reported, not needed)")))
    facts += [(f"tier {tier}", assignments(claim.setting(tier))) for tier in TIERS if tier in claim.settings]
    facts.append(("control", f"{claim.control.says}: {assignments(claim.control.changes)}"))
    facts.append(("code", f"{file}:{line}"))
    return facts


def _experiment_facts(experiment: Experiment) -> list[tuple[str, str]]:
    code = inspect.unwrap(experiment.run)
    facts = [("says", experiment.says)]
    facts += [(f"--set {name}", "" if default is inspect.Parameter.empty else f"= {default!r}")
              for name, default in experiment.defaults().items()]  # fmt: skip
    if experiment.cut:
        facts.append(("cut along", ", ".join(experiment.cut)))
    facts += [
        (f"--tier {tier}", assignments(own))
        for tier, own in (("fast", experiment.quick), ("full", experiment.full))
        if own
    ]
    facts.append(("code", f"{inspect.getsourcefile(code)}:{inspect.getsourcelines(code)[1]}"))
    return facts


def assignments(values: Any) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in values.items()) or "(nothing)"
