"""Forecast token and bigram scores against those of trained networks, beside the simplest baselines."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import spearmanr

from foretrain.data.labelled_texts import LabelledTexts
from foretrain.data.tokens import TokenTexts, words
from foretrain.forecast.corpora import baselines, heldout
from foretrain.forecast.corpora.baselines import guesses
from foretrain.forecast.corpora.counting import counted
from foretrain.forecast.corpora.leans import Lean
from foretrain.forecast.corpora.scores import TrainingSet, architectures, scored, set_up
from foretrain.forecast.corpora.training import trained_scores

STRONGEST = 200
WIDTH, EPOCHS, SEEDS = 64, 10, 2
LONGEST = 200  # tokens of a text
NETWORKS_COMPARED = ("MLP ReLU", "CNN ReLU")


def compare(train: LabelledTexts, test: LabelledTexts) -> dict[str, Any]:
    """Rank correlation and overlap of the strongest 200 with trained networks, and test accuracy as a classifier."""
    cut = LabelledTexts(tuple(" ".join(words(t)[:LONGEST]) for t in train.texts), train.labels, train.classes)
    count = counted(cut, window=None, least=5, most=30_000, tokenize=str.split)
    texts, classes = count.texts, len(train.classes)
    further = count.vocabulary.encode([words(t)[:LONGEST] for t in test.texts])
    kinds = {name: architectures(2)[name] for name in NETWORKS_COMPARED}
    folds = heldout.split(count.tokenised, train.labels)
    whole = TrainingSet(texts, train.labels, classes)
    curves = heldout.learning_curves(kinds, whole, folds)
    penalty = heldout.baseline_curves(whole, folds)["logistic regression"].setting
    regression = baselines.logistic_regression(texts.counts, whole.target, penalty)
    lean = baselines.leaning(texts.counts, train.labels, classes)
    token_models = {
        "logistic regression": regression,
        "log-odds": baselines.log_odds(lean),
        "signed χ²": baselines.signed_chi2(lean),
    }
    result: dict[str, Any] = {
        "rows": len(train), "classes": classes, "penalty": penalty,
        "test_accuracy": {k: accuracy(m.logits(further.counts), test.labels) for k, m in token_models.items()},
    }  # fmt: skip
    for name, kind in kinds.items():
        items = count.items[kind.order]
        rows = TokenTexts.of_rows(items.tokens, texts.vocab)
        candidates = {
            "forecast": scored(kind, whole, rows, curves[name].setting).scores,
        }
        for label, model in token_models.items():
            added = " (added up)" if kind.order > 1 else ""
            candidates[label + added] = model.weights[items.tokens].sum(axis=1)
        if kind.order > 1:
            own = Lean(items.lean.texts, items.lean.class_counts)
            candidates["log-odds of the bigram"] = baselines.log_odds(own).weights
            candidates["signed χ² of the bigram"] = baselines.signed_chi2(own).weights
        learned = [
            trained_scores(kind, whole, items.tokens, epochs=EPOCHS, width=WIDTH, seed=seed)
            for seed in range(1, SEEDS + 1)
        ]
        agreement = {}
        for label, values in candidates.items():
            pairs = [agree(scores, values) for scores in learned if scores is not None]
            agreement[label] = {
                "rank_correlation": float(np.mean([p[0] for p in pairs])),
                "overlap": float(np.mean([p[1] for p in pairs])),
            }
        result[name] = {"time": curves[name].setting, "agreement": agreement}
        setup = set_up(kind, whole, further)
        pulls = setup.pulls_after(whole, curves[name].setting)
        result["test_accuracy"][name] = accuracy(setup.cross(pulls), test.labels)
    return result


def accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    return float((guesses(logits) == labels).mean())


def agree(learned: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """Rank correlation and overlap of the strongest, averaged over outputs; relative to the mean over classes."""
    if learned.shape[1] > 1:
        learned, values = (s - s.mean(axis=1, keepdims=True) for s in (learned, values))
    ranks, overlaps = [], []
    for a, b in zip(learned.T, values.T, strict=True):
        ranks.append(float(spearmanr(a, b)[0]))
        count = min(STRONGEST, len(a))
        first, second = (set(np.argsort(-np.abs(s), kind="stable")[:count].tolist()) for s in (a, b))
        overlaps.append(len(first & second) / count)
    return float(np.mean(ranks)), float(np.mean(overlaps))
