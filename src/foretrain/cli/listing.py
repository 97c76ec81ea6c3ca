"""foretrain list, foretrain show: list claims and experiments, and show one in full."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foretrain.cli.common import console, show_json
from foretrain.show.finding import HELP, find_claims, find_either, find_experiments

if TYPE_CHECKING:
    from rich.table import Table

    from foretrain.ledger.claim import Claim
    from foretrain.ledger.experiment import Experiment
    from foretrain.ledger.parameters import Parameter

WIDEST = 1000  # characters of a line outside a terminal

Patterns = Annotated[list[str] | None, typer.Argument(metavar="QUERY", help=HELP, show_default=False)]


def list_all(
    patterns: Patterns = None,
    experiments: Annotated[bool, typer.Option("--experiments", help="List experiments instead of claims.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON to stdout.")] = False,
) -> None:
    """List the claims of every paper, or the experiments.

    \b
    Examples:
      foretrain list
      foretrain list 'scan_snap/theorem*'
      foretrain list "Lemma G.7"
      foretrain list identity
      foretrain list --experiments
      foretrain list --json
    """
    queries = patterns or []
    rows = _experiment_rows(find_experiments(queries)) if experiments else _claim_rows(find_claims(queries))
    if as_json:
        show_json(rows, default=str)
        return
    out = console(results=True)
    if not out.is_terminal:
        out.width = WIDEST  # whole lines for whoever searches in them
    out.print(_experiment_table(rows, out.width) if experiments else _claim_table(rows, out.width))


def _claim_rows(claims: Mapping[str, Claim]) -> list[dict[str, Any]]:
    return [
        {
            "id": claim.id,
            "paper": claim.paper,
            "source": claim.source,
            "expected": claim.expect,
            "expected_from": claim.expect_from if claim.expect else None,
            "erratum": claim.erratum,
            "corrects": claim.corrects,
            "whose": claim.whose,
            "says": claim.says,
        }
        for claim in claims.values()
    ]


def _experiment_rows(experiments: Mapping[str, Experiment]) -> list[dict[str, Any]]:
    return [
        {
            "id": experiment.id,
            "paper": experiment.paper,
            "says": experiment.says,
            "arguments": experiment.defaults(),
            "parameters": {name: parameter.schema() for name, parameter in experiment.parameters().items()},
            "cut": dict(experiment.cut),
        }
        for experiment in experiments.values()
    ]


def _claim_table(rows: Sequence[Mapping[str, Any]], width: int) -> Table:
    cells = [
        (row["id"], row["source"], _expectation(row["expected"], row["expected_from"]), row["says"]) for row in rows
    ]
    table = _one_line_each(("claim", "source", "expected", "says"), cells, width)
    table.caption = f"{len(rows)} claim{'s' * (len(rows) != 1)}; foretrain show CLAIM shows one in full"
    return table


def _expectation(expected: str | None, first_tier: str | None) -> str:
    if expected is None:
        return "(measured)"
    return expected if first_tier == "fast" else f"{expected} from tier {first_tier} on"


def _experiment_table(rows: Sequence[Mapping[str, Any]], width: int) -> Table:
    cells = [(row["id"], ", ".join(row["arguments"]), row["says"]) for row in rows]
    table = _one_line_each(("experiment", "arguments", "says"), cells, width)
    table.caption = f"{len(rows)} experiment{'s' * (len(rows) != 1)}; foretrain show EXPERIMENT shows one in full"
    return table


def _one_line_each(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], width: int) -> Table:
    """One line per row. The last cell is cut at the end of the line, middle cells at 34 characters, ids never."""
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
    """Words on one line, shown literally: brackets in a formula are not markup."""
    from rich.text import Text

    return Text(" ".join(str(words).split()))


def show(
    name: Annotated[str, typer.Argument(metavar="QUERY", help=HELP)],
) -> None:
    """Show what a claim says and how it is checked, or what an experiment takes. Several matches are listed.

    \b
    Examples:
      foretrain show scan_snap/lemma6
      foretrain show "Theorem 3"
      foretrain show fig22
    """
    claims, experiments = find_either(name)
    out = console(results=True)
    if len({*claims, *experiments}) > 1:
        if claims:
            out.print(_claim_table(_claim_rows(claims), out.width))
        if experiments:
            out.print(_experiment_table(_experiment_rows(experiments), out.width))
        _print_facts("code", _cited_facts({claim.paper for claim in claims.values()}, name))
        return
    for claim in claims.values():
        _print_facts(f"claim {claim.id}", _claim_facts(claim))
    for experiment in experiments.values():
        _print_facts(f"experiment {experiment.id}", _experiment_facts(experiment))


def _print_facts(heading: str, facts: Sequence[tuple[str, str]]) -> None:
    if not facts:
        return
    table = _table(heading, "")
    table.columns[0].style = "bold"
    for label, value in facts:
        table.add_row(label, _text(value))
    console(results=True).print(table)


def _claim_facts(claim: Claim) -> list[tuple[str, str]]:
    from foretrain import papers
    from foretrain.ledger.claim import other_half
    from foretrain.ledger.tiers import TIERS

    file, line = claim.code()
    expected = _expectation(claim.expect, claim.expect_from) if claim.expect else "none: this is a measurement"
    if claim.expected_at("fast") != claim.expect:
        expected += "; at smaller tiers, a measurement"
    facts = [("says", claim.says), ("source", claim.source), ("expected", expected)]
    if claim.whose:
        facts.append(("whose", claim.whose))
    if claim.erratum:
        facts.append(("erratum", claim.erratum))
    pair = other_half(claim, papers.claims(claim.id))
    if pair:
        facts.append(("corrects" if claim.corrects else "corrected by", pair))
    for assumption in claim.assumes:
        facts.append(("assumes", assumption.says + ("" if assumption.needed else " (reported, not needed)")))
    facts += [(f"tier {tier}", assignments(claim.setting(tier))) for tier in TIERS if tier in claim.settings]
    facts.append(("control", f"{claim.control.says}: {assignments(claim.control.changes)}"))
    facts.append(("measured by", f"{_short(file)}:{line}"))
    return facts + _cited_facts({claim.paper}, claim.source)


def _cited_facts(papers: set[str], source: str) -> list[tuple[str, str]]:
    """Theory, experiments and tests that cite the numbered results of a source."""
    from foretrain.ledger.citations import citations, results_in
    from foretrain.papers import folder_of

    wanted = results_in(source)
    return [
        (citation.place.removesuffix("s"), f"{citation.name}  {_short(citation.file)}:{citation.line}")
        for paper in sorted(papers)
        for citation in (citations(folder_of(paper), wanted) if wanted else ())
    ]


def _short(file: str | Path) -> str:
    """The path relative to the current folder if it is inside, else unchanged."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _experiment_facts(experiment: Experiment) -> list[tuple[str, str]]:
    code = inspect.unwrap(experiment.run)
    facts = [("says", experiment.says)]
    facts += [(f"--set {name}", _parameter_words(p)) for name, p in experiment.parameters().items()]
    if experiment.cut:
        facts.append(
            (
                "saved in parts along",
                ", ".join(f"{argument} (axis {axis})" for argument, axis in experiment.cut.items()),
            )
        )
    facts += [(f"--tier {tier}", assignments(own)) for tier, own in experiment.settings.items() if own]
    facts.append(("code", f"{_short(inspect.getsourcefile(code) or '?')}:{inspect.getsourcelines(code)[1]}"))
    return facts


def _parameter_words(parameter: Parameter) -> str:
    unit = f" [{parameter.unit}]" if parameter.unit else ""
    default = "" if parameter.default is inspect.Parameter.empty else f"= {parameter.default!r}{unit}. "
    return f"{default}{parameter.says} Takes {parameter.takes}."


def assignments(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in values.items()) or "(nothing)"
