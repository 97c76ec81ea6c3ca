"""Held-out results: folds, the choice of time, baselines against scipy and by hand, and the noise floor."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import binomtest, chi2_contingency

from foretrain.data.tokens import TokenTexts
from foretrain.forecast.clustered_errors import mean_and_error, share_interval
from foretrain.forecast.corpora import baselines, heldout
from foretrain.forecast.corpora.heldout import HeldOut, Split
from foretrain.forecast.corpora.scores import TrainingSet, architectures, targets


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 2)), min_size=3, max_size=120))
def test_folds_cover_every_row_once_and_keep_equal_texts_together(rows: list[tuple[int, int]]) -> None:
    words, labels = [[f"w{k}"] for k, _ in rows], np.array([label for _, label in rows])
    folds = heldout.split(words, labels)
    assert folds.rows.tolist() == list(range(len(rows)))
    held = np.concatenate([part for _, part in folds.parts()])
    assert sorted(held.tolist()) == list(range(len(rows)))
    for word in {k for k, _ in rows}:
        assert len({int(folds.fold[i]) for i, (k, _) in enumerate(rows) if k == word}) == 1


def test_folds_have_equal_shares_of_the_classes_and_a_limit() -> None:
    labels = np.array([0] * 300 + [1] * 60)
    folds = heldout.split([[str(k)] for k in range(360)], labels)
    shares = [labels[folds.rows[part]].mean() for _, part in folds.parts()]
    assert max(shares) - min(shares) < 0.02
    assert len(heldout.split([[str(k)] for k in range(360)], labels, most=100).rows) == 100


def test_the_time_of_a_fold_is_chosen_on_the_others() -> None:
    """Setting 0 is best on fold 0 only, setting 1 on folds 1 and 2: fold 0 is judged at 1, and so are the others."""
    target, fold = np.ones(6), np.array([0, 0, 1, 1, 2, 2])
    logits = np.zeros((2, 6, 1))
    logits[0, :, 0] = [9, 9, -1, -1, -1, -1]
    logits[1, :, 0] = [1, 1, 2, 2, 2, 2]
    curve = HeldOut.of(np.array([1.0, 2.0]), logits, target, Split(np.arange(6), fold, np.arange(6)))
    assert curve.logits[:, 0].tolist() == [1, 1, 2, 2, 2, 2]
    assert (curve.best, curve.setting, curve.accuracy) == (1, 2.0, 1.0)
    alone = HeldOut.of(np.array([1.0]), -logits[1:], target, Split(np.arange(6), fold, np.arange(6)))
    assert alone.accuracy == 0
    assert alone.interval[0] == pytest.approx(0, abs=1e-12)
    assert 0 < alone.interval[1] < 1


def made_up(count: int, seed: int, strength: float) -> tuple[TokenTexts, np.ndarray]:
    """Six tokens of ten per text; token 0 is more frequent in class 1, by `strength`."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, count)
    rows = draw.integers(1, 10, (count, 6))
    marked = draw.random(count) < np.where(labels == 1, 0.5 + strength / 2, 0.5 - strength / 2)
    rows[marked, 0] = 0
    return TokenTexts.of_rows(rows, 11), labels


def three_folds(group: np.ndarray) -> Split:
    return Split(np.arange(len(group)), group % 3, group)


def curve_of(texts: TokenTexts, labels: np.ndarray) -> HeldOut:
    folds = heldout.split([[*map(str, texts[i]), str(i)] for i in range(len(texts))], labels)
    kind = {"m": architectures(2)["MLP tanh"]}
    return heldout.learning_curves(kind, TrainingSet(texts, labels, 2), folds)["m"]


def test_a_marked_corpus_is_learned_up_to_what_the_mark_allows() -> None:
    texts, labels = made_up(1500, 0, 0.6)
    curve = curve_of(texts, labels)
    assert curve.accuracy == pytest.approx(0.8, abs=0.03)
    assert curve.interval[0] < 0.8 < curve.interval[1] + 0.01
    assert curve.loss.mean(axis=1)[curve.best] == curve.loss.mean(axis=1).min()
    assert heldout.signal(curve, labels, 2).exists


@pytest.mark.parametrize("seed", range(5))
def test_random_labels_have_no_signal(seed: int) -> None:
    texts, labels = made_up(400, seed, 0.0)
    curve = curve_of(texts, labels)
    signal = heldout.signal(curve, labels, 2)
    assert not signal.exists
    assert curve.accuracy <= signal.floor + 0.03
    assert 0.45 < signal.floor < 0.6


def test_the_chance_of_random_labels_is_what_it_says() -> None:
    """One in ten random labellings has a chance of at most 10 %, though rows were predicted from each other."""
    chances = []
    for seed in range(60):
        texts, labels = made_up(90, 100 + seed, 0.0)
        chances.append(heldout.signal(curve_of(texts, labels), labels, 2).chance)
    assert 0.01 < np.mean(np.array(chances) <= 0.1) < 0.25


def test_the_noise_floor_is_that_of_shuffled_labels() -> None:
    """With guesses independent of balanced labels, 95 % of shuffles are below 1/2 + 1.64·√(1/4n), nearly."""
    draw = np.random.default_rng(0)
    labels = np.repeat([0, 1], 200)
    logits = draw.standard_normal((1, 400, 1))
    curve = HeldOut.of(np.array([1.0]), logits, targets(labels, 2), three_folds(np.arange(400)))
    signal = heldout.signal(curve, labels, 2)
    assert signal.floor == pytest.approx(0.5 + 1.645 * np.sqrt(0.25 / 399), abs=0.01)
    assert signal.largest_class == 0.5
    sure = (2.0 * labels - 1)[None, :, None]
    perfect = HeldOut.of(np.array([1.0]), sure, targets(labels, 2), three_folds(np.arange(400)))
    assert heldout.signal(perfect, labels, 2).chance == pytest.approx(0.001)


