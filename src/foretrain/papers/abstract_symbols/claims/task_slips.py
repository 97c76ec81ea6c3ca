"""Section 1.1, appendix A and Fig 17: what is printed wrongly of single tasks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.data.template_examples import majority
from foretrain.ledger.claim import Claim, Control, Erratum
from foretrain.ledger.comparators import close
from foretrain.ledger.tolerances import EXACT
from foretrain.papers.abstract_symbols import theory

# Appendix A prints three templates of "distribution of 3" with their labels.
PRINTED_LABELS = {"αβγγα□εαβγ": 2.0, "αβγβγ□αγεβ": 1.0, "αβγγβ□εβαγ": 3.0}


def _labels(of_first: float = 3.0) -> xr.Dataset:
    """The labels as they should be; `of_first` is the one that is printed wrongly."""
    return trajectory(
        {"label": ("template", [of_first, *list(PRINTED_LABELS.values())[1:]])}, {"template": list(PRINTED_LABELS)}
    )


def _labels_by_rule(first_place: int = 1) -> xr.Dataset:
    """The place, counted from `first_place`, of the answer that makes the second row equal to the first as a set."""
    places = []
    for text in PRINTED_LABELS:
        missing = set(text[:3]) - set(text[3:5])
        places.append(float(first_place + text[6:].index(missing.pop())))
    return trajectory({"label": ("template", places)}, {"template": list(PRINTED_LABELS)})


distribution_of_3_labels = Claim(
    id="abstract_symbols/distribution_of_3_labels",
    source="Appendix A, distribution of 3",
    whose="the paper's statement",
    says="The label is the place of the answer that completes the second row; the three example templates have "
    "labels 3, 1 and 3.",
    predict=_labels,
    observe=_labels_by_rule,
    compare=close("label", EXACT, by="as printed", seen="by the rule"),
    settings={"fast": {}},
    control=Control("places counted from 0", {"first_place": 0}),
    erratum=Erratum(
        changes={"of_first": PRINTED_LABELS["αβγγα□εαβγ"]},
        prints="The label is the place of the answer that completes the second row; the three example templates have "
        "labels 2, 1 and 3.",
        says="αβγ γα□ εαβγ is printed with label 2, but the missing β is its third answer. The other two examples "
        "have labels 1 and 3, counted from 1, so this one is 3.",
        formulas=(
            r"\alpha\beta\gamma\;\gamma\alpha\square\;\epsilon\alpha\beta\gamma \mapsto 2",
            r"\alpha\beta\gamma\;\gamma\alpha\square\;\epsilon\alpha\beta\gamma \mapsto 3",
        ),
        consequence="None for the theory; whoever builds the task from the examples gets one label wrong.",
    ),
)


def _majorities_formula(lengths: Sequence[int], printed: bool = False) -> xr.Dataset:
    return _majorities(lengths, [2 ** (k - 1) if printed else theory.majority_templates(k) for k in lengths])


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
    return trajectory({"templates": ("length", [float(c) for c in counts])}, {"length": list(lengths)})


majority_templates = Claim(
    id="abstract_symbols/majority_templates",
    source="section 1.1, mathematical functions",
    whose="the paper's statement",
    says="The majority element of a string of length k, over two symbols, is encoded by Σ_{j<k/2} C(k, j) templates, "
    "which is 2^(k−1) for odd k only.",
    predict=_majorities_formula,
    observe=_majorities_counted,
    compare=close("templates", EXACT, by="by the formula", seen="by counting"),
    settings={"fast": {"lengths": (2, 3, 4, 5, 6, 7, 8)}, "full": {"lengths": tuple(range(2, 15))}},
    control=Control("half of the positions count as a majority", {"ties": True}),
    erratum=Erratum(
        changes={"printed": True},
        prints="The majority element of a string of length k, over two symbols, is encoded by 2^(k−1) templates.",
        says="Strings of even length with as many α as β have no majority element. For k = 4 there are 5 templates, "
        "not 8; for k = 3, the paper's example, there are 4, as printed.",
        formulas=(r"2^{k-1}", r"\sum_{j < k/2} \binom{k}{j}"),
        consequence="The task of section 1.1 exists for odd lengths only, or needs a rule for ties.",
    ),
)


def _caption_labels(lengths: Sequence[int], otherwise: float = -1.0) -> xr.Dataset:
    """Fig 17: +1 if α occurs more often in the last k − 1 entries, and −1 otherwise, where the caption prints +1."""
    rows = [row[1:] for k in lengths for row in _majority_rows(k)]
    return _majority_labels(lengths, [1.0 if row.count("α") > len(row) / 2 else otherwise for row in rows])


def _appendix_b_labels(lengths: Sequence[int], flipped: bool = False) -> xr.Dataset:
    """The task that appendix B defines: +1 if |{i: z_1 = z_i}| > (k + 1)/2, else −1; `flipped` exchanges the signs."""
    labels = [float(label) for k in lengths for label in majority(k).labels]
    return _majority_labels(lengths, [-label for label in labels] if flipped else labels)


def _majority_rows(k: int) -> list[str]:
    return ["α" + "".join(rest) for rest in itertools.product("αβ", repeat=k - 1)]


def _majority_labels(lengths: Sequence[int], labels: Sequence[float]) -> xr.Dataset:
    names = [row for k in lengths for row in _majority_rows(k)]
    return trajectory({"label": ("template", list(labels))}, {"template": names})


fig17_caption = Claim(
    id="abstract_symbols/fig17_caption",
    source="Fig 17, caption",
    whose="the paper's statement",
    says="A template of the majority task has label +1 if α is at most of the last k − 1 places, and label −1 if not.",
    predict=_caption_labels,
    observe=_appendix_b_labels,
    compare=close("label", EXACT, by="by the caption", seen="by appendix B"),
    settings={"fast": {"lengths": (2, 3, 4, 5)}},
    control=Control("the two labels exchanged", {"flipped": True}),
    erratum=Erratum(
        changes={"otherwise": 1.0},
        prints="A template of the majority task has label +1 if α is at most of the last k − 1 places, and label +1 "
        "if not.",
        says="The caption gives label +1 in both cases; appendix B has −1 in the second. (The same caption leaves out "
        "the templates of its second task: they are ααββ with +1 and αβαβ with −1, or the reverse.)",
        formulas=(r"f_*(z) = +1 \text{ in both cases}", r"f_*(z) = \pm 1"),
        consequence="None: with one label for all templates there would be nothing to learn.",
    ),
)

CLAIMS = [distribution_of_3_labels, majority_templates, fig17_caption]
