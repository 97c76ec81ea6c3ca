"""Finding a claim or an experiment: by its id, by the paper's own numbering, or by words.

`"scan_snap/lemma6"`, `"lemma6"`, `"scan_snap/theorem*"`, `"Theorem 3"`, `"fig22"`, `"Lemma G.7"` and `"identity"` all
work. The first of these ways that finds anything counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from foretrain.core.errors import InputError, nearest

_KINDS = {
    "theorem": "theorem", "thm": "theorem", "lemma": "lemma", "lem": "lemma", "corollary": "corollary",
    "cor": "corollary", "proposition": "proposition", "prop": "proposition", "claim": "claim", "figure": "figure",
    "fig": "figure", "table": "table", "equation": "eq", "eqn": "eq", "eq": "eq", "section": "section",
    "sec": "section", "remark": "remark", "definition": "definition", "def": "definition", "appendix": "appendix",
    "appendices": "appendix", "assumption": "assumption", "observation": "observation",
}  # fmt: skip
_NUMBER = r"(?:[A-Z](?:\.\d+)+|\d+(?:\.\d+)*|(?-i:[A-Z])(?![a-zA-Z]))"
_REFERENCE = re.compile(
    rf"(?<![a-z])({'|'.join(sorted(_KINDS, key=len, reverse=True))})s?\.?\s*\(?"
    rf"({_NUMBER}(?:\s*\([a-z]\))?(?:(?:,\s*|\s+and\s+|\s+to\s+|\s*[–-]\s*){_NUMBER})*)",
    re.IGNORECASE,
)
Reference = tuple[str, str]  # ("theorem", "3")
LONGEST_QUERY = 500  # characters; a glob of a hundred thousand takes seconds to read
MOST_DIGITS = 3  # no paper has a Theorem 1000, and "Theorem 1 to 999999999" would fill the memory


@dataclass(frozen=True)
class Entry:
    """What can be found: a claim or an experiment."""

    id: str
    source: str  # the paper's own numbering
    says: str
    keywords: str = ""  # more words by which it can be found

    @property
    def references(self) -> set[Reference]:
        """The paper's own numbers in its source and its id: theorem4_1 is Theorem 4.1."""
        tail = self.id.rsplit("/", 1)[-1]
        return {*references(self.source), *references(re.sub(r"(?<=\d)_(?=\d)", ".", tail).replace("_", " "))}


def references(text: str) -> set[Reference]:
    """The numbered results that a text names: "Lemmas 6 and 7" gives ("lemma", "6") and ("lemma", "7")."""
    return set(_references(text))


def _references(text: str) -> Iterator[Reference]:
    for match in _REFERENCE.finditer(text):
        kind, before, number = _KINDS[match[1].lower()], "", ""
        numbers = re.sub(r"\s*\([a-z]\)", "", match[2])
        for word in re.split(r"\s*(,|\band\b|\bto\b|[–-])\s*", numbers):
            if word in ("to", "–", "-"):
                before = number
            elif word not in ("", ",", "and"):
                number = word.upper()
                yield from ((kind, between) for between in _between(before, number))
                yield kind, number
                before = ""


def _between(first: str, last: str) -> list[str]:
    """The numbers between G.7 and G.9: G.8."""
    stem, _, low = first.rpartition(".")
    other_stem, _, high = last.rpartition(".")
    if stem != other_stem or not all(end.isdigit() and len(end) <= MOST_DIGITS for end in (low, high)):
        return []
    return [f"{stem}.{n}" if stem else str(n) for n in range(int(low) + 1, int(high))]


def matching(query: str, entries: Sequence[Entry]) -> list[Entry]:
    """The entries a query means, in their own order; none if nothing matches."""
    words = query.strip()
    if len(words) > LONGEST_QUERY:
        return []
    tails = {entry.id: entry.id.split("/", 1)[-1] for entry in entries}
    wanted = references(words)
    rest = _REFERENCE.sub(" ", words).casefold().replace(",", " ").split()
    ways = (
        lambda entry: entry.id == words,
        lambda entry: tails[entry.id] == words,
        lambda entry: _is_glob(words) and (fnmatchcase(entry.id, words) or fnmatchcase(tails[entry.id], words)),
        lambda entry: entry.id.startswith(words),
        lambda entry: bool(wanted) and wanted <= entry.references and _has_words(entry, rest),
        lambda entry: not wanted and bool(rest) and _has_words(entry, rest),
    )
    for matches in ways if words else ():
        hits = [entry for entry in entries if matches(entry)]
        if hits:
            return hits
    return []


def select(queries: Sequence[str], entries: Sequence[Entry]) -> list[str]:
    """The ids that match any query, in their own order; all ids without a query. InputError if one finds nothing."""
    chosen: set[str] = set()
    for query in queries:
        hits = matching(query, entries)
        if not hits:
            raise InputError(not_found(query, entries))
        chosen.update(entry.id for entry in hits)
    return [entry.id for entry in entries if entry.id in chosen or not queries]


def not_found(query: str, entries: Sequence[Entry]) -> str:
    """A refusal with the nearest names."""
    if not query.strip():
        return 'The query is empty; give an id, a number of the paper such as "Theorem 3", or words.'
    near = nearest(query, dict.fromkeys(entry.id for entry in entries))
    return (
        f"Nothing matches {query!r}; the nearest names are {', '.join(near)}. You can search by id, by the paper's own "
        'number (such as "Theorem 3"), or by words.'
    )


def _is_glob(words: str) -> bool:
    return any(sign in words for sign in "*?[")


def _has_words(entry: Entry, words: Sequence[str]) -> bool:
    text = f"{entry.id} {entry.source} {entry.says} {entry.keywords}".casefold()
    return all(word in text for word in words)
