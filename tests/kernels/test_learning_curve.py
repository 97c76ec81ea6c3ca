"""The learning curve from r by r matrices against kernel regression itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.kernels.simple import incidence_kernel, product_kernel

from foretrain.core.errors import InputError
from foretrain.data.template_examples import aba_abb, majority, same_different
from foretrain.data.template_task import Template, TemplateTask
from foretrain.kernels.learning_curve import LearningCurve, learning_curve
from foretrain.kernels.regression import ideal_predictions, measured_errors, targets
from foretrain.kernels.sharing import measure_sharing
from foretrain.kernels.template_matrix import template_matrix


def curve(task: TemplateTask, ridge: float = 0.1) -> LearningCurve:
    return LearningCurve(template_matrix(task.with_cls(), incidence_kernel), ridge)


def test_without_shared_tokens_it_is_the_estimator() -> None:
    of = curve(majority(4), 0.2)
    matrix = of.matrix
    wanted = targets(matrix.task)
    found = ideal_predictions(matrix.N, np.full(8, 5.0), wanted, 0.2 + matrix.own - np.diag(matrix.N))
    assert of.loss(np.array([40.0]))[0] == pytest.approx(((found - wanted) ** 2).mean(), rel=1e-10)


@pytest.mark.parametrize("n", [100, 1000])
def test_expected_loss_is_the_mean_over_draws(n: int) -> None:
    of = curve(replace(same_different(), noise=0.5))
    drawn = of.draws(n, draws=4000)
    expected = of.loss(np.array([float(n)]))[0]
    # counts at their means instead of drawn: a relative difference of order 1/n
    assert abs(drawn.mean() - expected) < 5 * drawn.std() / np.sqrt(4000) + 5 * expected / n


def test_draws_spread_as_regression_does() -> None:
    """Samples that share no token: drawn losses and those of real regressions have one distribution."""
    task = replace(same_different(), noise=0.5).with_cls()
    of = LearningCurve(template_matrix(task, incidence_kernel), 0.1)
    real = []
    for seed in range(300):
        train = task.sample_apart(40, seed)
        gram = incidence_kernel(train.tokens, train.tokens) + 0.1 * np.eye(40)
        cross = incidence_kernel(task.one_per_template(first=1000), train.tokens)
        real.append(((cross @ np.linalg.solve(gram, train.labels) - np.array(task.labels)) ** 2).mean())
    drawn = of.draws(40, draws=4000)
    for share in (0.1, 0.5, 0.9):
        below = float((np.array(real) < np.quantile(drawn, share)).mean())
        assert abs(below - share) < 5 * np.sqrt(share * (1 - share) / 300)


def test_error_falls_as_one_over_n_without_noise_and_half_as_fast_with_it() -> None:
    n = np.array([1e5, 1e7])
    for noise, rate in ((0.0, -2), (1.0, -1)):  # of the squared error
        loss = curve(replace(same_different(), noise=noise)).loss(n)
        assert np.log(loss[1] / loss[0]) / np.log(100) == pytest.approx(rate, abs=0.02)


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_samples_needed_is_where_the_loss_stays_within(noise: float) -> None:
    of = curve(replace(aba_abb(), noise=noise))
    n = of.samples_needed(0.01)
    assert (of.loss(n * np.geomspace(1, 1e4, 50)) <= 0.01 * (1 + 1e-9)).all()
    assert of.loss(np.array([0.97 * n]))[0] > 0.01
    assert of.samples_needed(100.0) == 1


@pytest.mark.parametrize(("n", "alphabet"), [(400, 400), (400, 100), (100, 1000)])
def test_shared_tokens_are_foreseen_from_other_sizes(n: int, alphabet: int) -> None:
    task = majority(3).with_cls()
    matrix = template_matrix(task, incidence_kernel)
    shared = measure_sharing(task, incidence_kernel, matrix.N, ridge=0.05, ratios=(n / alphabet,), samples=128, draws=8)
    expected = LearningCurve(matrix, 0.05, shared, alphabet).loss(np.array([float(n)]))[0]
    real = measured_errors(task, incidence_kernel, samples=[n], alphabets=[alphabet], ridge=0.05, seeds=12).loss
    standard = float(real.std()) / np.sqrt(12)
    assert abs(float(real.mean()) - expected) < 4 * standard + 0.05 * expected
    ignored = LearningCurve(matrix, 0.05).loss(np.array([float(n)]))[0]
    if n > alphabet:  # and it matters: as if no token were shared, the error would be missed
        assert abs(float(real.mean()) - ignored) > 4 * standard + 0.05 * expected


def test_a_small_alphabet_leaves_an_error() -> None:
    task = same_different().with_cls()
    matrix = template_matrix(task, incidence_kernel)
    few = learning_curve(matrix, incidence_kernel, ridge=0.05, alphabet=20, draws=2)
    loss = few.loss(np.array([1e3, 1e6, 1e9]))
    assert loss[1] == pytest.approx(loss[2], rel=1e-6)
    assert few.samples_needed(0.5 * loss[2]) == float("inf")
    more = learning_curve(matrix, incidence_kernel, ridge=0.05, alphabet=200, draws=2)
    assert more.loss(np.array([1e9]))[0] < loss[2] / 10


def test_interpolation_passes_through_the_table() -> None:
    task = same_different().with_cls()
    matrix = template_matrix(task, incidence_kernel)
    shared = measure_sharing(task, incidence_kernel, matrix.N, ridge=0.1, ratios=(0.5, 1.0, 4.0), samples=64, draws=1)
    at = shared.at(np.array([0.5, 1.0, 4.0, 0.01, 8.0]))
    assert np.allclose(at.P[:3], shared.table.P)
    assert np.allclose(at.P[3], shared.table.P[0])
    assert np.allclose(at.P[4], shared.table.P[2] / 2)
    assert np.allclose(at.Q[4], shared.table.Q[2] / 2)


def test_blind_kernel_never_learns_what_it_cannot_see() -> None:
    matrix = template_matrix(same_different().with_cls(), product_kernel)
    assert LearningCurve(matrix, 0.1).samples_needed(0.5) == float("inf")


def test_blind_kernel_still_learns_labels_that_agree() -> None:
    """N is singular, yet the labels do not vary along the direction it cannot see."""
    rows = tuple(Template.parse(s) for s in ("ααS", "αβS", "ααT", "αβT"))
    task = TemplateTask(rows, (1.0, 1.0, -1.0, -1.0)).with_cls()
    matrix = template_matrix(task, product_kernel)
    assert matrix.blind_count == 2
    assert matrix.limit_loss() == pytest.approx(0, abs=1e-12)
    assert LearningCurve(matrix, 0.1).samples_needed(0.01) < 1000


def test_limit_loss_is_the_loss_of_endless_samples() -> None:
    rows = tuple(Template.parse(s) for s in ("αα", "αβ"))
    task = TemplateTask(rows, (3.0, 0.0), (0.25, 0.75)).with_cls()
    matrix = template_matrix(task, product_kernel)
    assert matrix.limit_loss() == pytest.approx(LearningCurve(matrix, 0.1).loss(np.array([1e9]))[0], rel=1e-5)
    assert matrix.limit_loss() == pytest.approx(9 * 0.25 * 0.75)  # the variance: only the mean is learned


def test_bad_input_is_refused() -> None:
    matrix = template_matrix(same_different().with_cls(), product_kernel)
    with pytest.raises(InputError, match="ridge must be"):
        LearningCurve(matrix, 0.0)
    with pytest.raises(InputError, match="error must be"):
        LearningCurve(matrix, 1.0).samples_needed(-1.0)
    with pytest.raises(InputError, match="draws must be at least 1"):
        LearningCurve(matrix, 1.0).draws(5, draws=0)
    with pytest.raises(InputError, match="the alphabet 1"):
        learning_curve(matrix, product_kernel, ridge=1.0, alphabet=1)


@pytest.mark.parametrize("alphabet", [None, 10**9])
def test_a_rare_template_has_its_share(alphabet: int | None) -> None:
    """A template of weight 1e-4 is in none of a few hundred samples, yet it is learned."""
    task = replace(same_different(), weights=(1 - 1e-4, 1e-4)).with_cls()
    matrix = template_matrix(task, incidence_kernel)
    wanted = 0.1 * 4e-4  # a tenth of the variance of the labels
    found = learning_curve(matrix, incidence_kernel, ridge=0.01, alphabet=alphabet).samples_needed(wanted)
    apart = LearningCurve(matrix, 0.01).samples_needed(wanted)
    assert apart / 2 < found < 2 * apart


@pytest.mark.parametrize("weight", [0.02, 0.1])
def test_a_rare_template_drawn_more_often_says_the_same(weight: float) -> None:
    """Against regressions whose samples have the template at its own rate, and share tokens."""
    task = replace(same_different(), weights=(1 - weight, weight)).with_cls()
    matrix = template_matrix(task, incidence_kernel)
    shared = measure_sharing(task, incidence_kernel, matrix.N, ridge=0.05, ratios=(2.0,), samples=128, draws=16)
    expected = LearningCurve(matrix, 0.05, shared, 400).draws(800, draws=1000)
    real = measured_errors(task, incidence_kernel, samples=[800], alphabets=[400], ridge=0.05, seeds=8).loss
    assert abs(float(real.mean()) / expected.mean() - 1) < 4 * float(real.std() / real.mean()) / np.sqrt(8) + 0.1
