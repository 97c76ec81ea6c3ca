"""Fig 2, 3, 5, 22, 23 and 25: what two numbers per head change, and what an MLP lacks."""

from __future__ import annotations

from typing import Any

from foretrain.models.sequence_baselines import LSTM, MLP, MLP_XX, RNN
from foretrain.papers.abstract_symbols.claims.published_numbers import ABA_ABB, published_copying, published_losses
from foretrain.papers.abstract_symbols.claims.sides import along, better_than, drawn_by_side
from foretrain.papers.abstract_symbols.experiments import architectures as figures
from foretrain.papers.abstract_symbols.simulations.trained import RATES, VANILLA, WITH_A, WITH_AB, WITH_B

fig2 = better_than(
    **along(figures.EXPERIMENTS, "abstract_symbols/fig2", "architecture"),
    says="On the two print programs, a·I in every head lowers the loss on unseen variables from the same samples.",
    expect_from="full",
    sides=(WITH_A, (VANILLA,)),
    settings={
        "fast": {"setting": "glance", "rates": (1e-2,), "seeds": 3, "n": (16,)},
        "full": {"setting": "small", "rates": (3e-3,), "seeds": 16, "n": (64, 128)},
        "paper": {"setting": "base", "rates": RATES, "seeds": 10, "n": (64, 128, 256, 512, 1024)},
    },
)

fig3 = better_than(
    **along(figures.EXPERIMENTS, "abstract_symbols/fig3", "architecture"),
    says="With symbols as labels, b·I in every head lowers the loss on unseen symbols from the same samples.",
    sides=(WITH_B, (VANILLA,)),
    settings={
        "fast": {"setting": "tiny", "rates": (1e-2,), "seeds": 4, "n": (32,), "depth": 2, "embedding": 32},
        "full": {"setting": "small", "rates": (1e-3,), "seeds": 8, "n": (64,), "depth": 4, "embedding": 128},
        "paper": {"setting": "base", "rates": RATES, "seeds": 10, "n": (256, 1024, 4096), "depth": 4, "embedding": 512},
    },
)

FIG5: dict[str, dict[str, Any]] = {
    "fast": {"setting": "tiny", "rates": (1e-2,), "seeds": 3, "n": (48,)},
    "full": {"setting": "base", "rates": (1e-3,), "seeds": 3, "n": (64,)},
}

fig5 = better_than(
    **along(figures.EXPERIMENTS, "abstract_symbols/fig5", "embedding", source="Fig 5 (a)"),
    says="Without b·I, more unseen symbols are copied wrongly at a larger embedding dimension, from the same samples.",
    quantity="wrong",
    figure=drawn_by_side(published_copying),
    settings={
        "fast": {**FIG5["fast"], "architecture": (VANILLA,), "better": 32, "worse": (128,)},
        "full": {**FIG5["full"], "architecture": (VANILLA,), "better": 64, "worse": (512,)},
    },
)

fig5_repaired = better_than(
    **along(
        figures.EXPERIMENTS,
        "abstract_symbols/fig5",
        "architecture",
        "abstract_symbols/fig5_repaired",
        source="Fig 5 (b)",
    ),
    says="With b·I, fewer unseen symbols are copied wrongly at the same embedding dimension, from the same samples.",
    quantity="wrong",
    sides=(WITH_B, (VANILLA,)),
    settings={"fast": {**FIG5["fast"], "embedding": (32, 128)}, "full": {**FIG5["full"], "embedding": (64, 512)}},
)

fig22_plain = better_than(
    **along(figures.EXPERIMENTS, "abstract_symbols/fig22", "architecture", "abstract_symbols/fig22_plain"),
    says="The plain transformer outperforms RNN, LSTM and MLP on αβα against αββ.",
    figure=drawn_by_side(published_losses(ABA_ABB)),
    sides=(VANILLA, (RNN, LSTM, MLP)),
    expect_from="full",
    settings={
        "fast": {"setting": "glance", "seeds": 3, "n": (64,), "rates": ()},
        "full": {"setting": "small", "seeds": 5, "n": (1024,), "rates": ()},
        "paper": {"setting": "base", "seeds": 10, "n": (512, 1024, 2048), "rates": figures.BASE_RATES},
    },
)

fig22 = better_than(
    **along(figures.EXPERIMENTS, "abstract_symbols/fig22", "architecture"),
    says="A transformer with a·I outperforms the plain one, RNN, LSTM and MLP on αβα against αββ.",
    figure=drawn_by_side(published_losses(ABA_ABB)),
    sides=(WITH_A, (VANILLA, RNN, LSTM, MLP)),
    settings={
        "fast": {"setting": "tiny", "seeds": 4, "n": (64,), "rates": ()},
        "full": {"setting": "small", "seeds": 5, "n": (64, 256), "rates": ()},
        "paper": {"setting": "base", "seeds": 10, "n": (32, 64, 128, 256, 512), "rates": figures.BASE_RATES},
    },
)


fig23 = better_than(
    **along(figures.EXPERIMENTS, "abstract_symbols/fig23", "architecture"),
    says="On majorities of k symbols, a·I and b·I together lower the loss from the same samples.",
    sides=(WITH_AB, (VANILLA,)),
    settings={
        "fast": {"setting": "tiny", "seeds": 4, "length": (2,), "n": (96,), "rates": ()},
        "full": {"setting": "small", "seeds": 5, "length": (2, 4), "n": (512,), "rates": ()},
        "paper": {
            "setting": "base",
            "seeds": 10,
            "length": (2, 3, 4, 5, 6),
            "n": (128, 512, 2048),
            "rates": figures.BASE_RATES,
        },
    },
)

fig25 = better_than(
    **along(figures.EXPERIMENTS, "abstract_symbols/fig25", "architecture"),
    says="An MLP that is given vec(XXᵀ) has a lower loss on unseen symbols than one that is not.",
    figure=drawn_by_side(published_losses(ABA_ABB)),
    sides=(MLP_XX, (MLP,)),
    settings={
        "fast": {"setting": "tiny", "seeds": 5, "n": (32, 64)},
        "full": {"setting": "base", "seeds": 5, "n": (32, 64, 256)},
    },
)

CLAIMS = [fig2, fig3, fig5, fig5_repaired, fig22, fig22_plain, fig23, fig25]
