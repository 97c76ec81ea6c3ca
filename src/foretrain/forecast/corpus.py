"""What a text classifier will key on, said before training from the counts of a labelled corpus.

Scores are those of the flow of each architecture's limit kernel: tokens for networks that add up tokens, bigrams for
the matrix-vector model. A score is in logits, for the second of two classes, or one per class where there are more.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray as Array
from scipy import sparse

from foretrain.data.labelled_texts import LabelledTexts
from foretrain.data.tokens import UNKNOWN, WORD, TokenTexts, Vocabulary
from foretrain.errors import require, require_at_least
from foretrain.kernels.tangent import Scales, attention_weights, matrix_vector_weight, mlp_kernel
from foretrain.papers.feature_extraction import theory

# English words that carry no content of their own; a high score on one says more about the corpus than about the text.
_FUNCTION_WORDS = """
a an the and or of to in on at by for from with as is are was were be been am it its it's this that these
those he she they we you i me him her them us my his their our your who whom which what there here do does did
have has had will would can could shall should may might if then than so such into over under about up out
also when where
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
LEANS = 2.0  # standard errors from which on an item is taken to lean to a class
SIGNIFICANT = 3.0  # standard errors from which on a bigram is taken to differ from the sum of its parts
IMBALANCE = 0.05  # a class that is so much larger or smaller than an equal share makes the corpus imbalanced
STABLE_STEPS = 40  # length of the flow, in the time the fastest direction of the counts needs


@dataclass(frozen=True)
class Lean:
    """How items (tokens or bigrams) lean to classes, beyond what the class sizes alone would give."""

    by_class: Float[Array, "item class"]  # occurrences
    log_odds: Float[Array, "item class"]  # against all other classes, less that of the whole corpus
    z: Float[Array, "item class"]  # standard errors of the share from that of the whole corpus

    @classmethod
    def of(cls, by_class: Float[Array, "item class"], totals: Float[Array, "class"]) -> Lean:
        share = totals / totals.sum()
        count = by_class.sum(axis=1, keepdims=True)
        base = np.log(share / (1 - share))
        odds = np.log((by_class + share) / (count - by_class + 1 - share)) - base
        z = (by_class - count * share) / np.sqrt(np.maximum(count, 1) * share * (1 - share))
        return cls(by_class, odds, z)


@dataclass(frozen=True)
class CorpusForecast:
    """Everything `foretrain forecast corpus` tells. Scores are [item, output]; outputs are named by `outputs`."""

    classes: tuple[str, ...]
    class_counts: Int[Array, "class"]
    outputs: tuple[str, ...]
    tokens: tuple[str, ...]
    occurrences: Int[Array, "token"]
    cooccurrence: Float[Array, "token output"]
    scores: dict[str, Float[Array, "token output"]]  # by architecture
    bias: dict[str, Float[Array, "output"]]  # score of a token never seen
    bigrams: tuple[str, ...]
    bigram_occurrences: Int[Array, "bigram"]
    bigram_scores: Float[Array, "bigram output"]  # of the matrix-vector model
    from_imbalance: Bool[Array, "token"]
    spurious: dict[str, str]  # token -> why
    contradictions: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]

    def top(
        self, scores: Float[Array, "item output"], names: Sequence[str], n: int
    ) -> dict[str, list[tuple[str, float]]]:
        """The n items of highest score for every class."""
        columns = np.column_stack([-scores[:, 0], scores[:, 0]]) if len(self.outputs) == 1 else scores
        best = np.argsort(-columns, axis=0, kind="stable")[:n]
        return {name: [(names[i], float(columns[i, k])) for i in best[:, k]] for k, name in enumerate(self.classes)}


