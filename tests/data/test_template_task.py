"""Templates and template tasks: matching and disjointness against brute force, sampling against its law."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrain.core.errors import InputError
from foretrain.data.template_examples import aba_abb, copying, majority, print_symbol, same_different
from foretrain.data.template_task import CLS, Template, TemplateTask, distinct_draws, equality_pattern

SYMBOLS = "αβγST"
ALPHABET = "QRSTUV"  # the tokens of the templates and four more


def strings_of(template: Template, alphabet: str) -> set[tuple[str, ...]]:
    """Every string that matches, straight from Def. 2.1: all injective maps that avoid the template's tokens."""
    free = [t for t in alphabet if t not in template.tokens]
    return {
        template.substitute(dict(zip(template.wildcards, chosen, strict=True)))
        for chosen in itertools.permutations(free, len(template.wildcards))
    }


texts = st.text(SYMBOLS, min_size=1, max_size=4)


def test_examples_of_the_paper() -> None:
    template = Template.parse("ααβST")
    assert template.matches("QQRST")
    assert not template.matches("QQQST")  # the substitution is not injective
    assert not template.matches("QQSST")  # S is in the template already
    assert not template.matches("QQRS")


@given(texts)
@settings(max_examples=25)
def test_matching_agrees_with_enumeration(text: str) -> None:
    template = Template.parse(text)
    result = {x for x in itertools.product(ALPHABET, repeat=len(template)) if template.matches(x)}
    assert result == strings_of(template, ALPHABET)


@given(texts, texts)
@settings(max_examples=300)
def test_disjointness_agrees_with_enumeration(first: str, second: str) -> None:
    one, two = Template.parse(first), Template.parse(second)
    shared = strings_of(one, ALPHABET) & strings_of(two, ALPHABET)
    assert one.disjoint(two) == (not shared)
    assert two.disjoint(one) == one.disjoint(two)
    string = one.common_string(two)
    if string is not None:
        assert one.matches(string)
        assert two.matches(string)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=7), st.permutations(range(5)))
def test_patterns_forget_names(string: list[int], renaming: list[int]) -> None:
    assert equality_pattern(string) == equality_pattern([renaming[s] for s in string])
    assert all((a == b) == (p == q) for (a, p), (b, q) in itertools.combinations(
        zip(string, equality_pattern(string), strict=True), 2))  # fmt: skip


