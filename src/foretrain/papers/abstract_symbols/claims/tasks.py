"""Section 2 and appendix A: what a template is, and how many templates a task has."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.data.template_examples import distribution_of_3, ravens_matrices, relational_match_to_sample
from foretrain.data.template_task import Template, TemplateTask, equality_pattern
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import close, every
from foretrain.ledger.tolerances import EXACT

STRINGS = {"QQRST": True, "QQQST": False, "QQSST": False}  # section 2: which match ααβST


def _by_pattern(symbols: str, length: int, alphabet: Sequence[int]) -> xr.Dataset:
    """Matching as printed, disjointness from equality patterns, diversity m/w."""
    templates = [Template.parse("".join(row)) for row in itertools.product(symbols, repeat=length)]
    pairs = itertools.combinations(templates, 2)
    return trajectory(
        {
            "matches": ("string", [float(match) for match in STRINGS.values()]),
            "disjoint": ("pair", [float(one.disjoint(two)) for one, two in pairs]),
            "diversity": ("alphabet", [_two_templates().diversity(m) for m in alphabet]),
        },
        {"string": list(STRINGS), "alphabet": list(alphabet)},
    )


def _by_enumeration(symbols: str, length: int, alphabet: Sequence[int], injective: bool = True) -> xr.Dataset:
    """The same from every substitution map (Def. 2.1); without `injective` from all maps, for the control."""
    letters = "QRSTUV"
    matching = {
        "".join(row): _strings("".join(row), letters, injective) for row in itertools.product(symbols, repeat=length)
    }
    example = _strings("ααβST", letters, injective)
    chances = []
    for m in alphabet:
        maps = [list(itertools.permutations(range(m), len(z.wildcards))) for z in _two_templates().templates]
        chances.append(max(sum(t in image for image in of_z) / len(of_z) for of_z in maps for t in range(m)))
    return trajectory(
        {
            "matches": ("string", [float(tuple(string) in example) for string in STRINGS]),
            "disjoint": ("pair", [float(not a & b) for a, b in itertools.combinations(matching.values(), 2)]),
            "diversity": ("alphabet", [1 / chance for chance in chances]),
        },
        {"string": list(STRINGS), "alphabet": list(alphabet)},
    )


def _strings(text: str, letters: str, injective: bool) -> set[tuple[str, ...]]:
    template = Template.parse(text)
    free = [t for t in letters if t not in template.tokens or not injective]
    count = len(template.wildcards)
    maps = itertools.permutations(free, count) if injective else itertools.product(free, repeat=count)
    filled = (dict(zip(template.wildcards, image, strict=True)) for image in maps)
    return {tuple(s.get(symbol, symbol) for symbol in template.symbols) for s in filled}


def _two_templates() -> TemplateTask:
    return TemplateTask((Template.parse("αα"), Template.parse("αβ")), (1.0, -1.0))


definitions = Claim(
    id="abstract_symbols/definitions",
    source="Definitions 2.1, 3.2 and 3.3",
    whose="the paper's statement",
    says=(
        "ααβST matches QQRST but neither QQQST nor QQSST. Two templates are disjoint if no string matches both, which "
        "can be read off their equality patterns and tokens. The diversity ρ is 1 over the chance of the likeliest "
        "token."
    ),
    predict=_by_pattern,
    observe=_by_enumeration,
    compare=every(
        close("matches", EXACT, by="as printed", seen="by enumeration"),
        close("disjoint", EXACT, by="from the patterns", seen="by enumeration"),
        close("diversity", EXACT, by="by formula", seen="by enumeration"),
    ),
    settings={
        "fast": {"symbols": "αβS", "length": 3, "alphabet": (2, 5)},
        "full": {"symbols": "αβST", "length": 4, "alphabet": (2, 5, 40)},
    },
    control=Control(
        "substitution maps that need not be injective, and need not avoid the template's tokens", {"injective": False}
    ),
)


def _counts_printed() -> xr.Dataset:
    return trajectory({"templates": ("task", [144.0, 40.0, 37.0])}, {"task": list(RULES)})


def _counts_by_rule(rows_apart: bool = True) -> xr.Dataset:
    """Counts the equality patterns of strings that obey the task's rule; none is built from templates.

    Without `rows_apart` the rows of match-to-sample may share symbols, for the control.
    """
    counts = []
    for rule, length, task in RULES.values():
        patterns = {p for p in restricted_growth(length) if rule(p, rows_apart)}
        listed = {_gapless_pattern(template) for template in task().templates}
        counts.append(float(len(patterns)) if patterns == listed or not rows_apart else float("nan"))
    return trajectory({"templates": ("task", counts)}, {"task": list(RULES)})


def _gapless_pattern(template: Template) -> tuple[int, ...]:
    """The equality pattern without □ and ?, which mark the place to fill."""
    return equality_pattern(s for s in template.symbols if s not in template.tokens)


def restricted_growth(length: int) -> list[tuple[int, ...]]:
    """Every equality pattern of strings of this length, once each: a symbol is an old one or the next new one."""
    patterns: list[tuple[int, ...]] = [(0,)]
    for _ in range(length - 1):
        patterns = [(*pattern, symbol) for pattern in patterns for symbol in range(max(pattern) + 2)]
    return patterns


def _is_distribution_of_3(p: tuple[int, ...], _: bool) -> bool:
    """A row of three, two of these again, then four answers: the three and one new symbol in any order."""
    row, second, answers = set(p[:3]), p[3:5], p[5:]
    return (
        len(row) == 3 and second[0] != second[1] and set(second) < row and len(set(answers)) == 4 and row < set(answers)
    )


def _is_match_to_sample(p: tuple[int, ...], rows_apart: bool) -> bool:
    """Three rows of three, no symbol in two rows; exactly one alternative repeats the pattern of the first."""
    rows = [p[:3], p[3:6], p[6:]]
    apart = all(not set(a) & set(b) for a, b in itertools.combinations(rows, 2))
    kinds = [(a == b, b == c, a == c) for a, b, c in rows]
    return (apart or not rows_apart) and (kinds[0] == kinds[1]) != (kinds[0] == kinds[2])


def _is_matrix(p: tuple[int, ...], _: bool) -> bool:
    """Some last symbol makes all rows orders of the same three symbols, or three different constants."""
    for last in set(p):
        rows = [p[:3], p[3:6], (*p[6:], last)]
        orders = all(len(set(row)) == 3 and set(row) == set(rows[0]) for row in rows)
        constant = all(len(set(row)) == 1 for row in rows) and len({row[0] for row in rows}) == 3
        if orders or constant:
            return True
    return False


RULES: dict[str, tuple[Callable[[tuple[int, ...], bool], bool], int, Callable[[], TemplateTask]]] = {
    "distribution of 3": (_is_distribution_of_3, 9, distribution_of_3),
    "relational match-to-sample": (_is_match_to_sample, 9, relational_match_to_sample),
    "Raven's matrices": (_is_matrix, 8, ravens_matrices),
}

task_counts = Claim(
    id="abstract_symbols/task_counts",
    source="Fig 1 and appendix A",
    whose="the paper's statement",
    says=(
        "Distribution of 3 has 144 templates, relational match-to-sample 40, one dimension of Raven's matrices 37. "
        "(Counted among all equality patterns by each task's rule, and the templates that the library lists are these.)"
    ),
    predict=_counts_printed,
    observe=_counts_by_rule,
    compare=close("templates", EXACT, by="as printed", seen="by counting"),
    settings={"fast": {}},
    control=Control("rows of match-to-sample that may share symbols", {"rows_apart": False}),
)

CLAIMS = [definitions, task_counts]