def forecast_corpus(
    corpus: LabelledTexts, *, scales: Scales | None = None, least: int = 5, most: int = 30_000
) -> CorpusForecast:
    """The forecast, over tokens and bigrams that occur at least `least` times, `most` of each at the most."""
    require_at_least("least", least, 1)
    present = corpus.class_counts
    missing = [name for name, count in zip(corpus.classes, present, strict=True) if count == 0]
    require(not missing, f"No text has the label {', '.join(missing)}; a forecast needs texts of every class.")
    scales = scales or Scales(0.1, 0.1, 0.1, 0.1)
    cut, capital = _cut(corpus.texts)
    vocabulary = Vocabulary.of(cut, least=min(least, _most_common(cut)), most=most)
    texts = vocabulary.encode(cut)
    target = _target(corpus)
    counts = sparse.csr_array(texts.counts, dtype=np.float64)
    scores, bias = _token_scores(counts, target, scales)
    known = len(vocabulary) - 1  # the last stands for rare tokens
    tokens = vocabulary.tokens[:known]
    by_class = np.asarray(counts.T @ np.eye(len(corpus.classes))[corpus.labels])[:known]
    lean = Lean.of(by_class, by_class.sum(axis=0))
    grams, gram_counts, gram_lean = _bigrams(texts, corpus, least, most, known)
    names = tuple(f"{tokens[a]} {tokens[b]}" for a, b in grams)
    strong = _strong({name: values[:known] for name, values in scores.items()})
    return CorpusForecast(
        classes=corpus.classes,
        class_counts=present,
        outputs=corpus.classes[1:] if len(corpus.classes) == 2 else corpus.classes,
        tokens=tokens,
        occurrences=by_class.sum(axis=1).astype(np.int64),
        cooccurrence=_difference(by_class),
        scores={name: values[:known] for name, values in scores.items()},
        bias=bias,
        bigrams=names,
        bigram_occurrences=gram_lean.by_class.sum(axis=1).astype(np.int64),
        bigram_scores=_flow(gram_counts, target, matrix_vector_weight(scales), 0.0) if names else np.zeros((0, 1)),
        from_imbalance=strong & _imbalanced(lean),
        spurious=_spurious(tokens, strong, lean, capital),
        contradictions=tuple(_contradictions(names, grams, lean, gram_lean, corpus.classes)),
        notes=corpus.notes,
    )


def _cut(texts: Sequence[str]) -> tuple[list[list[str]], Counter[str]]:
    """Texts as lower-case tokens, and how often each token began with a capital inside a sentence."""
    cut, capital = [], Counter[str]()
    inside = re.compile(r"(?<=[a-z,;] )[A-Z]\w+(?:['’]\w+)*")
    for text in texts:
        cut.append(WORD.findall(text.lower()))
        capital.update(inside.findall(text))
    lower: Counter[str] = Counter()
    for token, count in capital.items():
        lower[token.lower()] += count
    return cut, lower


def _most_common(cut: Sequence[Sequence[str]]) -> int:
    """How often the most frequent token occurs: a file too small for `least` is read with a lower one."""
    counted = Counter(token for text in cut[:1000] for token in text if token != UNKNOWN)
    require(bool(counted), "No text holds a token; check the text column.")
    return max(counted.values())


def _target(corpus: LabelledTexts) -> Array:
    """±1 for two classes, one-hot rows for more."""
    return 2.0 * corpus.labels - 1 if len(corpus.classes) == 2 else np.eye(len(corpus.classes))[corpus.labels]


def _difference(by_class: Float[Array, "item class"]) -> Float[Array, "item output"]:
    """ω: occurrences with the second class less those with the first; of more classes, those beyond an equal share."""
    if by_class.shape[1] == 2:
        return by_class[:, 1:] - by_class[:, :1]
    return by_class - by_class.mean(axis=1, keepdims=True)


def _token_scores(counts: sparse.csr_array, target: Array, scales: Scales) -> tuple[dict[str, Array], dict[str, Array]]:
    """Scores of every token, and of a token never seen, by architecture."""
    kinds: dict[str, tuple[sparse.csr_array, float, float]] = {}
    for name, activation in (("MLP ReLU", "relu"), ("MLP GeLU", "gelu"), ("MLP tanh", "tanh")):
        kernel = mlp_kernel(activation, scales)
        kinds[name] = counts, kernel.own, kernel.shared
    attended = attention_weights(counts, scales)
    kinds["self-attention"] = attended, scales.embedding**2 + scales.readout**2, 0.0
    scores, bias = {}, {}
    for name, (features, own, shared) in kinds.items():
        never = sparse.csr_array((features.shape[0], 1))
        whole = _flow(sparse.csr_array(sparse.hstack([features, never])), target, own, shared)
        scores[name], bias[name] = whole[:-1], whole[-1]
    return scores, bias


def _flow(features: sparse.csr_array, target: Array, own: float, shared: float) -> Float[Array, "item output"]:
    """Scores along the flow of the kernel; its time is set without the shared part, so that all see equally much."""
    time = STABLE_STEPS / theory.fastest(features, own=own, shared=0.0)
    scores = theory.label_scores(features, target, own=own, shared=shared, time=time)
    return scores if scores.ndim == 2 else scores[:, None]


