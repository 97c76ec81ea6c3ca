"""foretrain list, foretrain show: list claims and experiments, and show one in full."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foretrain.cli.common import console, say, show_json
from foretrain.cli.common import show as print_result
from foretrain.core.errors import visible
from foretrain.show.finding import HELP, find_claims, find_either, find_experiments

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from foretrain.ledger.claim import Claim
    from foretrain.ledger.experiment import Experiment
    from foretrain.ledger.parameters import Parameter

NARROWEST = 40  # characters of a sentence, however narrow the terminal is
MEASURED = "(measured)"  # in place of an expected verdict

Patterns = Annotated[list[str] | None, typer.Argument(metavar="QUERY", help=HELP, show_default=False)]


def list_all(
    patterns: Patterns = None,
    experiments: Annotated[bool, typer.Option("--experiments", help="List experiments instead of claims.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON to stdout.")] = False,
) -> None:
    """List the claims of every paper, or the experiments.

    Outside a terminal, each is one line with tabs between its parts (a claim's are id, source, expected verdict and
    statement), for grep and cut.

    \b
    Examples:
      foretrain list
      foretrain list 'scan_snap/theorem*'
      foretrain list "Lemma G.7"
      foretrain list identity
      foretrain list | grep entropy
      foretrain list --experiments
      foretrain list --json
    """
    queries = patterns or []
    rows = _experiment_rows(find_experiments(queries)) if experiments else _claim_rows(find_claims(queries))
    if as_json:
        show_json(rows, default=str)
        return
    (_print_experiments if experiments else _print_claims)(rows)


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


def _print_claims(rows: Sequence[Mapping[str, Any]]) -> None:
    cells = [
        (row["id"], row["source"], _expectation(row["expected"], row["expected_from"]), row["says"]) for row in rows
    ]
    out = console(results=True)
    if not out.is_terminal:
        _print_tabs(cells)
    for id, source, expected, says in cells if out.is_terminal else ():
        expects = f"expected: {expected}" if expected != MEASURED else expected
        _print_entry(out, id, expects, f"{source}: {says}")
    say(f"{len(rows)} claim{'s' * (len(rows) != 1)}; foretrain show CLAIM shows one in full.")


def _expectation(expected: str | None, first_tier: str | None) -> str:
    if expected is None:
        return MEASURED
    return expected if first_tier == "fast" else f"{expected} from tier {first_tier} on"


def _print_experiments(rows: Sequence[Mapping[str, Any]]) -> None:
    cells = [(row["id"], ", ".join(row["arguments"]), row["says"]) for row in rows]
    out = console(results=True)
    if not out.is_terminal:
        _print_tabs(cells)
    for id, arguments, says in cells if out.is_terminal else ():
        _print_entry(out, id, "", says, f"Arguments: {arguments}" if arguments else "")
    say(f"{len(rows)} experiment{'s' * (len(rows) != 1)}; foretrain show EXPERIMENT shows one in full.")


def _print_tabs(rows: Sequence[tuple[str, ...]]) -> None:
    """One line per row, with tabs between the cells."""
    for row in rows:
        print_result("\t".join(" ".join(cell.split()) for cell in row))


def _print_entry(out: Console, id: str, remark: str, *paragraphs: str) -> None:
    """The id on a line of its own, and paragraphs below it, wrapped to the terminal."""
    from rich.text import Text

    text = Text(visible(id), style="bold").append(f"  {remark}" if remark else "", style="not bold dim")
    for paragraph in filter(None, paragraphs):
        for line in textwrap.wrap(visible(" ".join(paragraph.split())), max(NARROWEST, out.width - 5)):
            text.append(f"\n    {line}", style="not bold")
    out.print(text, soft_wrap=True)


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
    if len({*claims, *experiments}) > 1:
        if claims:
            _print_claims(_claim_rows(claims))
        if experiments:
            _print_experiments(_experiment_rows(experiments))
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
    code = inspect.unwrap(experiment.cell)
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
