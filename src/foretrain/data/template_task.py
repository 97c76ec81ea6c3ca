"""Template tasks (Abstract symbols, section 2 and appendix J): labelled strings made by filling in wildcards."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray as Array

from foretrain.core.errors import require, require_at_least, require_whole
from foretrain.data.template import GREEK, Template, equality_pattern, spelled
from foretrain.data.template_checks import require_task

__all__ = ["CLS", "GREEK", "Template", "TemplateBatch", "TemplateSplit", "TemplateTask", "equality_pattern", "spelled"]

CLS = "[CLS]"


@dataclass(frozen=True)
class TemplateBatch:
    """Samples as token numbers: the task's own tokens come first (`task.vocabulary`), then those of the alphabets."""

    task: TemplateTask
    tokens: Int[Array, "sample position"]
    template: Int[Array, "sample"]
    substitution: Int[Array, "sample wildcard"]  # -1 where the template has fewer wildcards
    labels: Float[Array, "sample"] | Int[Array, "sample"]

    def strings(self, count: int | None = None) -> list[str]:
        """The first `count` samples as text; tokens of the alphabets are written t0, t1, …"""
        names = self.task.vocabulary
        return [
            spelled([names[t] if t < len(names) else f"t{t - len(names)}" for t in row])
            for row in self.tokens[:count].tolist()
        ]

    def __repr__(self) -> str:
        more = ", …" if len(self.tokens) > 2 else ""
        return f"TemplateBatch({len(self.tokens)} samples of {self.task.name}: {', '.join(self.strings(2))}{more})"


@dataclass(frozen=True)
class TemplateSplit:
    """Train, validation and test samples whose wildcards are filled from disjoint alphabets."""

    train: TemplateBatch
    validation: TemplateBatch
    test: TemplateBatch


