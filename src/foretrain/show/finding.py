"""Finds claims and experiments for every command: by id, by the number in the paper, or by words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from foretrain.core.errors import InputError, require

if TYPE_CHECKING:
    from foretrain.ledger.claim import Claim
    from foretrain.ledger.experiment import Experiment
    from foretrain.ledger.search import Entry

HELP = 'An id or its beginning, a glob, a number in the paper ("Theorem 3", fig22), or words.'


def find_claims(queries: Sequence[str]) -> dict[str, Claim]:
    """The claims that match any of the queries; without a query, all claims."""
    from foretrain import papers
    from foretrain.ledger.search import find, select

    claims = papers.claims(*queries)
    entries = claim_entries(claims)
    for query in queries:
        if not find(query, entries):
            _refuse_the_other(query, experiment_entries(papers.experiments(query)), "an experiment", "a claim", "run")
    return {id: claims[id] for id in select(queries, entries)}


def find_experiments(queries: Sequence[str]) -> dict[str, Experiment]:
    """The experiments that match any of the queries; without a query, all experiments."""
    from foretrain import papers
    from foretrain.ledger.search import find, select

    experiments = papers.experiments(*queries)
    entries = experiment_entries(experiments)
    for query in queries:
        if not find(query, entries):
            _refuse_the_other(query, claim_entries(papers.claims(query)), "a claim", "an experiment", "check")
    return {id: experiments[id] for id in select(queries, entries)}


def _refuse_the_other(query: str, others: Sequence[Entry], found: str, wanted: str, command: str) -> None:
    """If a query finds nothing of the wanted kind, but something of the other kind, say what that is for."""
    from foretrain.ledger.search import find

    hits = [entry.id for entry in find(query, others)]
    if len(hits) == 1:
        raise InputError(f"{hits[0]} is {found}, not {wanted}; use foretrain {command} {hits[0]}.")
    if hits:
        raise InputError(
            f"{query!r} matches {len(hits)} {found.split()[1]}s, but not {wanted}; use foretrain {command}, for "
            f"example with {hits[0]}."
        )


def find_experiment(query: str) -> Experiment:
    """The one experiment that matches a query."""
    hits = find_experiments([query])
    require(len(hits) == 1, f"{query!r} matches {len(hits)} experiments: {', '.join(hits)}; give one of these ids.")
    return next(iter(hits.values()))


def find_either(query: str) -> tuple[dict[str, Claim], dict[str, Experiment]]:
    """The claims and experiments that match a query, by the first way of searching that finds any."""
    from foretrain import papers
    from foretrain.ledger.search import find, not_found

    claims = papers.claims(query)
    alone = query in claims and not papers.has_experiment(query)  # then experiments need not be loaded
    experiments = {} if alone else papers.experiments(query)
    entries = [*claim_entries(claims), *experiment_entries(experiments)]
    hits = {entry.id for entry in find(query, entries)}
    if not hits:
        raise InputError(not_found(query, entries))
    return (
        {id: claim for id, claim in claims.items() if id in hits},
        {id: experiment for id, experiment in experiments.items() if id in hits},
    )


def claim_entries(claims: Mapping[str, Claim]) -> list[Entry]:
    from foretrain.ledger.search import Entry

    return [Entry(claim.id, claim.source, claim.says, _keywords(claim.paper, claim.says)) for claim in claims.values()]


def experiment_entries(experiments: Mapping[str, Experiment]) -> list[Entry]:
    from foretrain.ledger.search import Entry

    return [Entry(e.id, "", e.says, _keywords(e.paper, e.says)) for e in experiments.values()]


def _keywords(paper: str, says: str) -> str:
    """The paper's title, and the names of its symbols that a statement uses: "a·I" is found as "identity scaling" too.

    A single Latin letter is not looked for, because "a" is also a word.
    """
    from foretrain.papers import papers

    names = (
        symbol.name
        for symbol in papers()[paper].symbols
        for letter in symbol.letter.split(", ")
        if letter in says and not (len(letter) == 1 and letter.isascii())
    )
    return " ".join([papers()[paper].title, *names])
