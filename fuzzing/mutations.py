"""Strategies of hypothesis that change valid values, texts and bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

HOSTILE = (
    "", " ", "\x1b[31mred", "\x9b2J", "\u202eabc", "\x00", "\x7f", "\n", "\r\n", "\ufeff", "é" * 40, "a" * 100_000,
    "<script>alert(1)</script>", "=1+1", "../../etc/passwd", "/dev/zero", "~", "nan", "inf", "-0", "1e999", "9" * 5000,
    "None", "true", "%s{}", "{0.__class__}", "$(id)", "αβγ", "👩‍🚀", "١٢٣", "İ", "ß", "-" * 50, "[" * 200, "(" * 200,
)  # fmt: skip
# Texts that stand in JSON as they are, although no Python value is written like this.
TOKENS = (
    "1" * 5000, "1e400", "-1e400", "1e-400", "NaN", "Infinity", "-Infinity", "-0", "-0.0", "[" * 5000 + "]" * 5000,
    '{"a":' * 3000 + "1" + "}" * 3000, r'"\ud800"', r'"\u0000"', r'"\u001b[2J"', "[[],[]]", "{}", "[]", "1.5e3", "01",
)  # fmt: skip
_MARK = "\ue000token "

texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=12))
whole_numbers = st.one_of(
    st.integers(-3, 12), st.integers(), st.sampled_from([2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**12, 10**400])
)
numbers = st.one_of(whole_numbers, st.floats())
tokens = st.sampled_from([_MARK + str(index) for index in range(len(TOKENS))])
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=5,
)


def as_json(value: Any, **options: Any) -> str:
    """JSON with the tokens put in; a whole number of any size."""
    text = json.dumps(value, **options)
    for index in reversed(range(len(TOKENS))):
        text = text.replace(json.dumps(_MARK + str(index), **options), TOKENS[index])
    return text


@st.composite
def changed(draw: st.DrawFn, valid: Any, most: int = 3, replacements: st.SearchStrategy[Any] = values) -> Any:
    """A valid value of lists and dictionaries with one to `most` changes."""
    whole = [json.loads(json.dumps(valid))]
    for _ in range(draw(st.integers(1, most))):
        places = list(_places(whole))
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        change = draw(st.integers(0, 9))
        if change == 0 and holder is not whole:
            del holder[key]
        elif change == 1 and isinstance(holder, dict):
            holder[draw(texts)] = holder.pop(key)
        elif change == 2:
            other, other_key = places[draw(st.integers(0, len(places) - 1))]
            holder[key] = json.loads(json.dumps(other[other_key]))
        elif change == 3:
            holder[key] = [holder[key]]
        elif change == 4 and isinstance(holder, list) and holder is not whole:
            holder.insert(0, holder[key])
        else:
            holder[key] = draw(_like(holder[key], replacements))
    return whole[0]


def _like(value: Any, replacements: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly values of the same kind, which a check of types lets through."""
    if isinstance(value, bool) or value is None:
        return replacements
    if isinstance(value, int | float):
        return st.one_of(numbers, numbers, replacements)
    if isinstance(value, str):
        return st.one_of(texts, changed_text(value), replacements)
    return replacements


def _places(value: Any) -> Any:
    """(holder, key) of everything inside a value."""
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(items):
        yield value, key
        yield from _places(item)


@st.composite
def changed_text(draw: st.DrawFn, valid: str, most: int = 3) -> str:
    """A text with parts cut out, doubled, or replaced by something hostile."""
    text = valid
    for _ in range(draw(st.integers(1, most))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([0, 0, 1, 1, 2, 5, 20])))
        piece = draw(st.one_of(texts, st.just(text[start:end] * 2), st.just("")))
        text = text[:start] + piece + text[end:]
    return text


@st.composite
def changed_bytes(draw: st.DrawFn, valid: bytes, most: int = 3) -> bytes:
    """Bytes that are flipped, cut out, put in, or cut off."""
    content = bytearray(valid)
    for _ in range(draw(st.integers(1, most))):
        start = draw(st.integers(0, max(0, len(content) - 1)))
        change = draw(st.integers(0, 4))
        if change <= 1 and content:
            content[start] ^= draw(st.integers(1, 255))
        elif change == 2:
            content[start:start] = draw(st.binary(min_size=1, max_size=4))
        elif change == 3:
            del content[start : start + draw(st.integers(1, 30))]
        else:
            del content[start:]
    return bytes(content)
