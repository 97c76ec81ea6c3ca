"""Fig 6, 7 and 24 at the size of two cores, judged from kept results."""

from __future__ import annotations

import math

import xarray as xr

from foretrain.ledger.claim import Claim, Control, no_number
from foretrain.ledger.comparators import positive
from foretrain.papers.kept import kept


def _interval(differences: xr.DataArray) -> xr.Dataset:
    """Mean over seeds of a paired difference, and both ends of its 95 % interval (Student's t)."""
    from scipy.stats import t

    seeds = differences.sizes["seed"]
    mean = differences.mean("seed")
    half = float(t.ppf(0.975, seeds - 1)) * differences.std("seed", ddof=1) / math.sqrt(seeds)
    return xr.Dataset({"gain": mean, "least_gain": mean - half, "most_gain": mean + half})


def _scalings(scaling: str, shift: int) -> xr.Dataset:
    """Validation loss without scalings minus with them, at the end of training, in pairs of runs with the same seed.

    A `shift` pairs every seed with the next one.
    """
    loss = kept("abstract_symbols/fig6")["validation_loss"].isel(step=-1, drop=True)
    other = loss.sel(scaling=scaling, drop=True).roll(seed=shift)
    return _interval(loss.sel(scaling="none", drop=True) - other)


def _pretraining(start: str) -> xr.Dataset:
    """Test loss on unseen symbols from a random start minus that from another one, over all models and sizes."""
    loss = kept("abstract_symbols/fig7")["test_loss"]
    gain = loss.sel(start="random", drop=True) - loss.sel(start=start, drop=True)
    return _interval(gain.mean(("depth", "n")))


def _diagonals(start: str) -> xr.Dataset:
    """By how much the identity's largest share in any head's product exceeds that at a random start."""
    run = kept("abstract_symbols/fig7")
    shares = abs(xr.concat([run["identity_query_key"], run["identity_value_output"]], "product"))
    gain = shares.sel(start=start, drop=True) - shares.sel(start="random", drop=True)
    return _interval(gain.max("product").mean("depth"))


fig6 = Claim(
    id="abstract_symbols/fig6",
    source="Fig 6, language modelling on Wikitext",
    whose="the paper's statement",
    says="Two trainable identity scalings per head lower the validation loss of a GPT on WikiText-2; ours is small.",
    predict=no_number,
    observe=_scalings,
    compare=positive("least_gain", label="value in the 95 % interval of the gain in validation loss"),
    settings={"fast": {"scaling": "trained", "shift": 0}},
    control=Control("another seed in place of the scalings", {"scaling": "none", "shift": 1}),
)
fig7 = Claim(
    id="abstract_symbols/fig7",
    source="Fig 7, left",
    whose="the paper's statement",
    says="Pretraining on text lowers the test loss on αβα against αββ with unseen symbols (a small GPT here).",
    predict=no_number,
    observe=_pretraining,
    compare=positive("least_gain", label="value in the 95 % interval of the gain in test loss"),
    settings={"fast": {"start": "pretrained"}},
    control=Control("a random start in place of the pretrained one", {"start": "random"}),
)
diagonals = Claim(
    id="abstract_symbols/fig7_diagonals",
    source="Fig 7, right",
    whose="the paper's statement",
    says="Some heads of a pretrained model have strong diagonals: the identity's share in W_K·W_Qᵀ or W_V·W_Oᵀ is "
    "larger than at a random start.",
    predict=no_number,
    observe=_diagonals,
    compare=positive("least_gain", label="value in the 95 % interval of the identity's gain"),
    settings={"fast": {"start": "pretrained"}},
    control=Control("a random start in place of the pretrained one", {"start": "random"}),
)

CLAIMS = [fig6, fig7, diagonals]
