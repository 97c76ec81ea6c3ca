"""Closed tangent kernels against brute force over pairs, Monte Carlo, and the finite networks they are limits of."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate
from scipy.special import expit, ndtr

from foretrain.core.errors import InputError
from foretrain.data.tokens import TokenTexts
from foretrain.kernels import features, tangent
from foretrain.kernels import gaussian_moments as moments
from foretrain.kernels.empirical import empirical_ntk
from foretrain.models.classifiers import Classifier

SCALES = tangent.Scales(0.9, 1.1, 0.8, 0.7)
VOCAB = 5


def random_texts(seed: int = 0, texts: int = 6, length: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, VOCAB, (texts, length))


def as_tokens(table: np.ndarray) -> TokenTexts:
    return TokenTexts.of_rows(table, VOCAB)


def normal(z: np.ndarray) -> np.ndarray:
    return np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)


FUNCTIONS = {
    "linear": (lambda z: z, lambda z: np.ones_like(z)),
    "relu": (lambda z: np.maximum(z, 0), lambda z: (z > 0) * 1.0),
    "gelu": (lambda z: z * ndtr(z), lambda z: ndtr(z) + z * normal(z)),
    "silu": (lambda z: z * expit(z), lambda z: expit(z) * (1 + z * (1 - expit(z)))),
    "tanh": (np.tanh, lambda z: 1 - np.tanh(z) ** 2),
}


@pytest.mark.parametrize("activation", list(FUNCTIONS))
@pytest.mark.parametrize("which", ["product", "slope_product"])
def test_gaussian_moments_agree_with_sampling(activation: str, which: str) -> None:
    k11, k22, k12 = 1.3, 0.7, 0.4
    draws = np.random.default_rng(1).multivariate_normal([0, 0], [[k11, k12], [k12, k22]], size=400_000)
    function = FUNCTIONS[activation][which == "slope_product"]
    sample = function(draws[:, 0]) * function(draws[:, 1])
    exact = float(getattr(moments, which)(activation, k11, k22, k12))
    error = sample.std() / np.sqrt(len(sample))
    assert abs(sample.mean() - exact) <= 4 * error + 1e-12


@pytest.mark.parametrize("q", [0.01, 1.0, 4.0, 16.0, 81.0])
@pytest.mark.parametrize("activation", list(FUNCTIONS))
def test_gaussian_moments_are_integrals_at_every_variance(activation: str, q: float) -> None:
    """z = z′ and z′ independent against adaptive quadrature; between them, dE[φφ′]/dk12 = E[φ′φ′] (Price)."""

    def integral(function) -> float:
        reach, bend = 12 * np.sqrt(q), min(1.0, np.sqrt(q))
        return integrate.quad(lambda z: function(z) * normal(z / np.sqrt(q)) / np.sqrt(q), -reach, reach,
                              points=[-4 * bend, 0, 4 * bend], limit=400, epsabs=1e-13, epsrel=1e-12)[0]  # fmt: skip

    phi, slope = FUNCTIONS[activation]
    size = float(moments.product(activation, q, q, q))
    assert size == pytest.approx(integral(lambda z: phi(z) ** 2), rel=1e-9)
    assert float(moments.slope_product(activation, q, q, q)) == pytest.approx(integral(lambda z: slope(z) ** 2))
    assert float(moments.mean(activation, q)) == pytest.approx(integral(phi), abs=1e-9 * size)
    assert float(moments.product(activation, q, q, 0.0)) == pytest.approx(integral(phi) ** 2, abs=1e-9 * size)
    places, weights = np.polynomial.legendre.leggauss(12)
    path = 0.3 * q * (places + 1)  # from k12 = 0 to .6q
    grown = 0.3 * q * (weights @ moments.slope_product(activation, q, q, path))
    ends = moments.product(activation, q, q, np.array([0.0, 0.6 * q]))
    assert ends[1] - ends[0] == pytest.approx(grown, rel=1e-6)


def test_published_forms_of_the_bias() -> None:
    """ReLU: β = q/2π, β/ρ = .1187 at unit scales and at most 1/(π−1); GeLU: β = q²/(2π(1+q)); SiLU: about q²/16."""
    relu = tangent.mlp_kernel("relu")
    assert relu.shared == pytest.approx(1 / (2 * np.pi))
    assert relu.shared / relu.own == pytest.approx(0.1187, abs=5e-5)
    lazy = tangent.mlp_kernel("relu", tangent.Scales(readout=1e-4))
    assert lazy.shared / lazy.own == pytest.approx(1 / (np.pi - 1), rel=1e-6)
    small = tangent.Scales(0.1, 0.1, 0.1)
    q = small.q
    assert tangent.mlp_kernel("gelu", small).shared == pytest.approx(q**2 / (2 * np.pi * (1 + q)))
    assert tangent.mlp_kernel("silu", small).shared == pytest.approx(q**2 / 16, rel=1e-3)
    assert tangent.mlp_kernel("tanh").shared == 0


@given(st.integers(0, 10_000), st.sampled_from(["relu", "linear", "gelu"]), st.integers(1, 3))
def test_window_sums_by_sparse_products_are_sums_over_pairs(seed: int, activation: str, window: int) -> None:
    table = random_texts(seed, texts=3, length=4)
    theta = tangent.cnn_window_kernel(activation, window, SCALES)
    windows = np.lib.stride_tricks.sliding_window_view(table, window, axis=1)
    matches = (windows[:, None, :, None] == windows[None, :, None, :]).sum(-1)
    brute = theta[matches].sum((2, 3))
    found = features.window_features(as_tokens(table), window, activation, SCALES)
    np.testing.assert_allclose(found.kernel(), brute, atol=1e-9)
    assert found.shared**2 == pytest.approx(theta[0])


@given(st.integers(0, 10_000))
def test_attention_weights_from_counts_are_those_of_positions(seed: int) -> None:
    table = random_texts(seed, texts=4, length=5)
    logits = SCALES.embedding**2 * (table[:, :, None] == table[:, None, :])
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    per_position = weights.sum(1)
    brute = np.stack([(per_position * (table == e)).sum(1) for e in range(VOCAB)], axis=1)
    counts = as_tokens(table).counts
    np.testing.assert_allclose(tangent.attention_weights(counts, SCALES).toarray(), brute, atol=1e-12)


def limit(architecture: str, activation: str, table: np.ndarray) -> np.ndarray:
    tokens = as_tokens(table)
    if architecture == "mlp":
        return features.mlp_features(tokens, activation, SCALES).kernel()
    if architecture == "cnn":
        return features.window_features(tokens, 2, activation, SCALES).kernel()
    if architecture == "sa":
        return features.attention_features(tokens, SCALES).kernel()
    if architecture == "sa_mlp":
        return tangent.attention_mlp_texts(activation, tokens.counts, scales=SCALES)
    if architecture.startswith("mv"):
        return features.matrix_vector_features(tokens, SCALES).kernel()
    return features.recurrent_features(tokens, shared_matrix=architecture == "rnn_shared", scales=SCALES).kernel()


@given(st.integers(0, 10_000))
def test_mlp_and_bigram_features_are_sums_over_pairs(seed: int) -> None:
    table = random_texts(seed, texts=3)
    kernel = tangent.mlp_kernel("relu", SCALES)
    equal = table[:, None, :, None] == table[None, :, None, :]
    np.testing.assert_allclose(
        features.mlp_features(as_tokens(table), "relu", SCALES).kernel(),
        kernel.own * equal.sum((2, 3)) + kernel.shared * table.shape[1] ** 2,
        atol=1e-9,
    )
    both = equal[:, :, :-1, :-1] & equal[:, :, 1:, 1:]
    np.testing.assert_allclose(
        features.matrix_vector_features(as_tokens(table), SCALES).kernel(),
        tangent.matrix_vector_weight(SCALES) * both.sum((2, 3)),
        atol=1e-9,
    )


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=1, max_size=4), st.booleans())
def test_recurrent_features_are_matching_suffixes_or_places(texts: list[list[int]], shared: bool) -> None:
    """Texts of unequal length, pair by pair from the end."""

    def pair(a: list[int], b: list[int]) -> float:
        total = 0.0
        for n, weight in enumerate(tangent.recurrent_weights(min(len(a), len(b)), SCALES), start=1):
            total += weight * (a[-n] == b[-n] if shared else a[-n:] == b[-n:])
        return total

    starts = np.concatenate([[0], np.cumsum([len(text) for text in texts])])
    tokens = TokenTexts(np.concatenate(texts).astype(np.int64), starts.astype(np.int64), 3)
    found = features.recurrent_features(tokens, shared_matrix=shared, scales=SCALES).kernel()
    np.testing.assert_allclose(found, [[pair(a, b) for b in texts] for a in texts], atol=1e-12)


@given(st.integers(0, 10_000))
def test_attention_and_relu_is_a_sum_over_pairs_of_places(seed: int) -> None:
    table = random_texts(seed, texts=3)
    attended = np.exp(SCALES.embedding**2 * (table[:, :, None] == table[:, None, :]))
    attended = (attended / attended.sum(-1, keepdims=True)) @ np.eye(VOCAB)[table]  # [text, place, vocab]
    q = SCALES.q

    def places(a: np.ndarray, b: np.ndarray) -> float:
        k, own, other = a @ b.T, q * (a**2).sum(1)[:, None], q * (b**2).sum(1)
        slopes = SCALES.inner * k * moments.slope_product("relu", own, other, q * k)
        return float((moments.product("relu", own, other, q * k) + slopes).sum())

    exact = [[places(a, b) for b in attended] for a in attended]
    counts = as_tokens(table).counts
    np.testing.assert_allclose(tangent.attention_mlp_texts("relu", counts, scales=SCALES), exact, atol=1e-9)


@pytest.mark.parametrize("sigma", [0.2, 0.1, 0.05])
def test_even_attention_is_the_limit_of_small_embeddings(sigma: float) -> None:
    """Off by a part of order σ_e², with a constant below 1."""
    scales = tangent.Scales(sigma, 1.0, 1.0)
    counts = as_tokens(random_texts(3)).counts
    exact = tangent.attention_mlp_texts("relu", counts, scales=scales)
    part, first, second = tangent.even_attention_relu(counts, counts, scales)
    even = part.toarray() + np.outer(first, second)
    assert 0 < np.linalg.norm(even - exact) < sigma**2 * np.linalg.norm(exact)


def finite(architecture: str, activation: str, table: np.ndarray, width: int, seed: int) -> np.ndarray:
    network = Classifier(architecture, VOCAB, width, activation, scales=SCALES)
    parameters = network.start_one(("test", seed), torch.float64)

    def one(weights, row):
        return network.scores(weights, row.unsqueeze(0)).reshape(-1)

    return empirical_ntk(one, torch.from_numpy(table), parameters=parameters)[..., 0, 0].numpy()


@pytest.mark.parametrize(
    ("architecture", "activation"),
    [("mlp", "silu"), ("cnn", "relu"), ("sa", "linear"), ("sa_mlp", "relu"), ("mv", "linear"),
     ("mv_diagonal", "linear"), ("rnn_token", "linear"), ("rnn_shared", "linear")],
)  # fmt: skip
def test_finite_networks_are_near_their_limit(architecture: str, activation: str) -> None:
    table = random_texts(texts=4, length=3)
    exact = limit(architecture, activation, table)
    mean = np.mean([finite(architecture, activation, table, 128, seed) for seed in range(8)], axis=0)
    assert np.linalg.norm(mean - exact) <= 0.12 * np.linalg.norm(exact)


def test_refusals() -> None:
    with pytest.raises(InputError, match="no activation 'rlu'"):
        tangent.mlp_kernel("rlu")
    with pytest.raises(InputError, match=r"'weight' must be a finite number above 0"):
        tangent.Scales(weight=0.0)
    with pytest.raises(InputError, match=r"has 4 tokens, fewer than the window \(5\)"):
        features.require_windows(as_tokens(random_texts()), 5)
