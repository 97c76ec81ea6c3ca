"""Label scores on paper against differentiation, integration and independent sums."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.integrate import solve_ivp
from scipy.special import expit, softmax

from foretrain.core.errors import InputError
from foretrain.core.streams import torch_stream
from foretrain.kernels import label_flow
from foretrain.kernels.tangent import Scales
from foretrain.models.text_networks import network
from foretrain.papers.feature_extraction import theory
from foretrain.papers.feature_extraction.experiments.depth import DeepWindow, bigram_share, kernel_bias
from foretrain.papers.feature_extraction.simulations.first_step import first_step
from foretrain.papers.feature_extraction.simulations.next_token import SmallTransformer, read_next_tokens

COUNTS = np.array([[2.0, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 3]])
SIGNS = np.array([1.0, -1, 1, -1])


@pytest.mark.parametrize("shared", [0.0, 0.3])
def test_label_scores_follow_the_flow(shared: float) -> None:
    def velocity(_: float, s: np.ndarray) -> np.ndarray:
        pull = COUNTS.T @ (SIGNS * expit(-SIGNS * (COUNTS @ s))) / len(SIGNS)
        return 1.2 * pull + shared * pull.sum()

    exact = solve_ivp(velocity, (0, 3), np.zeros(3), rtol=1e-11, atol=1e-12).y[:, -1]
    errors = [
        np.abs(label_flow.label_scores(COUNTS, SIGNS, (1.2, shared), 3.0, steps=n) - exact).max() for n in (40, 80, 160)
    ]
    slope = np.polyfit(np.log([40, 80, 160]), np.log(errors), 1)[0]
    assert slope == pytest.approx(-2, abs=0.15)  # a method of second order
    assert errors[-1] < 1e-4


def test_a_stiff_flow_is_stable_in_a_few_long_steps() -> None:
    """A bias 300 times as fast as the rest: 20 steps, where a plain step would have to be 100 times shorter."""
    kernel, labels = (0.05, 15.0), np.array([1.0, -1, 1, 1])
    exact = solve_ivp(
        lambda _, s: theory.score_velocity(s, COUNTS, labels, own=kernel[0], shared=kernel[1]) / 4,
        (0, 40), np.zeros(3), method="LSODA", rtol=1e-10, atol=1e-12,
    ).y[:, -1]  # fmt: skip
    assert label_flow.fastest(COUNTS, kernel) * 40 > 900
    np.testing.assert_allclose(
        label_flow.label_scores(COUNTS, labels, kernel, 40.0), exact, atol=0.01 * np.abs(exact).max()
    )


def test_an_implicit_direction_is_stable_and_of_first_order() -> None:
    """However fast the direction is, it never grows; halving the step halves the error there, and quarters the rest."""
    one = np.ones(1)
    for stages in range(2, 30):
        for rate in (1.0, 10.0, 1e3, 1e5):
            fast = label_flow.FastDirection(rate, one, one)
            after = label_flow.chebyshev_step(
                lambda at, rate=rate: -rate * at, one, 1.0, stages, lambda _, fast=fast: fast
            )
            assert abs(after[0]) < 0.96

    def velocity(at: np.ndarray) -> np.ndarray:  # curved, and its fast direction turns
        return np.array([-20.0 * (at[0] - np.sin(at[1])), 1.0 - 0.3 * at[1] ** 2])

    def direction(begun: np.ndarray) -> label_flow.FastDirection:
        return label_flow.FastDirection(20.0, np.array([1.0, 0.0]), np.array([1.0, 0.0]))

    start = np.array([0.0, 0.1])
    exact = solve_ivp(lambda _, at: velocity(at), (0, 1), start, rtol=1e-12, atol=1e-12).y[:, -1]
    errors, counts = [], np.array([40, 80, 160])
    for count in counts:
        at = start
        for _ in range(count):
            at = label_flow.chebyshev_step(velocity, at, 1 / count, 4, direction)
        errors.append(np.abs(at - exact))
    slopes = np.polyfit(np.log(counts), np.log(errors), 1)[0]
    np.testing.assert_allclose(slopes, [-1, -2], atol=0.2)
    assert errors[-1].max() < 1e-3


def test_label_scores_take_sparse_counts_and_classes() -> None:
    hot = np.eye(3)[[0, 1, 2, 0]]
    dense = label_flow.label_scores(COUNTS, hot, (1.0, 0.1), 0.5)
    thin = label_flow.label_scores(sparse.csr_array(COUNTS), hot, (1.0, 0.1), 0.5)
    np.testing.assert_allclose(thin, dense, atol=1e-14)
    np.testing.assert_allclose(dense.sum(axis=1), 0, atol=1e-14)  # pulls of a softmax cancel over classes


def test_long_flows_stay_stable_and_settle() -> None:
    scores = label_flow.label_scores(COUNTS, np.array([1.0, -1, 1, 1]), (1.0, 0.5), 500.0)
    assert np.all(np.isfinite(scores))
    later = label_flow.label_scores(COUNTS, np.array([1.0, -1, 1, 1]), (1.0, 0.5), 505.0)
    assert np.abs(later - scores).max() < 0.1


def test_fastest_is_the_largest_eigenvalue_over_four() -> None:
    kernel = 1.2 * COUNTS @ COUNTS.T + 0.3 * np.outer(COUNTS.sum(1), COUNTS.sum(1))
    assert label_flow.fastest(COUNTS, (1.2, 0.3)) == pytest.approx(np.linalg.eigvalsh(kernel)[-1] / 16, rel=1e-3)


def test_squared_loss_follows_its_closed_form() -> None:
    """The flow on tokens against u(t) on texts; labels may be any numbers."""
    own, shared, n = 1.2, 0.3, len(SIGNS)
    kernel = (own * COUNTS @ COUNTS.T + shared * np.outer(COUNTS.sum(1), COUNTS.sum(1))) / n
    cross = (own * COUNTS.T + shared * COUNTS.sum(1)) / n
    labels = np.array([0.3, -2.0, 1.0, 0.0])
    closed = theory.squared_loss_outputs(kernel, cross, labels, 0.8)
    flow = label_flow.label_scores(COUNTS, labels, (own, shared), 0.8, loss="squared", steps=400)
    np.testing.assert_allclose(flow, closed, atol=1e-4)
    with pytest.raises(InputError, match="loss must be 'squared'"):
        label_flow.residual(labels, labels, "hinge")


@pytest.mark.parametrize("labels", [np.array([1.0, -1, 1, 1]), np.eye(3)[[0, 1, 2, 0]]])
def test_bias_is_the_score_of_a_token_that_never_occurs(labels: np.ndarray) -> None:
    with_unseen = np.hstack([COUNTS, np.zeros((4, 1))])
    scores = label_flow.label_scores(with_unseen, labels, (1.0, 0.4), 2.0)
    np.testing.assert_allclose(label_flow.predicted_bias(scores[:-1], (1.0, 0.4)), scores[-1], atol=1e-12)


def test_bias_settles_where_class_sizes_ask_when_tokens_say_nothing() -> None:
    """All texts have the same mix of tokens, whatever their class: the flow meets the plateau exactly."""
    counts = np.tile([3.0, 1.0, 1.0], (40, 1))
    signs = np.repeat([1.0, -1.0], [30, 10])
    kernel = (1.0, 0.4)
    bias = label_flow.predicted_bias(label_flow.label_scores(counts, signs, kernel, 60.0), kernel)
    first, second = label_flow.bias_plateau([10, 30], 5.0, (9 + 1 + 1) / 25, kernel)
    assert bias == pytest.approx(second - first, rel=1e-6)
    assert label_flow.bias_plateau([5, 5], 5.0, 0.1, kernel) == pytest.approx([0, 0])
    hot = np.eye(3)[np.repeat([0, 1, 2], [20, 10, 10])]
    several = label_flow.predicted_bias(label_flow.label_scores(counts, hot, kernel, 120.0), kernel)
    np.testing.assert_allclose(several, label_flow.bias_plateau([20, 10, 10], 5.0, 11 / 25, kernel), rtol=1e-5)


def test_kernel_descent_is_descent_on_scores() -> None:
    own, shared, rate = 1.2, 0.3, 0.7
    kernel = own * COUNTS @ COUNTS.T + shared * np.outer(COUNTS.sum(1), COUNTS.sum(1))
    cross = own * COUNTS.T + shared * COUNTS.sum(1)
    scores = np.zeros(3)
    for _ in range(6):
        scores = scores + rate / 4 * theory.score_velocity(scores, COUNTS, SIGNS, own=own, shared=shared)
    np.testing.assert_allclose(label_flow.kernel_descent(kernel, cross, SIGNS, rate=rate, steps=6), scores, atol=1e-12)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.floats(-3, 3), min_size=6, max_size=6), st.integers(0, 2))
def test_residual_is_minus_the_slope_of_cross_entropy(values: list[float], label: int) -> None:
    outputs = torch.tensor(values, dtype=torch.float64).reshape(2, 3).requires_grad_()
    labels = torch.tensor([label, (label + 1) % 3])
    torch.nn.functional.cross_entropy(outputs, labels, reduction="sum").backward()
    hot = np.eye(3)[labels.numpy()]
    np.testing.assert_allclose(label_flow.residual(hot, outputs.detach().numpy()), -outputs.grad.numpy(), atol=1e-12)


@pytest.mark.parametrize("name", ["MLP ReLU", "MLP tanh"])
def test_first_step_is_the_difference_a_small_step_makes(name: str) -> None:
    net = network(name, 5, 8, scales=Scales(), outputs=2)
    start = net.start_one(("test", name), torch.float64)
    force = np.random.default_rng(0).standard_normal((5, 2))
    force[2] = 0.0  # a token nothing is asked of
    tokens = torch.arange(5)[:, None]
    leaves = {k: v.clone().requires_grad_() for k, v in start.items()}
    gained = (net.scores(leaves, tokens) * torch.from_numpy(force)).sum()
    gradients = torch.autograd.grad(gained, list(leaves.values()))
    h = 1e-6
    ahead = {k: v + h * g for (k, v), g in zip(start.items(), gradients, strict=True)}
    back = {k: v - h * g for (k, v), g in zip(start.items(), gradients, strict=True)}
    slope = (net.scores(ahead, tokens) - net.scores(back, tokens)) / (2 * h)
    np.testing.assert_allclose(first_step(net, start, force), slope.numpy(), rtol=1e-6, atol=1e-8)
    asked = np.array([3, 0])
    np.testing.assert_allclose(first_step(net, start, force, asked), slope.numpy()[asked], rtol=1e-6, atol=1e-8)


def test_shares_of_kernels_made_by_hand() -> None:
    assert kernel_bias(2.0 * np.eye(4) + 0.5) == pytest.approx(0.25)
    same = np.eye(3)
    additive = same[:, None, :, None] + same[None, :, None, :] + 0.2
    assert bigram_share(additive) == pytest.approx(0, abs=1e-12)
    assert bigram_share(same[:, None, :, None] * same[None, :, None, :]) == pytest.approx(1)


def test_layer_norm_makes_a_deep_network_blind_to_the_size_of_its_input() -> None:
    net = DeepWindow(3, 16, 2, normed=True)
    start = net.start(torch_stream("test", "depth"))
    larger = {**start, "embedding": 7 * start["embedding"]}
    torch.testing.assert_close(
        net.score(start, torch.tensor([1])), net.score(larger, torch.tensor([1])), rtol=1e-3, atol=1e-4
    )


def test_pairs_of_next_tokens_by_counting() -> None:
    text = read_next_tokens("made_up", vocab=6, context=2, tokens=60)
    counted = np.zeros((6, 6))
    for i in range(2, 60):
        for lag in (1, 2):
            counted[text.tokens[i - lag], text.tokens[i]] += 1
    np.testing.assert_array_equal(text.pairs, counted)


@pytest.mark.parametrize("causal", [True, False])
def test_only_the_mask_hides_later_tokens(causal: bool) -> None:
    torch.manual_seed(0)
    net = SmallTransformer(7, width=8, length=5, causal=causal)
    one, other = torch.tensor([[1, 2, 3, 4, 5]]), torch.tensor([[1, 2, 3, 4, 6]])
    same = torch.equal(net(one)[:, :-1], net(other)[:, :-1])
    assert same is causal
    assert softmax(net(one).detach().numpy(), axis=-1).shape == (1, 5, 7)


@pytest.mark.parametrize(
    ("labels", "time", "sentence"),
    [
        ([1, 0, 1], 1.0, "must be −1 and"),
        ([[1, 0], [1, 1], [0, 1]], 1.0, "single 1"),
        ([1, -1], 1.0, "one label per text"),
        ([1, -1, 1], -1.0, "time must be"),
        ([1, -1, 1], float("nan"), "time must be"),
    ],
)
def test_label_scores_refuse_what_is_no_label_or_time(labels, time, sentence):
    with pytest.raises(InputError, match=sentence):
        label_flow.label_scores(np.eye(3), labels, (1.0, 0.1), time)
