"""Section 2 and appendix A: what a template is, and how many templates a task has."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.data.template_tasks import distribution_of_3, majority, ravens_matrices, relational_match_to_sample
from foretrain.data.templates import Template, TemplateTask, equality_pattern
from foretrain.ledger.claim import Claim, Control, erratum_pair
from foretrain.ledger.comparators import close, every
from foretrain.ledger.tolerances import EXACT
from foretrain.papers.abstract_symbols import theory

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
        close("matches", EXACT, label="which strings match ααβST", by="as printed", seen="by enumeration"),
        close("disjoint", EXACT, label="which templates are disjoint", by="from the patterns", seen="by enumeration"),
        close("diversity", EXACT, label="the diversity ρ", by="by formula", seen="by enumeration"),
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
    compare=close("templates", EXACT, label="the number of templates", by="as printed", seen="by counting"),
    settings={"fast": {}},
    control=Control("rows of match-to-sample that may share symbols", {"rows_apart": False}),
)

# Appendix A prints three templates of "distribution of 3" with their labels.
PRINTED_LABELS = {"αβγγα□εαβγ": 2.0, "αβγβγ□αγεβ": 1.0, "αβγγβ□εβαγ": 3.0}


def _labels_printed() -> xr.Dataset:
    return trajectory({"label": ("template", list(PRINTED_LABELS.values()))}, {"template": list(PRINTED_LABELS)})


def _labels_corrected() -> xr.Dataset:
    labels = {**PRINTED_LABELS, "αβγγα□εαβγ": 3.0}
    return trajectory({"label": ("template", list(labels.values()))}, {"template": list(labels)})


def _labels_by_rule(first_place: int = 1) -> xr.Dataset:
    """The place, counted from `first_place`, of the answer that makes the second row equal to the first as a set."""
    places = []
    for text in PRINTED_LABELS:
        missing = set(text[:3]) - set(text[3:5])
        places.append(float(first_place + text[6:].index(missing.pop())))
    return trajectory({"label": ("template", places)}, {"template": list(PRINTED_LABELS)})


distribution_of_3_labels = erratum_pair(
    id="abstract_symbols/distribution_of_3_labels",
    source="Appendix A, distribution of 3",
    whose="the paper's statement",
    prints="The label is the place of the answer that completes the second row; the three example templates have "
    "labels 2, 1 and 3.",
    says="The label is the place of the answer that completes the second row; the three example templates have "
    "labels 3, 1 and 3.",
    printed=_labels_printed,
    corrected=_labels_corrected,
    observe=_labels_by_rule,
    compare=close("label", EXACT, label="the label", by="as printed", seen="by the rule"),
    settings={"fast": {}},
    control=Control("places counted from 0", {"first_place": 0}),
    formulas=(
        r"\alpha\beta\gamma\;\gamma\alpha\square\;\epsilon\alpha\beta\gamma \mapsto 2",
        r"\alpha\beta\gamma\;\gamma\alpha\square\;\epsilon\alpha\beta\gamma \mapsto 3",
    ),
    erratum=(
        "αβγ γα□ εαβγ is printed with label 2, but the missing β is its third answer. The other two examples have "
        "labels 1 and 3, counted from 1, so this one is 3."
    ),
    consequence="None for the theory; whoever builds the task from the examples gets one label wrong.",
)


def _majorities_printed(lengths: Sequence[int]) -> xr.Dataset:
    return _majorities(lengths, [2 ** (k - 1) for k in lengths])


def _majorities_right(lengths: Sequence[int]) -> xr.Dataset:
    return _majorities(lengths, [theory.majority_templates(k) for k in lengths])


def _majorities_counted(lengths: Sequence[int], ties: bool = False) -> xr.Dataset:
    """Equality patterns of strings over two symbols in which one is at more than half of the positions.

    With `ties`, half of the positions are enough, for the control.
    """
    counts = []
    for k in lengths:
        patterns = [p for p in itertools.product((0, 1), repeat=k) if p[0] == 0]  # the first symbol is α
        most = [max(p.count(0), p.count(1)) for p in patterns]
        counts.append(sum(2 * m > k or (ties and 2 * m == k) for m in most))
    return _majorities(lengths, counts)


def _majorities(lengths: Sequence[int], counts: Sequence[int]) -> xr.Dataset:
    return trajectory(
        {"templates": ("length", [float(c) for c in counts], {"long_name": "templates with a majority"})},
        {"length": ("length", list(lengths), {"long_name": "length k", "symbol": "k"})},
    )


majority_templates = erratum_pair(
    id="abstract_symbols/majority_templates",
    source="section 1.1, mathematical functions",
    whose="the paper's statement",
    prints="The majority element of a string of length k, over two symbols, is encoded by 2^(k−1) templates.",
    says="The majority element of a string of length k, over two symbols, is encoded by Σ_{j<k/2} C(k, j) templates, "
    "which is 2^(k−1) for odd k only.",
    printed=_majorities_printed,
    corrected=_majorities_right,
    observe=_majorities_counted,
    compare=close("templates", EXACT, label="the number of templates", by="by the formula", seen="by counting"),
    settings={"fast": {"lengths": (2, 3, 4, 5, 6, 7, 8)}, "full": {"lengths": tuple(range(2, 15))}},
    control=Control("half of the positions count as a majority", {"ties": True}),
    formulas=(r"2^{k-1}", r"\sum_{j < k/2} \binom{k}{j}"),
    erratum=(
        "Strings of even length with as many α as β have no majority element. For k = 4 there are 5 templates, not 8; "
        "for k = 3, the paper's example, there are 4, as printed."
    ),
    consequence="The task of section 1.1 exists for odd lengths only, or needs a rule for ties.",
)


def _caption_labels(lengths: Sequence[int]) -> xr.Dataset:
    """Fig 17 as printed: +1 if α occurs more often in the last k − 1 entries, +1 if it occurs less often."""
    return _majority_labels(lengths, [1.0 for k in lengths for _ in _majority_rows(k)])


def _caption_corrected(lengths: Sequence[int]) -> xr.Dataset:
    """The same with −1 in the second case."""
    rows = [row[1:] for k in lengths for row in _majority_rows(k)]
    return _majority_labels(lengths, [1.0 if row.count("α") > len(row) / 2 else -1.0 for row in rows])


def _appendix_b_labels(lengths: Sequence[int], flipped: bool = False) -> xr.Dataset:
    """The task that appendix B defines: +1 if |{i: z_1 = z_i}| > (k + 1)/2, else −1; `flipped` exchanges the signs."""
    labels = [float(label) for k in lengths for label in majority(k).labels]
    return _majority_labels(lengths, [-label for label in labels] if flipped else labels)


def _majority_rows(k: int) -> list[str]:
    return ["α" + "".join(rest) for rest in itertools.product("αβ", repeat=k - 1)]


def _majority_labels(lengths: Sequence[int], labels: Sequence[float]) -> xr.Dataset:
    names = [row for k in lengths for row in _majority_rows(k)]
    return trajectory({"label": ("template", list(labels), {"long_name": "label"})}, {"template": names})


fig17_caption = erratum_pair(
    id="abstract_symbols/fig17_caption",
    source="Fig 17, caption",
    whose="the paper's statement",
    prints="A template of the majority task has label +1 if α is at most of the last k − 1 places, and label +1 if "
    "not.",
    says="A template of the majority task has label +1 if α is at most of the last k − 1 places, and label −1 if not.",
    printed=_caption_labels,
    corrected=_caption_corrected,
    observe=_appendix_b_labels,
    compare=close("label", EXACT, label="the label", by="by the caption", seen="by appendix B"),
    settings={"fast": {"lengths": (2, 3, 4, 5)}},
    control=Control("the two labels exchanged", {"flipped": True}),
    formulas=(r"f_*(z) = +1 \text{ in both cases}", r"f_*(z) = \pm 1"),
    erratum="The caption gives label +1 in both cases; appendix B has −1 in the second. (The same caption leaves out "
    "the templates of its second task: they are ααββ with +1 and αβαβ with −1, or the reverse.)",
    consequence="None: with one label for all templates there would be nothing to learn.",
)

CLAIMS = [definitions, task_counts, *distribution_of_3_labels, *majority_templates, *fig17_caption]
