"""The template tasks of the paper, each enumerated from its rule."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from foretrain.core.errors import require, require_whole
from foretrain.core.streams import stream
from foretrain.data.template_task import Template, TemplateTask

WILDCARD_ORDER = "αβγδεζηθικλμνξοπρστυφχψω"
ROW_PATTERNS = ("ααα", "ααβ", "αβα", "αββ", "αβγ")  # the five equality patterns of three symbols


def _task(name: str, rows: Sequence[tuple[str, float | str]], *, words: bool = False) -> TemplateTask:
    templates = tuple(Template.parse(text, words=words) for text, _ in rows)
    labels = tuple(label for _, label in rows)
    return TemplateTask(templates, labels, name=name)  # type: ignore[arg-type]


def same_different() -> TemplateTask:
    """Section 1.1: αα is +1, αβ is −1."""
    return _task("same/different", [("αα", 1.0), ("αβ", -1.0)])


def aba_abb() -> TemplateTask:
    """Appendix B: αβα is +1, αββ is −1."""
    return _task("αβα vs αββ", [("αβα", 1.0), ("αββ", -1.0)])


def abab_aabb() -> TemplateTask:
    """Appendix B: αβαβ is +1, ααββ is −1."""
    return _task("αβαβ vs ααββ", [("αβαβ", 1.0), ("ααββ", -1.0)])


def majority(length: int) -> TemplateTask:
    """Appendix B: the 2^(k−1) templates α{α, β}^(k−1); +1 if more than (k + 1)/2 symbols are α, else −1."""
    require(2 <= length <= 16, f"length must lie between 2 and 16 (it gives 2^(length − 1) templates); got {length}.")
    rows = ["α" + "".join(rest) for rest in itertools.product("αβ", repeat=length - 1)]
    return _task(f"majority of {length}", [(row, 1.0 if row.count("α") > (length + 1) / 2 else -1.0) for row in rows])


def majority_token(length: int) -> TemplateTask:
    """Section 1.1, next token: output the symbol at most of an odd number of positions."""
    require(
        length % 2 == 1 and 1 <= length <= 15,
        f"length must be odd, so that there is no draw, and at most 15; got {length}.",
    )
    rows = ["α" + "".join(rest) for rest in itertools.product("αβ", repeat=length - 1)]
    return _task(f"majority symbol of {length}", [(row, max("αβ", key=row.count)) for row in rows])


MOST_SYMBOLS = 20_000  # in all random templates together
MOST_MISSES = 20_000  # draws in a row that give nothing new


def random_templates(
    count: int = 4, length: int = 5, *, wildcards: int = 3, tokens: int = 3, seed: int = 1
) -> TemplateTask:
    """Appendix B: templates drawn uniformly from all strings over wildcards and tokens, Gaussian labels.

    The paper only requires them to differ. Two that differ by renaming wildcards would still give one string two
    labels, so a template that overlaps an earlier one is drawn again. Labels have mean 0 and mean square 1, so
    the trivial error is 1.
    """
    require_whole("count", count, 2)
    require_whole("length", length, 1)
    require(
        count * length <= MOST_SYMBOLS,
        f"count times length must be at most {MOST_SYMBOLS:,}, because each template is compared with all others; "
        "ask for fewer or shorter ones.",
    )
    require_whole("seed", seed, 0)
    require(0 <= wildcards <= len(WILDCARD_ORDER), f"wildcards must lie between 0 and 24; got {wildcards}.")
    require(0 <= tokens <= 26, f"tokens must lie between 0 and 26; got {tokens}.")
    require(wildcards + tokens >= 1, "Templates need at least one wildcard or token; got 0 of both.")
    symbols = list(WILDCARD_ORDER[:wildcards] + "abcdefghijklmnopqrstuvwxyz"[:tokens])
    draw = stream("random_templates", count, length, wildcards, tokens, seed)
    templates: list[Template] = []
    drawn, last_found = 0, 0
    while len(templates) < count and drawn < 1000 * count and drawn - last_found < MOST_MISSES:
        template = Template(tuple(draw.choice(symbols, size=length).tolist()))
        drawn += 1
        if all(template.disjoint(earlier) for earlier in templates):
            templates.append(template)
            last_found = drawn
    require(
        len(templates) == count,
        f"Only {len(templates)} disjoint templates of length {length} were found among {drawn:,} drawn from "
        f"{wildcards} wildcards and {tokens} tokens; ask for fewer than {count} or for longer ones.",
    )
    labels = draw.standard_normal(count)
    labels = (labels - labels.mean()) / labels.std()
    return TemplateTask(tuple(templates), tuple(labels.tolist()), name=f"{count} random templates")


def print_program() -> TemplateTask:
    """Fig 2, eq. 1: two programs, one token per character, labelled by the number they print."""
    return _task("print program", [("α=1;β=-1;print(α)", 1.0), ("α=1;β=-1;print(β)", -1.0)])


def print_symbol() -> TemplateTask:
    """Fig 3, eq. 2, next token: the same programs with symbols as values, labelled by the symbol they print."""
    return _task("print symbol", [('α="γ";β="δ";print(α)', "γ"), ('α="γ";β="δ";print(β)', "δ")])


def copying() -> TemplateTask:
    """Section 4, next token: α is followed by α."""
    return _task("copying", [("α", "α")])


def print_statement() -> TemplateTask:
    """Section 1.1, next token: print("α") prints α."""
    return _task("print statement", [('print("α")', "α")])


def word_problems(amounts: Sequence[int] = (5,)) -> TemplateTask:
    """Section 1.1: If α gives β 5 γ, how many γ does β have? +5. How many does α have? −5, having given them away."""
    require(len(amounts) >= 1, "amounts must name at least one number; got none.")
    rows = [
        (f"If α gives β {amount} γ , how many γ does {asked} have ?", sign * float(amount))
        for amount in amounts
        for asked, sign in (("β", 1), ("α", -1))
    ]
    return _task("word problems", rows, words=True)


def distribution_of_3() -> TemplateTask:
    """Fig 1a: αβγ, two symbols of a second row, □, and four answers; the label is the position (1 to 4) of the answer.

    6 orders of the second row times 24 orders of the answers α, β, γ, ε: 144 templates.
    """
    rows = []
    for second in itertools.permutations("αβγ"):
        for answers in itertools.permutations("αβγε"):
            rows.append(("αβγ" + "".join(second[:2]) + "□" + "".join(answers), 1.0 + answers.index(second[2])))
    return _task("distribution of 3", rows)


def relational_match_to_sample() -> TemplateTask:
    """Fig 1b: a row and two alternatives, one with the same pattern as the row; the label is its position (1 or 2).

    5 patterns of the first row, 2 positions of the right alternative, 4 patterns of the wrong one: 40 templates.
    """
    rows = []
    for sample, place, wrong in itertools.product(ROW_PATTERNS, (1, 2), ROW_PATTERNS):
        if wrong != sample:
            first, second = (sample, wrong) if place == 1 else (wrong, sample)
            rows.append((_rows_apart(sample, first, second), float(place)))
    return _task("relational match-to-sample", rows)


def ravens_matrices() -> TemplateTask:
    """Fig 1c, next token: one dimension of Raven's matrices; the label is the symbol that completes the last row.

    Either all rows have the same three symbols in any order (6 · 6), or each row is constant: 37 templates.
    """
    rows = [("αααβββγγ?", "γ")]
    for second, third in itertools.product(itertools.permutations("αβγ"), repeat=2):
        rows.append(("αβγ" + "".join(second) + "".join(third[:2]) + "?", third[2]))
    return _task("Raven's matrices", rows)


def _rows_apart(*patterns: str) -> str:
    """Join rows after renaming their wildcards, so that no two rows share one."""
    fresh: Iterator[str] = iter(WILDCARD_ORDER)
    text = ""
    for pattern in patterns:
        names = {symbol: next(fresh) for symbol in dict.fromkeys(pattern)}
        text += "".join(names[symbol] for symbol in pattern)
    return text


NAMED: dict[str, Callable[..., TemplateTask]] = {
    "same_different": same_different,
    "aba_abb": aba_abb,
    "abab_aabb": abab_aabb,
    "majority": majority,
    "majority_token": majority_token,
    "random_templates": random_templates,
    "print_program": print_program,
    "print_symbol": print_symbol,
    "copying": copying,
    "print_statement": print_statement,
    "word_problems": word_problems,
    "distribution_of_3": distribution_of_3,
    "relational_match_to_sample": relational_match_to_sample,
    "ravens_matrices": ravens_matrices,
}
