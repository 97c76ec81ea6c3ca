"""The model on text: its gradient against Lemma 1 on single sequences, and the force from counts against autograd."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr

from foretrain import InputError
from foretrain.papers.kept import kept
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.experiments.real_text import TextSamples, count_force, pair_step, real_text, samples_of

GUIDE = " ".join((Path(__file__).parents[3] / "docs" / "scan-snap.md").read_text(encoding="utf-8").split())


def _samples(words: int = 7, number: int = 40, context: int = 5) -> TextSamples:
    draw = np.random.default_rng(3)
    return TextSamples(
        draw.integers(0, words, (number, context)),
        draw.integers(0, 3, number),
        draw.integers(0, words, number),
        words,
    )


def test_step_is_lemma_1_averaged_over_sequences() -> None:
    """Lemma 1, eq. 3 and 4: each sequence by itself, with one-hot tokens in order."""
    samples, draw = _samples(), np.random.default_rng(4)
    Y, Z = draw.normal(0, 1, (2, 7, 7))
    each = [
        theory.loss_gradients(np.eye(7)[x], Y, Z, query=int(q), label=int(n))
        for x, q, n in zip(samples.context, samples.query, samples.next, strict=True)
    ]
    counts = torch.from_numpy(samples.counts(slice(None)))
    query, following = torch.from_numpy(samples.query), torch.from_numpy(samples.next)
    on_y, on_z, attention, _ = pair_step(torch.from_numpy(Y), torch.from_numpy(Z), counts, query, following)
    moved = torch.zeros(7, 7, dtype=torch.float64).index_add_(0, query, on_z)
    np.testing.assert_allclose(on_y.numpy(), np.mean([one[0] for one in each], axis=0), atol=1e-14)
    np.testing.assert_allclose(moved.numpy(), np.mean([one[1] for one in each], axis=0), atol=1e-14)
    np.testing.assert_allclose(attention.sum(dim=1).numpy(), 1, atol=1e-14)


@pytest.mark.parametrize("start", ["unigram", "uniform"])
def test_force_from_counts_is_the_gradient_after_one_small_step(start: str) -> None:
    """Lemma 1: with a bias that makes the outputs α, one decoder step of rate ε, then the gradient in Z over ε."""
    samples = _samples()
    counts = torch.from_numpy(samples.counts(slice(None)))
    f = counts / counts.norm(dim=1, keepdim=True)
    frequencies = np.bincount(samples.next, minlength=7) / 40
    alpha = torch.from_numpy(frequencies) if start == "unigram" else torch.full((7,), 1 / 7, dtype=torch.float64)
    error = torch.eye(7, dtype=torch.float64)[samples.next] - alpha
    small = 1e-6
    Y = small * f.mT @ error / 40
    Z = torch.zeros(7, 7, dtype=torch.float64, requires_grad=True)
    c = counts * torch.exp(Z[samples.query])
    outputs = (c / c.norm(dim=1, keepdim=True)) @ Y + torch.log(alpha)
    score = torch.log_softmax(outputs, dim=1)[range(40), samples.next].mean()
    (gradient,) = torch.autograd.grad(score, Z)
    np.testing.assert_allclose(count_force(samples, start), gradient.numpy() / small, atol=1e-5)


def test_made_up_text_gives_samples_of_neighbouring_words() -> None:
    samples = samples_of("made-up", 20, 6, 600)
    assert samples.context.shape[1] == 6
    assert samples.context.max() < 20
    np.testing.assert_array_equal(samples.context[1:, 2], samples.context[:-1, 5])  # three positions further
    np.testing.assert_array_equal(samples.query[:-1], samples.context[1:, 3])
    np.testing.assert_array_equal(samples.next[:-1], samples.context[1:, 4])


def test_slow_attention_follows_the_force_from_counts() -> None:
    """On made-up words, whose next word depends on the last one alone, seeds agree and longer training moves more."""
    setting = {"corpus": ("made-up",), "vocabulary": 30, "context": 8, "tokens": 6000, "seen": 30, "batch": 32}
    run = real_text.run(**setting, eta_y=(2.0,), eta_z=(0.02,), until=2.0)
    assert float(run["agreement"].isel(time=-1).squeeze()) > 0.5
    assert bool((run["size"].diff("time") > 0).all())
    assert float(run["loss"].isel(time=-1).max()) < float(run["loss"].isel(time=0).min())
    with pytest.raises(InputError, match="same length"):
        real_text.run(**setting, eta_y=(2.0,), eta_z=(0.02, 1.0))
    with pytest.raises(InputError, match="lower `seen`"):
        real_text.run(**{**setting, "seen": 10**6})


def _slopes_on_real_text() -> xr.DataArray:
    """d ln z/d ln t: [setting, corpus, time in t0]."""
    run = kept("scan_snap/real_text")
    size = run["size"].mean("seed").transpose("setting", "corpus", "time")
    return size.copy(data=np.gradient(np.log(size.values), np.log(run["time"].values), axis=-1))


@pytest.mark.filterwarnings("ignore:Judged from")
def test_the_guide_tells_when_attention_snaps_on_real_text() -> None:
    slopes, times = _slopes_on_real_text(), kept("scan_snap/real_text")["snap_time"]
    slow, equal, fast = (slopes.sel(setting=f"η_Y = 2, η_Z = {rate}") for rate in ("0.02", "2", "8"))
    assert f"t^{slow[:, -1].min():.1f} to t^{slow[:, -1].max():.1f}" in GUIDE
    told = []
    for setting in (equal, fast):
        above = [float(corpus["time"][corpus >= 1][-1]) for corpus in setting]
        below = [float(corpus["time"][corpus["time"] > last][0]) for corpus, last in zip(setting, above, strict=True)]
        t0 = float(times.sel(setting=setting["setting"]).max())
        told.append(f"between {_short(min(above) / t0)} and {_short(max(below) / t0)} t0")
    assert all(words in GUIDE for words in told), told
    ends = [f"{_short(s[:, -1].min(), 2)} to {_short(s[:, -1].max(), 2)}" for s in (equal, fast)]
    assert " and ".join(ends) in GUIDE


def _short(value: float, digits: int = 1) -> str:
    return f"{float(value):.{digits}f}".removeprefix("0")
