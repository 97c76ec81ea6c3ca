"""What the guide says about Fig 6, 7 and 24: our kept results, and the published numbers beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from foretrain.papers.kept import kept

GUIDE = (Path(__file__).parents[3] / "docs" / "abstract-symbols.md").read_text(encoding="utf-8")
PLAIN = " ".join(GUIDE.split())
FIG7 = {  # GPT-2 pretrained and from scratch, from the authors' gpt2_pretrained_from_scratch_gotu.pdf
    16: (0.8807224, 0.9814972),
    64: (0.1685952, 0.9964292),
    256: (0.0274287, 0.9934529),
    1024: (0.0022368, 1.0030267),
}
FIG24 = {  # test losses at n = 8, 16, 32, 64 and 128, from the authors' gpt2_small_medium_large_gotu.pdf
    "GPT-2 small (12 layers)": (0.2094002, 0.0038400, 0.0037717, 0.0009436, 0.0195165),
    "GPT-2 medium (24 layers)": (1.0253431, 0.5453758, 0.3114682, 0.3849811, 0.2704663),
    "GPT-2 large (36 layers)": (0.9304133, 0.5698180, 0.0667668, 0.1623685, 0.0109922),
}

pytestmark = pytest.mark.filterwarnings("ignore:Judged from")


def short(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".removeprefix("0")


@pytest.mark.parametrize("n", FIG7)
def test_losses_of_fig_7_stand_beside_the_published_ones(n: int) -> None:
    losses = kept("abstract_symbols/fig7")["test_loss"].mean("seed").sel(n=n)
    ours = [losses.sel(depth=depth, start=start).item() for depth in (1, 2) for start in ("pretrained", "random")]
    row = [*(short(loss, 2) for loss in ours), *(short(loss, 3) for loss in FIG7[n])]
    assert f"| {n} | {' | '.join(row)} |" in GUIDE


def test_most_of_the_gain_is_the_random_start_above_chance() -> None:
    losses = kept("abstract_symbols/fig7")["test_loss"]
    for cut, words in ((np.inf, "better by .38"), (1.0, "the gain is .15")):
        clipped = losses.clip(max=cut)
        gain = (clipped.sel(start="random") - clipped.sel(start="pretrained")).mean().item()
        assert f"{words[:-3]}{short(gain, 2)}" == words
        assert words in PLAIN


@pytest.mark.parametrize("model", FIG24)
def test_fig_24_is_told_as_published(model: str) -> None:
    assert f"| {model} | {' | '.join(short(loss, 3) for loss in FIG24[model])} |" in GUIDE
    assert all(
        small < other for small, other in zip(FIG24["GPT-2 small (12 layers)"][:4], FIG24[model], strict=False)
    ) or (model == "GPT-2 small (12 layers)")


def test_fig_6_in_perplexities() -> None:
    loss = kept("abstract_symbols/fig6")["validation_loss"].isel(step=-1).mean("seed")
    before, after = (np.exp(loss.sel(scaling=scaling).item()) for scaling in ("none", "trained"))
    assert f"Ours fall from {before:.0f} to {after:.0f}" in PLAIN
    falls = [np.log(before / after) for before, after in ((64.00, 60.46), (16.83, 16.40))]
    assert f"{short(falls[0], 3)} and {short(falls[1], 3)} nats" in PLAIN
