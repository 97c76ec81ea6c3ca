"""foretrain list, foretrain show: list claims and experiments, and show one in full."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from foretrain import papers
from foretrain.api.find import Found, find
from foretrain.cli.common import QUERY, RUNS, Patterns, Runs, option, say
from foretrain.cli.common import show as print_result
from foretrain.cli.terminal import PlainConsole, console, show_json, table
from foretrain.core.errors import visible
from foretrain.ledger.citations import citations, results_in
from foretrain.ledger.claim import Claim, other_half
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Parameter
from foretrain.ledger.tiers import TIERS

NARROWEST = 40  # characters of a sentence, however narrow the terminal is
MEASURED = "(measured)"  # in place of an expected verdict


def list_all(
    patterns: Patterns = None,
    experiments: Annotated[bool, option("List experiments instead of claims.", None, "--experiments")] = False,
    as_json: Annotated[bool, option("Write JSON to stdout.", None, "--json")] = False,
    runs: Runs = RUNS,
) -> None:
    """List the claims of every paper with the expected verdict and the last one, or the experiments.

    Outside a terminal, each is one line with tabs between its parts, below a line with their names, for grep and cut.

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
    _list(find(*patterns or (), kind="experiment" if experiments else "claim", runs=runs), as_json)


def _list(matches: Found, as_json: bool = False) -> None:
    if as_json:
        show_json(_claim_rows(matches) or _experiment_rows(matches.experiments))
        return
    if matches.claims:
        _print_claims(_claim_rows(matches))
    if matches.experiments:
        _print_experiments(_experiment_rows(matches.experiments))


