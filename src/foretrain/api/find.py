"""Find claims and experiments: by id, by the number in the paper, or by words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from foretrain import papers
from foretrain.core.errors import InputError, require
from foretrain.ledger.claim import Claim
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.search import Entry, matching, not_found, select
from foretrain.ledger.verdict_store import last_status

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["claim", "experiment"]
SHOWN = 20  # lines of what was found, as Python prints it
NEVER = "never"  # in place of the last verdict, where a claim has not been checked


@dataclass(frozen=True)
class Found:
    """The claims and experiments that match, by id."""

    claims: Mapping[str, Claim]
    experiments: Mapping[str, Experiment]
    runs: Path = Path("runs")  # where verdicts were saved

    def __len__(self) -> int:
        return len(self.claims) + len(self.experiments)

    def __repr__(self) -> str:
        listed = [f"  {c.id}  {c.source}" for c in self.claims.values()]
        listed += [f"  {e.id}  {e.says}" for e in self.experiments.values()]
        more = [f"  and {len(listed) - SHOWN} more; .table has all of them"] if len(listed) > SHOWN else []
        counted = f"{len(self.claims)} claims, {len(self.experiments)} experiments"
        return "\n".join([f"<Found: {counted}>", *listed[:SHOWN], *more])

    @property
    def last(self) -> dict[str, str]:
        """How each claim came out last time, and at which tier: "holds (fast)"."""
        return {id: last_status(self.runs, id) or NEVER for id in self.claims}

    @property
    def table(self) -> pd.DataFrame:
        """One row for each: what it says, where in the paper, and for claims the expected verdict and the last one."""
        import pandas as pd

        last = self.last
        rows = [
            {"id": c.id, "kind": "claim", "source": c.source, "expected": c.expect, "last": last[c.id], "says": c.says}
            for c in self.claims.values()
        ]
        rows += [{"id": e.id, "kind": "experiment", "says": e.says} for e in self.experiments.values()]
        columns = ["id", "kind", "source", "expected", "last", "says"]
        return pd.DataFrame(rows, columns=columns).fillna("").set_index("id")

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


def find(*queries: str, kind: Kind | None = None, runs: str | Path = "runs") -> Found:
    """The claims and experiments that match any of the queries; without a query, all of them.

    A query is an id or its beginning, a glob, a number in the paper ("Theorem 3", fig22), or words. A paper's name in
    front limits it to that paper: "scan_snap Theorem 4". `runs` is where `foretrain check` saves verdicts.
    """
    folder = Path(runs)
    if kind == "claim":
        return Found(find_claims(queries), {}, folder)
    if kind == "experiment":
        return Found({}, find_experiments(queries), folder)
    if not queries:
        return Found(papers.claims(), papers.experiments(), folder)
    claims: dict[str, Claim] = {}
    experiments: dict[str, Experiment] = {}
    for query in queries:
        every_claim = papers.claims(query)
        alone = query in every_claim and not papers.has_experiment(query)  # then experiments need not be loaded
        every_experiment = {} if alone else papers.experiments(query)
        entries = [*claim_entries(every_claim), *experiment_entries(every_experiment)]
        hits = {entry.id for entry in matching(query, entries)}
        if not hits:
            raise InputError(not_found(query, entries))
        claims.update({id: claim for id, claim in every_claim.items() if id in hits})
        experiments.update({id: experiment for id, experiment in every_experiment.items() if id in hits})
    return Found(claims, experiments, folder)


def find_claims(queries: Sequence[str]) -> dict[str, Claim]:
    """The claims that match any of the queries; without a query, all claims."""
    claims = papers.claims(*queries)
    entries = claim_entries(claims)
    for query in queries:
        if not matching(query, entries):
            _refuse_the_other(query, experiment_entries(papers.experiments(query)), "an experiment", "a claim", "run")
    return {id: claims[id] for id in select(queries, entries)}


def find_experiments(queries: Sequence[str]) -> dict[str, Experiment]:
    """The experiments that match any of the queries; without a query, all experiments."""
    experiments = papers.experiments(*queries)
    entries = experiment_entries(experiments)
    for query in queries:
        if not matching(query, entries):
            _refuse_the_other(query, claim_entries(papers.claims(query)), "a claim", "an experiment", "check")
    return {id: experiments[id] for id in select(queries, entries)}


def find_experiment(query: str) -> Experiment:
    """The one experiment that matches a query."""
    hits = find_experiments([query])
    require(len(hits) == 1, f"{query!r} matches {len(hits)} experiments: {', '.join(hits)}; give one of these ids.")
    return next(iter(hits.values()))


def claim_entries(claims: Mapping[str, Claim]) -> list[Entry]:
    """What claims can be found by."""
    return [Entry(claim.id, claim.source, claim.says, _keywords(claim.paper, claim.says)) for claim in claims.values()]


def experiment_entries(experiments: Mapping[str, Experiment]) -> list[Entry]:
    """What experiments can be found by."""
    return [Entry(e.id, "", e.says, _keywords(e.paper, e.says)) for e in experiments.values()]


def _refuse_the_other(query: str, others: Sequence[Entry], is_a: str, wanted: str, command: str) -> None:
    """If a query matches nothing of the wanted kind but something of the other kind, say what that is for."""
    hits = [entry.id for entry in matching(query, others)]
    if len(hits) == 1:
        raise InputError(f"{hits[0]} is {is_a}, not {wanted}; use foretrain {command} {hits[0]}.")
    if hits:
        raise InputError(
            f"{query!r} matches {len(hits)} {is_a.split()[1]}s, but not {wanted}; use foretrain {command}, for "
            f"example with {hits[0]}."
        )


def _keywords(paper: str, says: str) -> str:
    """The paper's title, and the names of its symbols that a statement uses: "a·I" is found as "identity scaling" too.

    A single Latin letter is not looked for, because "a" is also a word.
    """
    names = (
        symbol.name
        for symbol in papers.papers()[paper].symbols
        for letter in symbol.letter.split(", ")
        if letter in says and not (len(letter) == 1 and letter.isascii())
    )
    return " ".join([papers.papers()[paper].title, *names])
