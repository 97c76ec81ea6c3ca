"""Fig 2, 3, 5, 22, 23 and 25: what two numbers per head change, and what an MLP lacks."""

from __future__ import annotations

from collections.abc import Sequence

import xarray as xr

from foretrain.claim import Claim, Control
from foretrain.comparators import bounded, close
from foretrain.models.sequence_baselines import LSTM, MLP, MLP_XX, RNN
from foretrain.papers.abstract_symbols.claims.sides import better_than
from foretrain.papers.abstract_symbols.experiments import architectures as figures
from foretrain.papers.abstract_symbols.experiments.trained import (
    RATES,
    TRANSFORMERS,
    VANILLA,
    WITH_A,
    WITH_AB,
    WITH_B,
    n_needed,
)
from foretrain.tolerances import PUBLISHED_SPREAD
from foretrain.trajectory import trajectory

fig2 = better_than(
    figures.fig2,
    "architectures",
    id="abstract_symbols/fig2",
    source="Fig 2",
    says=(
        "On the two print programs, a·I in every head lowers the loss on unseen variables from the same samples. "
        "(At tier fast neither network has learned anything yet: strings of 17 tokens need a larger one.)"
    ),
    expect=None,
    sides=(WITH_A, (VANILLA,)),
    settings={
        "fast": {"setting": "tiny", "rates": (1e-2,), "seeds": 3, "n": (16,)},
        "full": {
            "setting": "small",
            "rates": (1e-3, 3e-3),
            "seeds": 5,
            "n": (64, 256),
        },
        "paper": {
            "setting": "base",
            "rates": RATES,
            "seeds": 5,
            "n": (64, 128, 256, 512, 1024),
        },
    },
)

fig3 = better_than(
    figures.fig3,
    "architectures",
    id="abstract_symbols/fig3",
    source="Fig 3",
    says="With symbols as labels, b·I in every head lowers the loss on unseen symbols from the same samples.",
    sides=(WITH_B, (VANILLA,)),
    settings={
        "fast": {
            "setting": "tiny",
            "rates": (1e-2,),
            "seeds": 4,
            "n": (32,),
            "depth": 2,
            "embedding": 32,
        },
        "full": {
            "setting": "small",
            "rates": (1e-3, 3e-3),
            "seeds": 5,
            "n": (128, 512),
            "depth": 4,
            "embedding": 128,
        },
        "paper": {
            "setting": "base",
            "rates": RATES,
            "seeds": 5,
            "n": (256, 1024, 4096),
            "depth": 4,
            "embedding": 512,
        },
    },
)

fig5 = better_than(
    figures.fig5,
    "embeddings",
    id="abstract_symbols/fig5",
    source="Fig 5 (a)",
    says="Without b·I, copying an unseen symbol fails as the embedding dimension grows at fixed n.",
    settings={
        "fast": {
            "setting": "tiny",
            "rates": (1e-2,),
            "seeds": 3,
            "n": (48,),
            "architectures": (VANILLA,),
            "better": 32,
            "worse": (128,),
        },
        "full": {
            "setting": "base",
            "rates": (1e-3,),
            "seeds": 3,
            "n": (64, 128),
            "architectures": (VANILLA,),
            "better": 64,
            "worse": (512,),
        },
    },
)

fig5_repaired = better_than(
    figures.fig5,
    "architectures",
    id="abstract_symbols/fig5_repaired",
    source="Fig 5 (b)",
    says="With b·I, an unseen symbol is copied at the same embedding dimension and n.",
    sides=(WITH_B, (VANILLA,)),
    settings={
        "fast": {
            "setting": "tiny",
            "rates": (1e-2,),
            "seeds": 3,
            "n": (48,),
            "embeddings": (32, 128),
        },
        "full": {
            "setting": "base",
            "rates": (1e-3,),
            "seeds": 3,
            "n": (64, 128),
            "embeddings": (64, 512),
        },
    },
)

fig22 = better_than(
    figures.fig22,
    "architectures",
    id="abstract_symbols/fig22",
    source="Fig 22",
    says="A transformer with a·I outperforms the plain one, RNN, LSTM and MLP on αβα against αββ.",
    sides=(WITH_A, (VANILLA, RNN, LSTM, MLP)),
    settings={
        "fast": {"setting": "tiny", "seeds": 4, "n": (64,)},
        "full": {"setting": "small", "seeds": 5, "n": (64, 256)},
        "paper": {
            "setting": "base",
            "seeds": 5,
            "n": (32, 64, 128, 256, 512),
        },
    },
)


def _an_eighth() -> xr.Dataset:
    return trajectory({"least_factor": 8.0})


def _data_factor(
    n: Sequence[int], plain_n: Sequence[int], seeds: int, setting: str, loss: float, modified: str = WITH_A
) -> xr.Dataset:
    """n at which the mean test loss falls below `loss`, without over with the scaling: at least so much.

    Where the plain network does not get there, its largest n stands for what it needs.
    """
    ours = float(n_needed(figures.fig22(n, (modified,), seeds, setting), loss).values[0])
    theirs = float(n_needed(figures.fig22(plain_n, (VANILLA,), seeds, setting), loss).values[0])
    factor = min(theirs, float(max(plain_n))) / ours
    return trajectory({"factor": factor, "needed": ("side", [ours, theirs])}, {"side": [modified, VANILLA + " "]})


