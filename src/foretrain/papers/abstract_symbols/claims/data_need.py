"""How much less data the two scalings need: factors of samples, lowest over seeds (Fig 2, 22, 23, Observation 1.2).

At tier fast the networks are too small to show the three factors, which are only measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import bounded
from foretrain.ledger.tolerances import Tolerance
from foretrain.papers.abstract_symbols.experiments.architectures import BASE_RATES, SAMPLES
from foretrain.papers.abstract_symbols.experiments.data_need import (
    EXPERIMENTS,
    IN_ONE_BATCH,
    OF_SYMBOLS,
    OF_THOUSANDS,
    TASKS,
    data_need,
    factors,
)
from foretrain.papers.abstract_symbols.simulations.trained import VANILLA, WITH_A, WITH_AB, WITH_B, task_called

RUNS = {experiment.id: experiment.run for experiment in EXPERIMENTS}
AXES = ("task", "architecture", "n", "seed")
ORDER_OF_MAGNITUDE = Tolerance(8.0, "times less data: our reading of the order of magnitude of Observation 1.2")
NO_FACTOR = Tolerance(1.0, "as much data as without")


def _factor(task: str, modified: str, n: Sequence[int], **sizes: Any) -> xr.Dataset:
    """The samples that the plain network needs at least, over those that the modified one needs."""
    needs = data_need(task, n, (VANILLA, modified), **sizes)
    ours = needs.sel(architecture=modified)
    return trajectory(
        {
            **{name: float(ours[name]) for name in ("factor", "factor_low", "factor_high")},
            "needed": ("side", needs.n_needed.values),
            "miss": (("side", "n", "seed"), needs.miss.transpose("architecture", "n", "seed").values),
        },
        {"side": [VANILLA, modified], "n": list(n), "seed": needs.seed.values},
    )


def _order_of_magnitude(id: str, says: str, task: str, modified: str, **claim: Any) -> Claim:
    shared = {"task": task, "modified": modified, "loss": 0.1}
    return Claim(
        id=id,
        says=says,
        observe=_factor,
        compare=bounded("factor_low", low=ORDER_OF_MAGNITUDE),
        settings={tier: {**shared, **sizes} for tier, sizes in claim.pop("sizes").items()},
        **{"expect_from": "full", "whose": "the paper's statement", **claim},
    )


fig2_factor = _order_of_magnitude(
    "abstract_symbols/fig2_factor",
    "a·I lowers the data needed for the print programs by an order of magnitude: at least eight times less.",
    "print_program",
    WITH_A,
    source="Fig 2, Observation 1.2",
    sizes={
        "fast": {"n": (8, 64), "seeds": 2, "setting": "glance", "loss": 0.9},
        "full": {"n": (256, 512, 8192), "seeds": 3, "setting": "small", "epochs": 100},
        "paper": {"n": SAMPLES, "seeds": 5, "setting": "base"},
    },
    control=Control("b·I in place of a·I", {"modified": WITH_B}),
)

fig22_factor = _order_of_magnitude(
    "abstract_symbols/fig22_factor",
    "a·I lowers the data needed for αβα against αββ by an order of magnitude: at least eight times less.",
    "aba_abb",
    WITH_A,
    source="Fig 22, Observation 1.2",
    sizes={
        "fast": {"n": (8, 64), "seeds": 2, "setting": "glance", "loss": 0.9},
        "full": {"n": (64, 96, 128, 1024, 1448), "seeds": 3, "setting": "base", "epochs": 200, "rates": BASE_RATES},
        "paper": {"n": SAMPLES, "seeds": 5, "setting": "base", "rates": BASE_RATES},
    },
    control=Control("b·I in place of a·I", {"modified": WITH_B}),
)

fig23_factor = _order_of_magnitude(
    "abstract_symbols/fig23_factor",
    "a·I and b·I together lower the data needed for majorities by at least an order of magnitude: at least eight times "
    "less. (Eight is our reading. The paper's own numbers come at every fourth size and bound the factor to 1 to 16 at "
    "length 4 and to 4 to 64 at length 2.)",
    "majority_2",
    WITH_AB,
    source="Fig 23",
    sizes={
        "fast": {"n": (8, 64), "seeds": 2, "setting": "glance", "loss": 0.9},
        "full": {"n": (64, 128, 256, 2048), "seeds": 3, "setting": "small"},
        "paper": {"n": SAMPLES, "seeds": 5, "setting": "base", "task": "majority_4", "rates": BASE_RATES},
    },
    control=Control("b·I alone", {"modified": WITH_B}),
    expect=None,
)


def _gains(tasks: Sequence[str], seeds: int, loss: float, still: bool = False, **sizes: Any) -> xr.Dataset:
    """`factor_low` of the scalings that should help, on the tasks that are learned; the factors of all three.

    A task is learned if any network with any seed learns it from the largest size. If the answer is a number, a·I
    should help, and if it is a symbol, b·I, each alone and with the other. `factor_low` of 1 or more says that the
    plain network needs more samples. `still` compares the network with both scalings to itself with other seeds.
    """
    names = (VANILLA, WITH_A, WITH_B, WITH_AB)
    run = RUNS["abstract_symbols/data_need"]
    needs = run(task=tasks, architectures=names, seeds=seeds, loss=loss, **sizes)
    low = needs.factor_low
    if still:
        others = tuple(range(seeds + 1, 2 * seeds + 1))
        again = run(task=tasks, architectures=(WITH_AB,), seeds=others, loss=loss, **sizes).miss
        again = again.isel(architecture=0, drop=True).assign_coords(seed=needs.seed)
        both = needs.miss.sel(architecture=WITH_AB, drop=True)
        low = factors(again, both, loss).factor_low.expand_dims(architecture=list(names))
    is_learned = (needs.miss.isel(n=-1) < loss).any(["architecture", "seed"])
    learned = [task for task in tasks if is_learned.sel(task=task)] or list(tasks)
    helped = {task: (WITH_A if task_called(task)[0].kind == "regression" else WITH_B, WITH_AB) for task in learned}
    helped_low = [[float(low.sel(task=task, architecture=name)) for name in helped[task]] for task in learned]
    return trajectory(
        {
            "helped_low": (("learned", "helped"), helped_low),
            **{
                name: (("task", "architecture"), needs[name].transpose("task", "architecture").values)
                for name in ("factor", "factor_low", "factor_high", "n_needed")
            },
            "miss": (AXES, needs.miss.transpose(*AXES).values),
        },
        {
            **{axis: needs[axis].values for axis in AXES},
            "learned": [task_called(task)[0].name for task in learned],
            "helped": ["alone", "both"],
        },
        most_samples=int(needs.n.max()),
    )


def _draw(_: xr.Dataset, measured: xr.Dataset) -> object:
    from foretrain.papers.abstract_symbols.figures import needs  # Plotly is loaded only to draw

    return needs.gained(measured)


def _every_task(id: str, says: str, sizes: Mapping[str, Mapping[str, Any]], **claim: Any) -> Claim:
    return Claim(
        id=id,
        source="Observation 1.2",
        whose="the paper's statement",
        says=f"On every task that is learned the plain transformer needs more samples than {says}, with every seed.",
        observe=_gains,
        figure=_draw,
        compare=bounded("helped_low", low=NO_FACTOR),
        settings=sizes,
        control=Control("both scalings on both sides, with other seeds", {"still": True}),
        **claim,
    )


data_need_claim = _every_task(
    "abstract_symbols/data_need",
    "one with a·I (where the answer is a number) or b·I (where it is a symbol), alone and both together",
    {
        "fast": {
            "tasks": ("same_different",),
            "n": (128, 256),
            "seeds": 2,
            "setting": "tiny",
            "loss": 0.5,
            "epochs": 60,
        },
        "full": {
            "tasks": IN_ONE_BATCH,
            "n": (64, 128, 256, 512, 1024),
            "seeds": 3,
            "setting": "small",
            "loss": 0.1,
            "epochs": 100,
        },
        "paper": {
            "tasks": TASKS,
            "n": SAMPLES,
            "seeds": 5,
            "setting": "base",
            "loss": 0.1,
            "epochs": None,
            "rates": BASE_RATES,
        },
    },
)

data_need_thousands = _every_task(
    "abstract_symbols/data_need_thousands",
    "one with a·I, alone and together with b·I, on majorities of 4 and 6 and on distribution of 3 (mini-batches)",
    {
        "fast": {"tasks": ("majority_4",), "n": (16,), "seeds": 2, "setting": "glance", "loss": 0.9, "patience": 10},
        "full": {
            "tasks": OF_THOUSANDS,
            "n": (1024, 2048, 4096, 8192),
            "seeds": 3,
            "setting": "minibatch",
            "loss": 0.1,
            "patience": 10,
        },
        "paper": {
            "tasks": OF_THOUSANDS,
            "n": (512, 1024, 2048, 4096, 8192, 16384, 32768),
            "seeds": 5,
            "setting": "minibatch",
            "loss": 0.1,
            "patience": 20,
            "epochs": 100,
        },
    },
    expect_from="full",
)

data_need_symbols = _every_task(
    "abstract_symbols/data_need_symbols",
    "one with b·I, alone and together with a·I, on print programs that ask for a symbol (mini-batches, "
    "attention logits ten times as large)",
    {
        "fast": {"tasks": OF_SYMBOLS, "n": (16,), "seeds": 2, "setting": "glance", "loss": 0.9},
        "full": {"tasks": OF_SYMBOLS, "n": (1024, 2048, 4096), "seeds": 3, "setting": "symbols", "loss": 0.1},
        "paper": {"tasks": OF_SYMBOLS, "n": (1024, 2048, 4096, 8192), "seeds": 5, "setting": "symbols", "loss": 0.1},
    },
    expect=None,  # with both most seeds learn, from 2048 samples all three, with b·I alone few
)

CLAIMS = [fig2_factor, fig22_factor, fig23_factor, data_need_claim, data_need_thousands, data_need_symbols]