@dataclass(frozen=True)
class TemplateTask:
    """Def. 2.2 and J.1: disjoint templates with labels, their weights μ, and label noise σ.

    Labels are all numbers (regression) or all symbols (next token: a wildcard of the template, or a token).
    Wildcards are filled by a uniformly drawn injective map into an alphabet that holds no token of the task.
    """

    templates: tuple[Template, ...]
    labels: tuple[float, ...] | tuple[str, ...]
    weights: tuple[float, ...] = ()
    noise: float = 0.0
    name: str = "task"

    def __post_init__(self) -> None:
        if not self.weights:
            object.__setattr__(self, "weights", (1 / max(1, len(self.templates)),) * len(self.templates))
        require_task(self.templates, self.labels, self.weights, self.noise)

    @property
    def kind(self) -> str:
        """Either "regression" or "next-token"."""
        return "next-token" if isinstance(self.labels[0], str) else "regression"

    @property
    def length(self) -> int:
        """How many positions a string has."""
        return len(self.templates[0])

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """Every regular token of templates and labels (the set ℛ), numbered from 0."""
        tokens = [token for template in self.templates for token in template.tokens]
        wild = self.templates[0].wildcard_names
        tokens += [label for label in self.labels if isinstance(label, str) and label not in wild]
        return tuple(dict.fromkeys(tokens))

    @property
    def wildcard_count(self) -> int:
        """The largest number of wildcards in one template."""
        return max(len(template.wildcards) for template in self.templates)

    def diversity(self, alphabet: int) -> float:
        """Def. 3.3: ρ = min over templates and tokens of 1/P[the token is substituted].

        A map drawn uniformly into m tokens hits a given one with probability (wildcards of the template)/m;
        ρ is infinite if no template has a wildcard.
        """
        self._require_alphabet(alphabet)
        return alphabet / self.wildcard_count if self.wildcard_count else math.inf

    def with_cls(self) -> TemplateTask:
        """The same task with a [CLS] token at the end of every template (Theorem 3.4)."""
        require(CLS not in self.vocabulary, f"The templates already contain {CLS}.")
        return self._with_templates(tuple(Template((*t.symbols, CLS), t.wildcard_names) for t in self.templates))

    def sample(
        self, n: int, generator: np.random.Generator | int, *, alphabet: int | range | None = None
    ) -> TemplateBatch:
        """Draw n labelled strings. `generator` may be a seed.

        alphabet  how many tokens to fill wildcards with (numbered after the vocabulary), or a range of token
                  numbers; by default as many tokens as samples, as in the paper's experiments
        """
        require_at_least("n", n, 1)
        tokens = self.alphabet(n if alphabet is None else alphabet)
        draw = np.random.default_rng(generator)
        filled = tokens.start + distinct_draws(n, self.wildcard_count, len(tokens), draw)
        return self._batch(filled, draw)

    def sample_apart(self, n: int, generator: np.random.Generator | int) -> TemplateBatch:
        """n labelled strings, no two of which share a substituted token: the limit of infinite diversity ρ."""
        require_at_least("n", n, 1)
        filled = len(self.vocabulary) + np.arange(n * self.wildcard_count).reshape(n, self.wildcard_count)
        return self._batch(filled, np.random.default_rng(generator))

    def _batch(self, filled: Int[Array, "sample wildcard"], draw: np.random.Generator) -> TemplateBatch:
        n = len(filled)
        template = draw.choice(len(self.templates), size=n, p=np.asarray(self.weights))
        labels = self._labels(template, filled)
        if self.noise:
            labels = labels + self.noise * draw.standard_normal(n)
        width = np.array([len(t.wildcards) for t in self.templates])
        substitution = np.where(np.arange(self.wildcard_count) < width[template][:, None], filled, -1)
        return TemplateBatch(self, self._fill(self._codes[template], filled), template, substitution, labels)

    def split(
        self,
        n: int,
        generator: np.random.Generator | int,
        *,
        alphabet: int | None = None,
        held_out: int = 100,
        held_out_alphabet: int = 100,
    ) -> TemplateSplit:
        """n training samples, and `held_out` each for validation and test, over three disjoint alphabets."""
        require_whole("n", n, 1)
        require_whole("held_out", held_out, 1)
        draw = np.random.default_rng(generator)
        train = self.alphabet(n if alphabet is None else alphabet)
        held_out_alphabet = max(held_out_alphabet, self.wildcard_count)
        validation = range(train.stop, train.stop + held_out_alphabet)
        test = range(validation.stop, validation.stop + held_out_alphabet)
        return TemplateSplit(
            self.sample(n, draw, alphabet=train),
            self.sample(held_out, draw, alphabet=validation),
            self.sample(held_out, draw, alphabet=test),
        )

    def one_per_template(self, first: int = 0) -> Int[Array, "template position"]:
        """One string per template, none sharing a substituted token; these are numbered from the `first`-th on."""
        count = self.wildcard_count
        start = len(self.vocabulary) + first
        filled = start + np.arange(len(self.templates) * count).reshape(len(self.templates), count)
        return self._fill(self._codes, filled)

    def alphabet(self, tokens: int | range) -> range:
        """The token numbers of an alphabet of this size (at least one token per wildcard), or the checked range."""
        first = len(self.vocabulary)
        if isinstance(tokens, int):
            self._require_alphabet(tokens)
            return range(first, first + tokens)
        require(
            tokens.start >= first and tokens.step == 1,
            f"An alphabet must begin at token {first} or later, after the task's own tokens; got {tokens}.",
        )
        self._require_alphabet(len(tokens))
        return tokens

    @cached_property
    def _codes(self) -> Int[Array, "template position"]:
        """Templates as numbers: tokens as their number, the w-th wildcard of a template as −1−w."""
        number = {token: index for index, token in enumerate(self.vocabulary)}
        rows = []
        for template in self.templates:
            wild = {name: -1 - index for index, name in enumerate(template.wildcards)}
            rows.append([wild[s] if s in wild else number[s] for s in template.symbols])
        return np.array(rows, dtype=np.int64)

    @staticmethod
    def _fill(
        codes: Int[Array, "sample position"], filled: Int[Array, "sample wildcard"]
    ) -> Int[Array, "sample position"]:
        if filled.shape[1] == 0:
            return codes.copy()
        return np.where(codes < 0, np.take_along_axis(filled, np.maximum(-1 - codes, 0), axis=1), codes)

    def _labels(
        self, template: Int[Array, "sample"], filled: Int[Array, "sample wildcard"]
    ) -> Float[Array, "sample"] | Int[Array, "sample"]:
        if self.kind == "regression":
            return np.asarray(self.labels, dtype=np.float64)[template]
        codes = []
        for z, label in zip(self.templates, self.labels, strict=True):
            wild = z.wildcards
            codes.append(-1 - wild.index(str(label)) if label in wild else self.vocabulary.index(str(label)))
        return self._fill(np.array(codes, dtype=np.int64)[template][:, None], filled)[:, 0]

    def _with_templates(self, templates: tuple[Template, ...]) -> TemplateTask:
        return TemplateTask(templates, self.labels, self.weights, self.noise, self.name)

    def _require_alphabet(self, tokens: int) -> None:
        most = max(self.templates, key=lambda template: len(template.wildcards))
        require(
            tokens >= max(1, len(most.wildcards)),
            f"An alphabet must have at least as many tokens as a template has wildcards; {most} has "
            f"{len(most.wildcards)} and the alphabet {tokens}.",
        )


def distinct_draws(n: int, count: int, size: int, draw: np.random.Generator) -> Int[Array, "sample count"]:
    """n rows of `count` different numbers below `size`, every ordered choice equally likely, without rejection.

    The j-th number is drawn among the size − j that are left, then moved past the ones taken before it.
    """
    taken: list[Int[Array, "sample"]] = []  # the numbers drawn so far, sorted within each row
    drawn = np.empty((count, n), dtype=np.int64)
    for j in range(count):
        value = draw.integers(0, size - j, size=n)
        for earlier in taken:
            value += value >= earlier
        drawn[j] = value
        for place, earlier in enumerate(taken):
            taken[place], value = np.minimum(earlier, value), np.maximum(earlier, value)
        taken.append(value)
    return drawn.T.copy()
