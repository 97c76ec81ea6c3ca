"""What is read off trained networks: negated adjectives, the bias of deep networks, a transformer's mask."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from foretrain.kernels.tangent import mlp_kernel
from foretrain.papers.feature_extraction import theory
from foretrain.papers.feature_extraction.experiments.depth import DeepWindow, bias_after_training
from foretrain.papers.feature_extraction.experiments.label_scores import read_corpus
from foretrain.papers.feature_extraction.simulations.negated_adjectives import negation_gains, read_phrases
from foretrain.papers.feature_extraction.simulations.next_token import SmallTransformer


def test_not_has_one_effect_on_all_adjectives_of_a_network_that_adds_up() -> None:
    """A linear CNN scores a text as a sum over its tokens and places, so what NOT adds does not depend on what "
    "follows."""
    gains = negation_gains("made_up", 400, ("CNN linear", "MV diagonal"), 4, 1).gain.isel(seed=0)
    added, multiplied = gains.sel(network="CNN linear"), gains.sel(network="MV diagonal")
    assert float(added[0]) == pytest.approx(float(added[1]), abs=1e-4)
    assert abs(float(multiplied[0] - multiplied[1])) > 0.05


def test_made_up_phrases_have_polar_adjectives_and_a_not_that_flips_them() -> None:
    phrases = read_phrases("made_up", 2000)
    rows = phrases.texts.flat.reshape(-1, 8)
    negated = (rows == phrases.modifiers["not"]).any(axis=1)
    assert 0.15 < negated.mean() < 0.3
    for polarity, sign in (("positive", 1), ("negative", -1)):
        has = np.isin(rows, phrases.adjectives[polarity]).any(axis=1)
        assert (phrases.labels[has & ~negated] == (sign > 0)).all()
        assert (phrases.labels[has & negated] == (sign < 0)).all()


@pytest.mark.parametrize("normed", [False, True])
def test_scores_of_all_tokens_are_those_of_one_by_one(normed: bool) -> None:
    net = DeepWindow(5, 8, 3, 1, normed)
    parameters = net.start(torch.Generator().manual_seed(1))
    alone = torch.stack([net.score(parameters, torch.tensor([token])) for token in range(5)])
    torch.testing.assert_close(net.token_scores(parameters), alone, rtol=1e-4, atol=1e-5)


def test_the_bias_of_one_wide_layer_after_training_is_that_of_the_kernel() -> None:
    """One ReLU layer of width 512 after a few short steps, against β/ρ = .1187; tanh has none."""
    corpus = read_corpus("made_up", texts=400)
    corpus = corpus.keep(np.flatnonzero((corpus.labels == 1) | (np.arange(400) % 3 == 0)))
    kernel = mlp_kernel("relu")
    measured = np.mean(
        [bias_after_training(DeepWindow(corpus.vocab, 512, 1), corpus, steps=3, rate=0.01, seed=s) for s in (1, 2)]
    )
    assert measured == pytest.approx(theory.bias_ratio(kernel.own, kernel.shared), rel=0.15)
    without = DeepWindow(corpus.vocab, 512, 1, activation="tanh")
    assert abs(bias_after_training(without, corpus, steps=3, rate=0.01, seed=1)) < 0.01


@pytest.mark.parametrize("causal", [True, False])
def test_a_causal_mask_keeps_later_tokens_from_earlier_places(causal: bool) -> None:
    """Without it, as the published notebook trained its transformer, every place sees its own target."""
    net = SmallTransformer(12, width=16, length=8, causal=causal).eval()
    window = torch.arange(8)[None].repeat(2, 1)
    window[1, -1] = 11
    with torch.no_grad():
        seen = net(window)[:, :-1]
    assert bool(torch.allclose(seen[0], seen[1], atol=1e-6)) is causal


def test_two_classes_keep_the_texts_of_the_first_two() -> None:
    whole = read_corpus("made_up_4", texts=200)
    two = whole.two_classes()
    assert set(two.labels.tolist()) == {0, 1}
    assert set(two.test_labels.tolist()) == {0, 1}
    assert len(two.labels) == int((whole.labels < 2).sum())
    assert two.vocab == whole.vocab