def test_copies_of_random_texts_have_no_signal_and_an_honest_interval() -> None:
    """Random labels on 40 texts with ten copies each; if rows are taken for independent, signal is seen most times."""
    draw = np.random.default_rng(0)
    found, covers = 0, 0
    for _ in range(40):
        labels, logits = np.repeat(draw.integers(0, 2, 40), 10), np.repeat(draw.standard_normal(40), 10)
        group = np.repeat(draw.permutation(40), 10)
        curve = HeldOut.of(np.array([1.0]), logits[None, :, None], targets(labels, 2), three_folds(group))
        low, high = curve.interval
        found += heldout.signal(curve, labels, 2).exists
        covers += low < 0.5 < high
    assert found <= 1
    assert covers >= 34


def test_a_text_counts_once_however_many_copies_it_has() -> None:
    draw = np.random.default_rng(1)
    labels = draw.integers(0, 3, 60)
    logits = draw.standard_normal((60, 3)) + np.eye(3)[labels]
    whole = []
    for copies in (1, 5):
        group, own = np.repeat(np.arange(60), copies), np.repeat(labels, copies)
        repeated = np.repeat(logits, copies, axis=0)[None]
        curve = HeldOut.of(np.array([1.0]), repeated, targets(own, 3), three_folds(group))
        whole.append((*curve.interval, heldout.signal(curve, own, 3)))
    assert whole[1][:2] == pytest.approx(whole[0][:2])
    assert whole[1][2].chance == whole[0][2].chance
    assert whole[1][2].floor == pytest.approx(whole[0][2].floor)


@given(st.integers(0, 30), st.integers(1, 30))
def test_without_copies_the_interval_is_wilsons(right: int, wrong: int) -> None:
    rows = right + wrong
    expected = binomtest(right, rows).proportion_ci(method="wilson")
    found = share_interval(np.arange(rows) < right, np.arange(rows))
    assert found == pytest.approx((expected.low, expected.high), abs=1e-4)


@given(st.lists(st.tuples(st.floats(-1, 1), st.integers(1, 5)), min_size=2, max_size=20))
def test_the_error_of_a_mean_is_that_of_different_texts(texts: list[tuple[float, int]]) -> None:
    values, copies = np.array([value for value, _ in texts]), np.array([number for _, number in texts])
    group = np.arange(len(texts))
    mean, error = mean_and_error(values, group)
    assert mean == pytest.approx(values.mean(), abs=1e-12)
    assert error == pytest.approx(1.96 * values.std() / np.sqrt(len(values)), abs=1e-4)
    repeated = mean_and_error(np.repeat(values, 3), np.repeat(group, 3))
    assert repeated == pytest.approx((mean, error), abs=1e-12)
    uneven, spread = mean_and_error(np.repeat(values, copies), np.repeat(group, copies))
    by_text = copies * (values - uneven) / copies.sum()
    assert spread == pytest.approx(1.96 * np.sqrt((by_text**2).sum()), abs=1e-4)


@given(st.integers(1, 60), st.integers(0, 60), st.integers(1, 60), st.integers(0, 60))
def test_signed_chi2_is_scipys(with_first: int, with_second: int, rest_first: int, rest_second: int) -> None:
    sizes = np.array([with_first + rest_first, with_second + rest_second + 1], dtype=float)
    lean = baselines.Lean(np.array([[with_first, with_second]], dtype=float), sizes)
    table = [[with_first, with_second], [rest_first, rest_second + 1]]
    expected = chi2_contingency(table, correction=False).statistic
    got = baselines.signed_chi2(lean).weights[0, 0]
    assert abs(got) == pytest.approx(expected, abs=1e-8)
    assert np.sign(got) == np.sign(with_second * sizes[0] - with_first * sizes[1]) or abs(got) < 1e-8


def test_log_odds_add_up_to_naive_bayes() -> None:
    counts = sparse.csr_array(np.array([[1, 0], [1, 0], [1, 0], [0, 1]]))
    lean = baselines.leaning(counts, np.array([1, 1, 0, 0]), 2)
    model = baselines.log_odds(lean)
    assert model.weights[0, 0] == pytest.approx(np.log(2.5 / 1.5))  # two texts against one, and half a text each
    assert model.weights[1, 0] == pytest.approx(np.log(0.5 / 1.5))
    assert model.constant[0] == 0


@pytest.mark.parametrize("classes", [2, 3])
def test_logistic_regression_is_at_its_minimum(classes: int) -> None:
    """The gradient is 0 there, by differences of the loss; a larger penalty gives smaller weights."""
    draw = np.random.default_rng(0)
    counts = sparse.csr_array(draw.poisson(0.5, (80, 6)).astype(float))
    target = targets(draw.integers(0, classes, 80), classes)
    model = baselines.logistic_regression(counts, target, 2.0)

    def objective(weights: np.ndarray, constant: np.ndarray) -> float:
        total = baselines.losses(baselines.Linear(weights, constant).logits(counts), target).sum()
        return float(total + (weights**2).sum())

    at = objective(model.weights, model.constant)
    for _ in range(10):
        step = 1e-3 * draw.standard_normal(model.weights.shape), 1e-3 * draw.standard_normal(model.constant.shape)
        assert objective(model.weights + step[0], model.constant + step[1]) > at - 1e-7
    assert np.abs(baselines.logistic_regression(counts, target, 20.0).weights).max() < np.abs(model.weights).max()
