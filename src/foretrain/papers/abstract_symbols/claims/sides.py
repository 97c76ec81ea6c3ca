"""Two statistics on trained networks: whether one side is better than others, and whether two cannot be told apart.

Losses are test losses at the rate that validation chose. The control of a comparison puts the better side on both
sides, with different seeds: what is left is chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy import stats

from foretrain.core.errors import require_whole
from foretrain.core.trajectory import config_of, trajectory
from foretrain.dynamics.validated import best_rate
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import bounded, every
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.tolerances import SURE_SIGN
from foretrain.papers.abstract_symbols.tolerances import CHANCE_OF_FEW, PUBLISHED_SPREAD

Make = Callable[..., xr.Dataset]
DIVERGED = 10.0  # the loss that a diverged run counts as: more than that of guessing a number or a symbol
SAME = Control("the same network and task on both sides, with other seeds", {"still": True})


def difference(make: Make, argument: str, quantity: str = "test_loss") -> Make:
    """How much lower the loss is at `better` than at each of `worse`, values of one argument of an experiment.

    With `quantity` "wrong" the share of wrong answers takes the place of the loss.

    `gain_in_errors` is the mean paired difference over seeds in its standard errors (Student's t), and `gain_low` the
    lower end of its one-sided 99 % interval. The losses of one seed at several n are not independent, so they count as
    one: their mean.
    """

    def observe(better: Any, worse: Sequence[Any], seeds: int, still: bool = False, **sizes: Any) -> xr.Dataset:
        require_whole("seeds", seeds, 2)
        ours = _losses(make, argument, better, range(1, seeds + 1), sizes, quantity)
        if still:
            sides = [_losses(make, argument, better, range(seeds + 1, 2 * seeds + 1), sizes, quantity)] * len(worse)
        else:
            sides = [_losses(make, argument, value, range(1, seeds + 1), sizes, quantity) for value in worse]
        losses = np.stack([ours, *sides])  # [side, seed]
        gains = losses[1:] - losses[0]
        error, gain = stats.sem(gains, axis=1), gains.mean(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            in_errors = np.nan_to_num(gain / error, nan=0.0)  # 0/0: the same losses on both sides
        names = [_name(value) for value in worse]
        return trajectory(
            {
                "gain_in_errors": ("worse", in_errors),
                "gain_low": ("worse", gain - needed_errors(seeds) * error),
                "gain": ("worse", gain),
                quantity: (("side", "seed"), losses),
            },
            {"worse": names, "side": [_name(better), *names]},
            argument=argument,
            setting=sizes.get("setting"),
            n=sizes.get("n"),
        )

    return observe


def no_difference(make: Make, argument: str) -> Make:
    """The chance of a difference this large between two values of an argument if there were none (paired t-test).

    `unnoticed` is how large the difference could still be: the farther end of its 95 % interval.
    """

    def observe(values: Sequence[Any], seeds: int, **sizes: Any) -> xr.Dataset:
        require_whole("seeds", seeds, 2)
        first, second = (_losses(make, argument, value, range(1, seeds + 1), sizes) for value in values)
        test = stats.ttest_rel(first, second)
        return trajectory(
            {
                "chance": float(test.pvalue),
                "unnoticed": float(np.abs(test.confidence_interval()).max()),
                "test_loss": (("side", "seed"), np.stack([first, second])),
            },
            {"side": [_name(value) for value in values]},
            argument=argument,
            setting=sizes.get("setting"),
            n=sizes.get("n"),
        )

    return observe


def _name(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _losses(
    make: Make, argument: str, value: Any, seeds: Sequence[int], sizes: dict[str, Any], quantity: str = "test_loss"
) -> np.ndarray:
    """One loss per seed: the mean over all other axes."""
    runs = make(**{**sizes, argument: (value,), "seeds": tuple(seeds)})
    runs = best_rate(runs) if "rate" in runs.dims else runs
    losses = runs.test_loss if quantity == "test_loss" else 1 - runs.test_accuracy
    losses = losses.fillna(DIVERGED)
    return losses.mean([axis for axis in losses.dims if axis != "seed"]).values


def with_train_loss(make: Make, argument: str) -> Make:
    """`difference`, and the train loss at the end of training at each of `worse`: its mean over seeds."""
    compare = difference(make, argument)

    def observe(better: Any, worse: Sequence[Any], seeds: int, still: bool = False, **sizes: Any) -> xr.Dataset:
        measured = compare(better, worse, seeds, still, **sizes)
        ends = [make(**{**sizes, argument: (value,), "seeds": tuple(range(1, seeds + 1))}) for value in worse]
        trained = [float(end.final_train_loss.fillna(DIVERGED).mean()) for end in ends]
        return measured.assign(train_loss=("worse", trained))

    return observe


def needed_errors(seeds: int) -> float:
    """Standard errors above which a mean over so many seeds is above 0 by more than chance (one-sided t-test)."""
    return float(stats.t.isf(CHANCE_OF_FEW.value, seeds - 1))


def some_gain(seeds: int) -> xr.Dataset:
    return trajectory({"needed": needed_errors(seeds)})


Published = Callable[[Mapping[str, Any]], Mapping[str, float]]  # from the configuration of a comparison, by side


def drawn_by_side(published: Published | None = None) -> Callable[[xr.Dataset, xr.Dataset], object]:
    """How such a claim is drawn: the loss of every seed on each side, beside published means where there are any."""

    def draw(_: xr.Dataset, measured: xr.Dataset) -> object:
        from foretrain.papers.abstract_symbols.figures import sides  # Plotly is loaded only to draw

        return sides.sides(measured, published(config_of(measured)) if published else {})

    return draw


def along(
    experiments: Sequence[Experiment], figure: str, argument: str, id: str = "", source: str = ""
) -> dict[str, Any]:
    """What a claim compares: an experiment along one of its arguments. By default the claim has its id and number."""
    make = next(experiment.run for experiment in experiments if experiment.id == figure)
    source = source or f"Fig {figure.partition('/fig')[2]}"
    return {"make": make, "argument": argument, "id": id or figure, "source": source}


GAIN = bounded("gain_in_errors", low="needed")


def better_than(
    make: Make,
    argument: str,
    settings: Mapping[str, Mapping[str, Any]],
    sides: tuple[Any, Sequence[Any]] | None = None,
    quantity: str = "test_loss",
    **claim: Any,
) -> Claim:
    """A claim that one value of an argument gives a lower loss, or error, than others.

    `sides` are (better, worse) if they are the same at every tier; otherwise each tier names its own.
    """
    shared = {} if sides is None else {"better": sides[0], "worse": sides[1]}
    return Claim(
        settings={tier: {**one, **shared} for tier, one in settings.items()},
        predict=some_gain,
        observe=difference(make, argument, quantity),
        compare=GAIN,
        **{"control": SAME, "whose": "the paper's statement", "figure": drawn_by_side(), **claim},
    )


def as_good_as(make: Make, argument: str, **claim: Any) -> Claim:
    """A claim that two values of an argument cannot be told apart, with enough seeds to see a difference that matters.

    A difference matters if it is larger than that between the losses which the paper prints for the same setting.
    """
    return Claim(
        observe=no_difference(make, argument),
        compare=every(bounded("chance", low=SURE_SIGN), bounded("unnoticed", high=PUBLISHED_SPREAD)),
        **{"whose": "the paper's statement", "figure": drawn_by_side(), **claim},
    )