fig22_factor = Claim(
    id="abstract_symbols/fig22_factor",
    source="Fig 22, Observation 1.2",
    says="a·I lowers the data needed for αβα against αββ by an order of magnitude: at least eight times less.",
    predict=_an_eighth,
    observe=_data_factor,
    compare=bounded("factor", low="least_factor"),
    settings={
        "fast": {"n": (16, 64), "plain_n": (64, 512), "seeds": 2, "setting": "tiny", "loss": 0.5},
        "full": {"n": (16, 32, 64, 128), "plain_n": (256, 512, 1024), "seeds": 3, "setting": "small", "loss": 0.1},
        "paper": {"n": figures.SAMPLES, "plain_n": figures.SAMPLES, "seeds": 5, "setting": "base", "loss": 0.1},
    },
    control=Control("b·I in place of a·I", {"modified": WITH_B}),
)

fig23 = better_than(
    figures.fig23,
    "architectures",
    id="abstract_symbols/fig23",
    source="Fig 23",
    says="On majorities of k symbols, a·I and b·I together lower the loss from the same samples.",
    sides=(WITH_AB, (VANILLA,)),
    settings={
        "fast": {
            "setting": "tiny",
            "seeds": 4,
            "lengths": (2,),
            "n": (96,),
        },
        "full": {
            "setting": "small",
            "seeds": 5,
            "lengths": (2, 4),
            "n": (128, 512),
        },
        "paper": {
            "setting": "base",
            "seeds": 5,
            "lengths": (2, 3, 4, 5, 6),
            "n": (128, 512, 2048),
        },
    },
)

fig25 = better_than(
    figures.fig25,
    "architectures",
    id="abstract_symbols/fig25",
    source="Fig 25",
    says="An MLP that is given vec(XXᵀ) succeeds on unseen symbols where one that is not fails.",
    sides=(MLP_XX, (MLP,)),
    settings={
        "fast": {"setting": "tiny", "seeds": 5, "n": (32, 64)},
        "full": {"setting": "base", "seeds": 5, "n": (32, 64, 256)},
    },
)

# Test losses published with Fig 22 and Fig 25, means of 5 trials.
PUBLISHED = {
    VANILLA: {4: 1.047, 16: 1.032, 64: 1.004, 256: 0.777, 512: 0.654, 1024: 0.125},
    WITH_A: {4: 1.046, 16: 0.631, 64: 0.038, 256: 0.0008, 512: 0.0016, 1024: 0.0021},
    WITH_B: {4: 1.017, 16: 0.969, 64: 0.977, 256: 0.748, 512: 0.141, 1024: 0.0023},
    WITH_AB: {4: 1.036, 16: 0.467, 64: 0.013, 256: 0.0019, 512: 0.001, 1024: 0.025},
    MLP_XX: {32: 0.132, 64: 0.138, 256: 0.142},  # Fig 25
    MLP: dict.fromkeys((4, 16, 64, 256, 512, 1024), 1.009),  # printed between .997 and 1.021
}


def _published(n: Sequence[int], architectures: Sequence[str]) -> xr.Dataset:
    values = [[PUBLISHED[name][size] for size in n] for name in architectures]
    return trajectory({"test_loss": (("architecture", "n"), values)}, {"architecture": list(architectures), "n": n})


def _measured(n: Sequence[int], architectures: Sequence[str], seeds: int, stand_in: str = "") -> xr.Dataset:
    """In the base setting; `stand_in` is trained in place of every architecture."""
    found = figures.fig22(n, (stand_in,) * len(architectures) if stand_in else architectures, seeds, "base")
    return trajectory(
        {
            "test_loss": (("architecture", "n"), found.test_loss.mean("seed").values),
            "spread": (("architecture", "n"), found.test_loss.std("seed", ddof=1).values),
        },
        {"architecture": list(architectures), "n": list(n)},
    )


fig22_published = Claim(
    id="abstract_symbols/fig22_published",
    source="Fig 22, published numbers",
    says="Mean test losses in the base setting are those published, within what they vary between figures.",
    predict=_published,
    observe=_measured,
    compare=close("test_loss", PUBLISHED_SPREAD, relative=False),
    settings={
        "fast": {"n": (16,), "architectures": (MLP,), "seeds": 2},
        "full": {"n": (16, 64), "architectures": (*TRANSFORMERS, MLP), "seeds": 5},
        "paper": {"n": (4, 16, 64, 256, 512, 1024), "architectures": (*TRANSFORMERS, MLP), "seeds": 5},
    },
    control=Control("an MLP with vec(XXᵀ) in place of every architecture", {"stand_in": MLP_XX}),
)

fig25_published = Claim(
    id="abstract_symbols/fig25_published",
    source="Fig 25, published numbers",
    says="Mean test losses of an MLP with vec(XXᵀ) in the base setting are those published, within what they vary.",
    predict=_published,
    observe=_measured,
    compare=close("test_loss", PUBLISHED_SPREAD, relative=False),
    settings={
        "fast": {"n": (32,), "architectures": (MLP_XX,), "seeds": 2},
        "full": {"n": (32, 64, 256), "architectures": (MLP_XX,), "seeds": 5},
    },
    control=Control("an MLP without it", {"stand_in": MLP}),
)

CLAIMS = [fig2, fig3, fig5, fig5_repaired, fig22, fig22_factor, fig22_published, fig23, fig25, fig25_published]