def _bigrams(
    texts: TokenTexts, corpus: LabelledTexts, least: int, most: int, known: int
) -> tuple[Int[Array, "bigram 2"], sparse.csr_array, Lean]:
    """Frequent bigrams of known tokens, their counts per text, and how they lean."""
    grams, counts = texts.ngrams(2)
    total = np.asarray(counts.sum(axis=0))
    frequent = np.flatnonzero((total >= least) & (grams < known).all(axis=1))
    kept = frequent[np.argsort(-total[frequent], kind="stable")[:most]]
    table = sparse.csr_array(counts[:, kept], dtype=np.float64)
    hot = np.eye(len(corpus.classes))[corpus.labels]
    everything = np.bincount(corpus.labels, weights=np.maximum(texts.lengths - 1, 0), minlength=len(corpus.classes))
    return grams[kept], table, Lean.of(np.asarray(table.T @ hot), np.maximum(everything, 1.0))


def _strong(scores: dict[str, Float[Array, "token output"]]) -> Bool[Array, "token"]:
    """Tokens of largest score in any architecture: a tenth of all, but at least thirty and at most five hundred."""
    strong = np.zeros(len(next(iter(scores.values()))), dtype=bool)
    count = min(500, max(30, len(strong) // 10))
    for values in scores.values():
        strong[np.argsort(-np.abs(values).max(axis=1), kind="stable")[:count]] = True
    return strong


def _imbalanced(lean: Lean) -> Bool[Array, "token"]:
    """Tokens that lean to no class, so that what the classes' sizes give makes up most of their co-occurrence."""
    totals = lean.by_class.sum(axis=0)
    excess = totals / totals.sum() - 1 / len(totals)
    if np.abs(excess).max() < IMBALANCE:
        return np.zeros(len(lean.z), dtype=bool)
    from_sizes = lean.by_class.sum(axis=1, keepdims=True) * excess
    whole = lean.by_class - lean.by_class.mean(axis=1, keepdims=True)
    largest = np.arange(len(whole)), np.abs(whole).argmax(axis=1)
    return (np.abs(lean.z).max(axis=1) < LEANS) & (from_sizes[largest] / whole[largest] > 0.5)


def _spurious(tokens: Sequence[str], strong: Bool[Array, "token"], lean: Lean, capital: Counter[str]) -> dict[str, str]:
    """Strong tokens without content: markup, signs, numbers, function words, names."""
    found = {}
    counts = lean.by_class.sum(axis=1)
    kinds: tuple[tuple[str, Callable[[str, float], bool]], ...] = (
        ("markup", lambda token, _: token.startswith("<")),
        ("sign", lambda token, _: not any(c.isalnum() for c in token)),
        ("number", lambda token, _: token.isdigit()),
        ("function word", lambda token, _: token in FUNCTION_WORDS),
        ("name", lambda token, count: capital[token] >= 0.6 * count and len(token) > 1),
    )
    for i in np.flatnonzero(strong).tolist():
        for why, applies in kinds:
            if applies(tokens[i], counts[i]):
                found[tokens[i]] = why
                break
    return found


def _contradictions(
    names: Sequence[str], grams: Int[Array, "bigram 2"], lean: Lean, gram_lean: Lean, classes: Sequence[str]
) -> list[dict[str, Any]]:
    """Bigrams that lean against the sum of their parts: an additive network gives them the wrong sign."""
    if not len(names):
        return []
    parts = lean.log_odds[grams[:, 0]] + lean.log_odds[grams[:, 1]]
    against = (np.sign(parts) != np.sign(gram_lean.log_odds)) & (np.abs(parts) > 0.1)
    against &= np.abs(gram_lean.z) >= LEANS
    totals = gram_lean.by_class.sum(axis=0)
    share = totals / totals.sum()
    error = 1 / np.sqrt(np.maximum(gram_lean.by_class.sum(axis=1, keepdims=True), 1) * share * (1 - share))
    against &= np.abs(gram_lean.log_odds - parts) >= SIGNIFICANT * error
    if len(classes) == 2:
        against[:, 0] = False  # the other class says the same with the sign turned
    rows, columns = np.nonzero(against)
    order = np.argsort(-np.abs(gram_lean.z[rows, columns]), kind="stable")
    return [
        {
            "bigram": names[i],
            "class": classes[k],
            "occurrences": int(gram_lean.by_class[i].sum()),
            "log_odds": float(gram_lean.log_odds[i, k]),
            "log_odds_of_parts": float(parts[i, k]),
            "z": float(gram_lean.z[i, k]),
        }
        for i, k in zip(rows[order].tolist(), columns[order].tolist(), strict=True)
    ]