@pytest.mark.parametrize(
    ("substitution", "words"),
    [
        ({"α": "Q"}, "no token for wildcard β"),
        ({"α": "Q", "β": "Q"}, "its own token"),
        ({"α": "S", "β": "Q"}, "already contains"),
    ],
)
def test_bad_substitutions_are_refused(substitution: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Template.parse("αβST").substitute(substitution)


def test_samples_match_their_templates_and_labels() -> None:
    task = print_symbol()
    batch = task.sample(500, 3, alphabet=20)
    for row, template, label in zip(batch.tokens.tolist(), batch.template, batch.labels, strict=True):
        # numbers of the vocabulary back to tokens; what fills wildcards stays a number
        string = [task.vocabulary[t] if t < len(task.vocabulary) else str(t) for t in row]
        z = task.templates[template]
        assert z.matches(string)
        assert str(label) == string[z.symbols.index(task.labels[template])]
    assert set(batch.template.tolist()) == {0, 1}


def test_sampling_follows_the_weights_and_fills_uniformly() -> None:
    task = TemplateTask((Template.parse("αα"), Template.parse("αβ")), (1.0, -1.0), (0.25, 0.75))
    n, tokens = 200_000, 5
    batch = task.sample(n, 1, alphabet=tokens)
    share = (batch.template == 0).mean()
    assert abs(share - 0.25) < 5 * math.sqrt(0.25 * 0.75 / n)
    pairs = batch.tokens[batch.template == 1]
    counts = np.zeros((tokens, tokens))
    np.add.at(counts, (pairs[:, 0], pairs[:, 1]), 1)
    assert (np.diag(counts) == 0).all()
    expected = len(pairs) / (tokens * (tokens - 1))
    off = counts[~np.eye(tokens, dtype=bool)]
    assert (abs(off - expected) < 5 * math.sqrt(expected)).all()


@given(st.integers(0, 4), st.integers(4, 7), st.integers(0, 1000))
@settings(max_examples=20)
def test_distinct_draws_are_distinct_and_in_range(count: int, size: int, seed: int) -> None:
    drawn = distinct_draws(50, count, size, np.random.default_rng(seed))
    assert drawn.shape == (50, count)
    assert all(len(set(row)) == count for row in drawn.tolist())
    assert drawn.size == 0 or (drawn.min() >= 0 and drawn.max() < size)


def test_every_ordered_choice_is_equally_likely() -> None:
    drawn = distinct_draws(60_000, 3, 4, np.random.default_rng(0))
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(counts) == 24
    assert (abs(counts - 2500) < 5 * 50).all()


@pytest.mark.parametrize("tokens", [2, 3, 7])
def test_diversity_is_one_over_the_chance_of_a_token(tokens: int) -> None:
    task = TemplateTask((Template.parse("αα"), Template.parse("αβ")), (1.0, -1.0))
    chances = []
    for template in task.templates:  # Def. 3.3 by enumeration of all injective maps
        maps = list(itertools.permutations(range(tokens), len(template.wildcards)))
        chances += [sum(t in image for image in maps) / len(maps) for t in range(tokens)]
    assert task.diversity(tokens) == pytest.approx(1 / max(chances), rel=1e-12)


def test_noise_has_its_standard_deviation() -> None:
    task = TemplateTask(same_different().templates, (1.0, -1.0), noise=0.5)
    batch = task.sample(40_000, 0)
    residual = batch.labels - np.where(batch.template == 0, 1.0, -1.0)
    assert abs(residual.std() - 0.5) < 5 * 0.5 / math.sqrt(2 * 40_000)


def test_split_uses_disjoint_alphabets() -> None:
    task = aba_abb().with_cls()
    split = task.split(300, 1)
    seen = [set(part.tokens[:, :-1].ravel().tolist()) for part in (split.train, split.validation, split.test)]
    assert not seen[0] & seen[1]
    assert not seen[0] & seen[2]
    assert not seen[1] & seen[2]
    assert len(split.train.labels) == 300
    assert len(split.test.labels) == 100
    assert (split.train.tokens[:, -1] == task.vocabulary.index(CLS)).all()


def test_same_seed_same_samples() -> None:
    one, two = majority(5).sample(50, 9), majority(5).sample(50, 9)
    assert (one.tokens == two.tokens).all()
    assert (one.labels == two.labels).all()


def test_one_per_template_shares_no_wildcard_token() -> None:
    task = majority(4).with_cls()
    rows = task.one_per_template()
    more = task.one_per_template(first=len(rows) * task.wildcard_count)
    for row, template in zip(rows, task.templates, strict=True):
        assert equality_pattern(row.tolist()) == template.pattern
    used = [set(row[:-1].tolist()) for row in np.concatenate([rows, more])]
    assert all(not a & b for a, b in itertools.combinations(used, 2))


def test_a_million_strings_in_seconds() -> None:
    started = time.process_time()
    batch = majority(5).sample(1_000_000, 0, alphabet=1000)
    assert time.process_time() - started < 5
    assert batch.tokens.shape == (1_000_000, 5)


def test_copying_labels_are_the_string() -> None:
    batch = copying().sample(20, 0)
    assert (batch.labels == batch.tokens[:, 0]).all()


def make(*strings: str, labels: tuple[object, ...] | None = None, **more: object) -> TemplateTask:
    rows = tuple(Template.parse(s) for s in strings)
    return TemplateTask(rows, labels or tuple(float(i) for i in range(len(rows))), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: make("αβ", "βα"), r"αβ and βα are not disjoint: the string \w+ matches both"),
        (lambda: make("αβS", "αβγ"), "αβS and αβγ are not disjoint: the string ABS matches both"),
        (lambda: make("αα", "αα"), "not disjoint"),
        (lambda: make("αα", "αβγ"), "αα has 2 symbols and αβγ has 3"),
        (lambda: make(), "at least one template; got none"),
        (lambda: make("αα", "αβ", labels=(1.0, "α")), "all numbers"),
        (lambda: make("αα", "αβ", labels=("α", "γ")), "Label γ of αβ is a wildcard that does not occur"),
        (lambda: make("αα", "αβ", labels=(1.0, math.nan)), "must be a symbol, or a number"),
        (lambda: make("αα", "αβ", labels=(1.0,)), "2 templates and 1 labels"),
        (lambda: make("αα", "αβ", weights=(1.0, 1.0)), "they sum to 2"),
        (lambda: make("αα", "αβ", weights=(0.0, 1.0)), "at least 1e-12 of the total; got 0.0"),
        (lambda: make("αα", "αβ", noise=-1.0), "noise must be at least 0"),
        (lambda: make("α", labels=("α",), noise=1.0), "noise is for regression"),
        (lambda: same_different().sample(5, 0, alphabet=1), "αβ has 2 and the alphabet 1"),
        (lambda: same_different().with_cls().sample(5, 0, alphabet=range(9)), "must begin at token 1 or later"),
        (lambda: same_different().with_cls().with_cls(), "already"),
        (lambda: same_different().sample(0, 0), "n must be at least 1"),
        (lambda: same_different().split(0, 1), "n must be a whole number of at least 1; got 0"),
        (lambda: same_different().split(4, 1, held_out=0), "held_out must be a whole number of at least 1; got 0"),
        (lambda: Template(()), "at least one symbol"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(build: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        build()  # type: ignore[operator]


def test_a_split_is_shown_in_a_few_words():
    shown = repr(same_different().split(500, 1))
    assert len(shown) < 300
    assert "500 samples of same/different: t" in shown
