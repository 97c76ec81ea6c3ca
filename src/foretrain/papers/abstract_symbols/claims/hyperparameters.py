"""Fig 8 to 16: what the captions say of learning rate, depth, heads, width, batch size and the last layer.

At tier fast the networks are tiny and have a·I, which lets them learn from 128 samples. From tier full on they do not
have it, like the paper's. What cannot be seen at tier fast has an expected verdict only from tier full on.
"""

from __future__ import annotations

from typing import Any

from foretrain.ledger.claim import Control
from foretrain.papers.abstract_symbols.claims.sides import as_good_as, better_than
from foretrain.papers.abstract_symbols.experiments import hyperparameters as figures
from foretrain.papers.abstract_symbols.experiments.trained import VANILLA, WITH_A

GLANCE = {"setting": "glance", "seeds": 3, "n": 32}  # where nothing is expected at tier fast
TINY = {"setting": "tiny", "architecture": WITH_A, "seeds": 4, "n": 128, "rates": (1e-2,)}
SMALL = {"setting": "small", "architecture": VANILLA, "seeds": 16, "n": 1024, "rates": (3e-3,)}
BASE = {"setting": "base", "architecture": VANILLA, "seeds": 10, "n": 512, "rates": figures.RATES}


def _settings(fast: dict[str, Any], full: dict[str, Any], paper: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {"fast": {**TINY, **fast}, "full": {**SMALL, **full}, "paper": {**BASE, **paper}}


def _without_rates(settings: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {tier: {k: v for k, v in one.items() if k != "rates"} for tier, one in settings.items()}


fig8 = better_than(
    figures.fig8,
    "rates",
    id="abstract_symbols/fig8",
    source="Fig 8",
    says="Too large (.1, past the end of the figure) or too small a learning rate hurts generalisation.",
    settings=_without_rates(
        _settings(
            {"n": (128,), "better": 1e-2, "worse": (3e-4, 1e-1)},
            {"n": (1024,), "better": 3e-3, "worse": (1e-4, 1e-1)},
            {"n": (512, 1024, 2048), "better": 1e-3, "worse": (1e-5, 1e-1)},
        )
    ),
)

fig9 = as_good_as(
    figures.fig9,
    "depths",
    id="abstract_symbols/fig9",
    source="Fig 9",
    says="With fewer samples there is no clear relationship between depth, from 2 on, and generalisation.",
    settings=_settings({"values": (2, 4), **GLANCE}, {"values": (2, 4), "n": 512}, {"values": (2, 8)}),
    control=Control("one layer against two, which does matter", {"values": (1, 2)}),
    expect_from="full",
)

fig10 = better_than(
    figures.fig10,
    "depths",
    id="abstract_symbols/fig10",
    source="Fig 10",
    says="With more samples a deeper network does better than one of a single layer.",
    settings=_settings(
        {"better": 2, "worse": (1,)}, {"better": 2, "worse": (1,)}, {"better": 8, "worse": (1,), "n": 1024}
    ),
)

fig11 = better_than(
    figures.fig11,
    "heads",
    id="abstract_symbols/fig11",
    source="Fig 11",
    says="More heads are better than one.",
    settings=_settings(
        {"better": 2, "worse": (1,), **GLANCE}, {"better": 4, "worse": (1,)}, {"better": 16, "worse": (1,)}
    ),
    expect_from="full",
)

fig12 = better_than(
    figures.fig12,
    "heads",
    id="abstract_symbols/fig12",
    source="Fig 12",
    says="With more samples too, more heads are better.",
    settings=_settings(
        {"better": 4, "worse": (1,), **GLANCE},
        {"better": 4, "worse": (1,), "n": 2048, "seeds": 5},
        {"better": 32, "worse": (1, 2), "n": 1024},
    ),
    expect_from="full",
)

fig13 = better_than(
    figures.fig13,
    "embeddings",
    id="abstract_symbols/fig13",
    source="Fig 13",
    says="A smaller embedding dimension is generally better at n = 1024.",
    settings=_settings(
        {"better": 8, "worse": (16,), **GLANCE},
        {"better": 32, "worse": (128,)},
        {"better": 64, "worse": (512,), "n": 1024},
    ),
    expect_from="full",
)

fig14 = better_than(
    figures.fig14,
    "batch_sizes",
    id="abstract_symbols/fig14",
    source="Fig 14",
    says="A smaller batch is better at n = 512.",
    settings=_settings(
        {"better": 16, "worse": (32,), **GLANCE},
        {"better": 64, "worse": (512,), "n": 512},
        {"better": 32, "worse": (512,)},
    ),
    expect_from="full",
)

fig15 = better_than(
    figures.fig15,
    "multipliers",
    id="abstract_symbols/fig15",
    source="Fig 15",
    says="With only the last layer trained, attention logits begun 64 times as large generalise better.",
    sides=(64.0, (1.0,)),
    settings={
        "fast": {"setting": "tiny", "seeds": 8, "n": (512,), "epochs": 1000, "heads": 32},
        "full": {"setting": "small", "seeds": 5, "n": (512, 2048), "epochs": 5000, "heads": 64},
        "paper": {"setting": "base", "seeds": 10, "n": (1024, 4096), "epochs": 10000, "heads": 64},
    },
)

fig16 = better_than(
    figures.fig16,
    "batch_sizes",
    id="abstract_symbols/fig16",
    source="Fig 16",
    says="A smaller batch is generally better, over several n.",
    settings=_without_rates(
        _settings(
            {"better": 16, "worse": (32,), **GLANCE, "n": (32,)},
            {"better": 64, "worse": (512,), "n": (256, 512)},
            {"better": 32, "worse": (1024,), "n": (256, 512, 1024)},
        )
    ),
    expect_from="full",
)

CLAIMS = [fig8, fig9, fig10, fig11, fig12, fig13, fig14, fig15, fig16]
