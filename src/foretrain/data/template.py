"""One template (Abstract symbols, section 2): matching, substitution and disjointness, decided exactly.

A template is a string of tokens and wildcards. A string matches it if replacing each wildcard with a different token,
none of them in the template already, gives the string. So a string matches if and only if it has the template's
equality pattern and the template's tokens in their places; everything below relies on that. Greek letters are
wildcards unless others are given.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from foretrain.core.errors import require

GREEK = frozenset("αβγδεζηθικλμνξοπρστυφχψω")


def equality_pattern(string: Iterable[object]) -> tuple[int, ...]:
    """Number the symbols in order of first appearance: "QQRQ" gives (0, 0, 1, 0)."""
    seen: dict[object, int] = {}
    return tuple(seen.setdefault(symbol, len(seen)) for symbol in string)


@dataclass(frozen=True)
class Template:
    """Def. 2.1: a string of tokens and wildcards; `Template.parse("ααβST")` makes one from text."""

    symbols: tuple[str, ...]
    wildcard_names: frozenset[str] = GREEK

    def __post_init__(self) -> None:
        require(len(self.symbols) >= 1, "A template must have at least one symbol; got an empty one.")
        require(all(self.symbols), f"A symbol must have at least one character; got {list(self.symbols)}.")

    @classmethod
    def parse(cls, text: str, wildcards: Iterable[str] = GREEK, *, words: bool = False) -> Template:
        """A template from text: one symbol per character, or one per word if `words`."""
        return cls(tuple(text.split() if words else text), frozenset(wildcards))

    def __str__(self) -> str:
        return spelled(self.symbols)

    def __len__(self) -> int:
        return len(self.symbols)

    @cached_property
    def wildcards(self) -> tuple[str, ...]:
        """The wildcards that occur, in order of first appearance."""
        return tuple(dict.fromkeys(s for s in self.symbols if s in self.wildcard_names))

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """The regular tokens that occur, in order of first appearance."""
        return tuple(dict.fromkeys(s for s in self.symbols if s not in self.wildcard_names))

    @cached_property
    def pattern(self) -> tuple[int, ...]:
        """Which positions are equal: the first occurrence of each symbol gets the next number."""
        return equality_pattern(self.symbols)

    def substitute(self, substitution: Mapping[str, str]) -> tuple[str, ...]:
        """sub(z, s), Def. 2.1. The map must be injective and must not use the template's own tokens."""
        missing = [w for w in self.wildcards if w not in substitution]
        require(not missing, f"The substitution has no token for wildcard {', '.join(missing)} of {self}.")
        used = [substitution[w] for w in self.wildcards]
        require(
            len(set(used)) == len(used), f"A substitution must give each wildcard its own token; got {used} for {self}."
        )
        clashing = sorted(set(used) & set(self.tokens))
        require(
            not clashing,
            f"A substitution must not use tokens the template already contains; got {clashing} for {self}.",
        )
        return tuple(substitution.get(s, s) if s in self.wildcard_names else s for s in self.symbols)

    def matches(self, string: Sequence[str]) -> bool:
        """Whether some substitution turns this template into the string (Def. 2.1)."""
        return (
            len(string) == len(self)
            and equality_pattern(string) == self.pattern
            and all(s == x for s, x in zip(self.symbols, string, strict=True) if s not in self.wildcard_names)
        )

    def common_string(self, other: Template) -> tuple[str, ...] | None:
        """A string that matches both templates, or None if they are disjoint (Def. 3.2).

        Both must have the same equality pattern as the string. Each group of equal positions then takes the token that
        either template has there. A string exists unless the two disagree, or one token is forced on two groups. The
        remaining groups take tokens that occur in neither template, so the answer holds for every alphabet that is
        large enough for both.
        """
        if self.pattern != other.pattern:
            return None
        forced: dict[int, str] = {}
        for template in (self, other):
            for position, symbol in zip(template.pattern, template.symbols, strict=True):
                if symbol not in template.wildcard_names and forced.setdefault(position, symbol) != symbol:
                    return None
        if len(set(forced.values())) < len(forced):
            return None
        taken = set(self.tokens) | set(other.tokens) | self.wildcard_names | other.wildcard_names
        fresh = (name for name in _fresh_names() if name not in taken)
        filled = {position: forced.get(position) or next(fresh) for position in dict.fromkeys(self.pattern)}
        return tuple(filled[position] for position in self.pattern)

    def disjoint(self, other: Template) -> bool:
        """Def. 3.2: no string matches both."""
        return self.common_string(other) is None


def spelled(symbols: Sequence[str]) -> str:
    """Symbols as text, separated by spaces unless each is a single character."""
    return ("" if all(len(s) == 1 for s in symbols) else " ").join(symbols)


def _fresh_names() -> Iterable[str]:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    yield from letters
    for number in itertools.count(1):
        yield from (f"{letter}{number}" for letter in letters)
