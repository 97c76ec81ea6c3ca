"""What counts say about the attention of standard transformers: logits, statistics and ranks, each done by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr

from foretrain.core.errors import InputError
from foretrain.language.models import build
from foretrain.language.setting import LanguageSetting
from foretrain.papers.scan_snap.claims import standard_transformer as claims
from foretrain.papers.scan_snap.experiments.real_text import TextSamples, samples_of
from foretrain.papers.scan_snap.experiments.standard_transformer import (
    content_logits,
    rank_correlation,
    running_text,
    standard_transformer,
    statistics_of,
)
from foretrain.papers.scan_snap.experiments.wikitext import first_attention

WORDS, CONTEXT = 5, 4


def _attention(model: Any, windows: torch.Tensor) -> np.ndarray:
    """The model's own attention weights in its first layer: [window, query position, key position]."""
    if hasattr(model, "transformer"):
        model.set_attn_implementation("eager")
        with torch.no_grad():
            return model(windows, output_attentions=True).attentions[0][:, 0].numpy()
    return first_attention(model, windows)[:, 0].numpy()


@pytest.mark.parametrize("kind", ["gpt", "post-norm"])
def test_content_logits_are_those_of_the_models_own_attention(kind: str) -> None:
    """ln a_ij − ln a_ii is the logit of the word at j less the query's own. Its mean over i and j < i, for one word
    less that for another, is the difference of two content logits."""
    setting = LanguageSetting(model=kind, tokens="words", vocabulary=WORDS, layers=1, width=8, heads=1, context=CONTEXT)
    model = build(setting, WORDS).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # far from even attention
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)))
    z = content_logits(model, CONTEXT)
    places = [(q, w, i, j) for q in range(WORDS) for w in range(WORDS) for i in range(CONTEXT) for j in range(i)]
    windows = torch.tensor([[w] * i + [q] + [w] * (CONTEXT - i - 1) for q, w, i, _ in places])
    by_hand = np.zeros((WORDS, WORDS))
    for attention, (q, w, i, j) in zip(_attention(model, windows), places, strict=True):
        by_hand[q, w] += np.log(attention[i, j] / attention[i, i]) / (CONTEXT * (CONTEXT - 1) / 2)
    np.testing.assert_allclose(z - z[:, :1], by_hand - by_hand[:, :1], atol=2e-4)
    assert np.ptp(z, axis=1).min() > 0.05


def test_statistics_of_counts_by_hand() -> None:
    context = np.array([[1, 2], [1, 1], [2, 2], [1, 3]])
    samples = TextSamples(context, query=np.array([1, 1, 2, 2]), next=np.array([1, 2, 3, 1]), words=4)
    together, said = statistics_of(samples)
    np.testing.assert_array_equal(together[1], [0, 3, 1, 0])
    np.testing.assert_array_equal(together[2], [0, 1, 2, 1])
    rarity, pmi = said[2], said[3]
    np.testing.assert_allclose(rarity[2, 1:], -np.log([4 / 8, 3 / 8, 1 / 8]))
    np.testing.assert_allclose(pmi[1, 1:3], np.log([(3 / 4) / (4 / 8), (1 / 4) / (3 / 8)]))
    np.testing.assert_allclose(pmi[2, 3], np.log((1 / 4) / (1 / 8)))


def test_ranks_are_compared_within_a_query_over_counted_words() -> None:
    one = np.array([[1.0, 2.0, 3.0, 0.0], [1.0, 2.0, 3.0, 9.0]])
    other = np.array([[2.0, 4.0, 8.0, 99.0], [3.0, 2.0, 1.0, 5.0]])
    counted = np.array([[True, True, True, False]] * 2)
    np.testing.assert_allclose(rank_correlation(one, other, counted), [1.0, -1.0])


def test_the_text_is_put_together_again() -> None:
    samples = samples_of("made-up", 20, 6, 600)
    text = running_text(samples)
    starts = np.arange(0, len(samples.query) * 3, 3)
    np.testing.assert_array_equal(text[starts[:, None] + np.arange(6)], samples.context)
    np.testing.assert_array_equal(text[starts + 6], samples.query)
    np.testing.assert_array_equal(text[starts + 7], samples.next)


def test_the_claim_looks_only_where_seeds_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    axes = ("corpus", "model", "seed")
    told = np.array([[[0.1, 0.2]], [[0.3, 0.9]]])
    run = xr.Dataset(
        {
            "agreement": (axes, [[[0.6, 0.7]], [[0.4, 0.5]]]),
            "statistic": ((*axes, "of"), told[..., None]),
            "pilot": ((*axes, "share"), told[..., None] + 0.5),
        },
        {"corpus": ["a", "b"], "model": ["gpt"], "of": [claims.FORCE], "share": [0.5], "seed": [1, 2]},
    )
    monkeypatch.setattr(claims, "kept", lambda _: run)
    found = claims._shortfall(claims.FORCE, 0.5)
    assert found["network"].values.tolist() == ["a, gpt"]  # in b they agree to .45 only
    np.testing.assert_allclose(found["shortfall"], [[0.3 - 0.1, 0.35 - 0.2]])
    np.testing.assert_allclose(claims._shortfall(claims.PILOT, 0.5)["shortfall"], [[0.3 - 0.6, 0.35 - 0.7]])
    with pytest.raises(InputError, match="No two seeds agree"):
        claims._shortfall(claims.FORCE, 0.9)


def test_a_small_run_learns_agrees_with_itself_and_refuses() -> None:
    small = {"corpus": ("made-up",), "model": ("post-norm",), "seeds": 2, "vocabulary": 30, "context": 8,
             "tokens": 3000, "width": 8, "seen": 5, "least_words": 5}  # fmt: skip
    run = standard_transformer.run(**small, steps=60)
    assert float(run["loss"].max()) < np.log(30) - 0.3
    assert run["statistic"].shape == (1, 1, 2, 4)
    np.testing.assert_allclose(run["agreement"].isel(seed=0), run["agreement"].isel(seed=1))  # there is one pair
    assert bool((run["pilot"].sel(share=0.5) > run["pilot"].sel(share=0.2)).all())
    with pytest.raises(InputError, match="lower seen"):
        standard_transformer.run(**{**small, "seen": 10**6}, steps=1)
