"""Sentences with symbols in them: η_Y, e^{Mh} and β_nn' get real indices and powers; names of claims do not."""

from __future__ import annotations

import re
from functools import cache

from markupsafe import Markup, escape

_ACCENTS = "\u0302-\u0304\u0307\u0308"  # hat, tilde, bar, dots
_LOW = re.compile(
    rf"(?P<base>[^\W\d_][{_ACCENTS}]*[′']*|[¹²³⁾)])_"
    r"(?P<index>\{[^{}]*\}|[a-zα-ω]['a-zα-ω0-9]*(?<!')'?(?!_)|[A-Z]|\d+)"
)
_HIGH = re.compile(r"\^(?P<power>\{[^{}]*\}|\([^()]*\)|\|[^|\s]*\||[−+-]?(?:\d+(?:\.\d+)?|\.\d+)|[^\W\d_])")


@cache
def prose(text: str) -> Markup:
    """The sentence as HTML, escaped, with indices and powers set as such."""
    done, start = Markup(), 0
    while start < len(text):
        low, high = _next_index(text, start), _HIGH.search(text, start)
        first = min((match for match in (low, high) if match), key=lambda match: match.start(), default=None)
        if first is None:
            break
        done += escape(text[start : first.start()])
        if first is high:
            done += Markup("<sup>{}</sup>").format(prose(_bare(first["power"])))
        else:
            done += Markup("{}<sub>{}</sub>").format(first["base"], prose(_bare(first["index"])))
        start = first.end()
    return done + escape(text[start:])


def _next_index(text: str, start: int) -> re.Match[str] | None:
    """The next letter with an index. In ag_news or fig5_one_rate the letter belongs to a word, so it is none."""
    at = start
    while match := _LOW.search(text, at):
        before = text[match.start() - 1] if match.start() > start else ""
        inside_a_word = match["base"][0].islower() and before.isascii() and (before.isalnum() or before == "_")
        if not (match["base"][0].isascii() and inside_a_word):
            return match
        at = match.start() + 1
    return None


def _bare(group: str) -> str:
    """What stands between brackets that only hold an index or a power together."""
    return group[1:-1] if group[0] + group[-1] in ("{}", "()") else group
