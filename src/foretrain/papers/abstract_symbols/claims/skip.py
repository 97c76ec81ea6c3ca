"""Section 4: b·I in every head is not the skip connection of a ResNet."""

from __future__ import annotations

import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import bounded, every
from foretrain.papers.abstract_symbols.experiments.skip import EXPERIMENTS


def _apart() -> xr.Dataset:
    return trajectory({"not_learned": 0.9, "learned": 0.5})


def _losses(embedding: int, heads: int, steps: int, seeds: int, read_at: str = "[CLS]") -> xr.Dataset:
    """The loss on unseen symbols after training the skip connection alone, or b·I alone."""
    run = EXPERIMENTS[0].run(read_at=(read_at,), embedding=embedding, heads=heads, steps=steps, seeds=seeds)
    losses = run.test_loss.isel(read_at=0, drop=True)
    return xr.Dataset(
        {
            "with_skip": losses.sel(added="skip connection", drop=True),
            "with_identity": losses.sel(added="b·I per head", drop=True),
        }
    )


section4_skip = Claim(
    id="abstract_symbols/section4_skip",
    source="section 4, after Theorem 4.2",
    whose="the paper's statement",
    says=(
        "b·I is not equivalent to a trainable skip connection as in a ResNet: it copies tokens between positions. "
        "(Attention alone copies a symbol to the [CLS] after it; b·I leaves less than half of a guess's loss on unseen "
        "symbols, a trained skip connection at least nine tenths.)"
    ),
    finding=(
        "On the paper's own copying task, a single token that is read where it stands, the two are the same: attention "
        "is 1, and both leave the same loss to ten digits. They differ as soon as the answer is read elsewhere."
    ),
    predict=_apart,
    observe=_losses,
    compare=every(bounded("with_skip", low="not_learned"), bounded("with_identity", high="learned")),
    settings={
        "fast": {"embedding": 256, "heads": 4, "steps": 20, "seeds": 2},
        "full": {"embedding": 1024, "heads": 16, "steps": 40, "seeds": 5},
    },
    control=Control("the answer is read at the symbol itself", {"read_at": "the symbol"}),
)

CLAIMS = [section4_skip]