def _claim_rows(matches: Found) -> list[dict[str, Any]]:
    last = matches.last
    return [
        {
            "id": claim.id,
            "paper": claim.paper,
            "source": claim.source,
            "expected": claim.expect,
            "expected_from": claim.expect_from if claim.expect else None,
            "last": last[claim.id],
            "erratum": claim.erratum and claim.erratum.says,
            "corrects": claim.corrects,
            "whose": claim.whose,
            "says": claim.says,
        }
        for claim in matches.claims.values()
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
    out = console(results=True)
    expected = [_expectation(row["expected"], row["expected_from"]) for row in rows]
    if not out.is_terminal:
        cells = [(r["id"], r["source"], e, r["last"], r["says"]) for r, e in zip(rows, expected, strict=True)]
        _print_tabs([("claim", "source", "expected", "last", "says"), *cells])
    for row, expects in zip(rows, expected, strict=True) if out.is_terminal else ():
        words = f"expected: {expects}" if expects != MEASURED else expects
        _print_entry(out, row["id"], f"{words}; last: {row['last']}", f"{row['source']}: {row['says']}")
    say(f"{len(rows)} claim{'s' * (len(rows) != 1)}; foretrain show CLAIM shows one in full.")


def _expectation(expected: str | None, first_tier: str | None) -> str:
    if expected is None:
        return MEASURED
    return expected if first_tier == "fast" else f"{expected} from tier {first_tier} on"


def _print_experiments(rows: Sequence[Mapping[str, Any]]) -> None:
    cells = [(row["id"], ", ".join(row["arguments"]), row["says"]) for row in rows]
    out = console(results=True)
    if not out.is_terminal:
        _print_tabs([("experiment", "arguments", "says"), *cells])
    for id, arguments, says in cells if out.is_terminal else ():
        _print_entry(out, id, "", says, f"Arguments: {arguments}" if arguments else "")
    say(f"{len(rows)} experiment{'s' * (len(rows) != 1)}; foretrain show EXPERIMENT shows one in full.")


def _print_tabs(rows: Sequence[tuple[str, ...]]) -> None:
    """One line per row, with tabs between the cells."""
    for row in rows:
        print_result("\t".join(" ".join(cell.split()) for cell in row))


def _print_entry(out: PlainConsole, id: str, remark: str, *paragraphs: str) -> None:
    """The id on a line of its own, and paragraphs below it, wrapped to the terminal."""
    text = Text(visible(id), style="bold").append(f"  {remark}" if remark else "", style="not bold dim")
    for paragraph in filter(None, paragraphs):
        for line in textwrap.wrap(visible(" ".join(paragraph.split())), max(NARROWEST, out.width - 5)):
            text.append(f"\n    {line}", style="not bold")
    out.print(text, soft_wrap=True)


def show(
    name: Annotated[str, typer.Argument(metavar="QUERY", help=QUERY)],
    runs: Runs = RUNS,
) -> None:
    """Show what a claim says and how it is checked, or what an experiment takes. Several matches are listed.

    \b
    Examples:
      foretrain show scan_snap/lemma6
      foretrain show "Theorem 3"
      foretrain show fig22
    """
    matches = find(name, runs=runs)
    if len({*matches.claims, *matches.experiments}) > 1:
        _list(matches)
        _print_facts("code", _cited_facts({claim.paper for claim in matches.claims.values()}, name))
        return
    for claim in matches.claims.values():
        _print_facts(f"claim {claim.id}", _claim_facts(claim, matches.last[claim.id]))
    for experiment in matches.experiments.values():
        _print_facts(f"experiment {experiment.id}", _experiment_facts(experiment))


def _print_facts(heading: str, facts: Sequence[tuple[str, str]]) -> None:
    if not facts:
        return
    drawn = table((heading, ""), [(label, " ".join(value.split())) for label, value in facts], justify="left")
    drawn.columns[0].style, drawn.columns[0].no_wrap = "bold", True
    console(results=True).print(drawn)


def _claim_facts(claim: Claim, last: str) -> list[tuple[str, str]]:
    file, line = claim.code()
    expected = _expectation(claim.expect, claim.expect_from) if claim.expect else "none: this is a measurement"
    if claim.expected_at("fast") != claim.expect:
        expected += "; at smaller tiers, a measurement"
    facts = [("says", claim.says), ("source", claim.source), ("expected", expected), ("last", last)]
    if claim.whose:
        facts.append(("whose", claim.whose))
    if claim.erratum:
        facts.append(("erratum", claim.erratum.says))
    pair = other_half(claim, papers.claims(claim.id))
    if pair:
        facts.append(("corrects" if claim.corrects else "corrected by", pair))
    for assumption in claim.assumes:
        facts.append(("assumes", assumption.says + ("" if assumption.needed else " (reported, not needed)")))
    facts += [(f"tier {tier}", assignments(claim.setting(tier))) for tier in TIERS if tier in claim.settings]
    facts.append(("control", f"{claim.control.says}: {assignments(claim.control.changes)}"))
    facts.append(("measured by", f"{_short(file)}:{line}"))
    return facts + _cited_facts({claim.paper}, claim.source)


def _cited_facts(names: set[str], source: str) -> list[tuple[str, str]]:
    """Theory, experiments and tests that cite the numbered results of a source."""
    wanted = results_in(source)
    return [
        (citation.place.removesuffix("s"), f"{citation.name}  {_short(citation.file)}:{citation.line}")
        for paper in sorted(names)
        for citation in (citations(papers.folder_of(paper), wanted) if wanted else ())
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
        parts = ", ".join(f"{argument} (axis {axis})" for argument, axis in experiment.cut.items())
        facts.append(("saved in parts along", parts))
    facts += [(f"--tier {tier}", assignments(setting)) for tier, setting in experiment.settings.items() if setting]
    facts.append(("code", f"{_short(inspect.getsourcefile(code) or '?')}:{inspect.getsourcelines(code)[1]}"))
    return facts


def _parameter_words(parameter: Parameter) -> str:
    unit = f" [{parameter.unit}]" if parameter.unit else ""
    default = "" if parameter.default is inspect.Parameter.empty else f"= {parameter.default!r}{unit}. "
    return f"{default}{parameter.says} Takes {parameter.takes}."


def assignments(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {_shown(value)}" for name, value in values.items()) or "(nothing)"


def _shown(value: Any) -> str:
    return getattr(value, "__name__", None) or repr(value)
