"""How every command finds claims and experiments: by id, by the paper's own numbering, or by words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from foretrain.core.errors import InputError, require

if TYPE_CHECKING:
    from foretrain.ledger.claim import Claim
    from foretrain.ledger.experiment import Experiment
    from foretrain.ledger.search import Entry

HELP = 'An id, its beginning, a glob, the paper\'s own number ("Theorem 3", fig22), or words.'


def find_claims(queries: Sequence[str]) -> dict[str, Claim]:
    """The claims that any query means; every claim without a query."""
    from foretrain import papers
    from foretrain.ledger.search import select

    claims = papers.claims(*queries)
    return {id: claims[id] for id in select(queries, claim_entries(claims))}


def find_experiments(queries: Sequence[str]) -> dict[str, Experiment]:
    """The experiments that any query means; every experiment without a query."""
    from foretrain import papers
    from foretrain.ledger.search import select

    experiments = papers.experiments(*queries) or papers.experiments()
    return {id: experiments[id] for id in select(queries, experiment_entries(experiments))}


def find_experiment(query: str) -> Experiment:
    """The one experiment that a query means."""
    hits = find_experiments([query])
    require(len(hits) == 1, f"{query!r} means {len(hits)} experiments: {', '.join(hits)}; give one of these ids.")
    return next(iter(hits.values()))


def find_either(query: str) -> tuple[dict[str, Claim], dict[str, Experiment]]:
    """The claims and experiments that a query means, by the first way of searching that finds one of either."""
    from foretrain import papers
    from foretrain.ledger.search import find, not_found

    claims, experiments = papers.claims(query), papers.experiments(query)
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
    """The names of the paper's symbols that a statement uses: "a·I" is found as "identity scaling" too.

    A single Latin letter is not looked for, because "a" is also a word.
    """
    from foretrain.papers import papers

    return " ".join(
        symbol.name
        for symbol in papers()[paper].symbols
        for letter in symbol.letter.split(", ")
        if letter in says and not (len(letter) == 1 and letter.isascii())
    )
