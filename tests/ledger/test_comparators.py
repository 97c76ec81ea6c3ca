"""Every comparator says holds where it should, fails where it should, and never passes a nan."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from foretrain.core.trajectory import trajectory
from foretrain.ledger import comparators as c
from foretrain.ledger.claim import Comparator, Drawn, Outcome
from foretrain.ledger.margins import compared_to, margin_words, number
from foretrain.ledger.quantities import BASE, Quantity
from foretrain.ledger.tolerances import Tolerance

TOLERANCE = Tolerance(1e-3, "made up")
NOTHING = xr.Dataset()


def series(**values: object) -> xr.Dataset:
    return xr.Dataset({k: ("time", np.asarray(v, float)) for k, v in values.items()}, {"time": [1.0, 2.0, 4.0]})


@given(st.floats(-5e-3, 5e-3), st.floats(0.01, 100))
def test_close_measures_the_largest_difference(offset: float, size: float) -> None:
    predicted = series(h=[0, size, size / 2])
    outcome = c.close("h", TOLERANCE)(predicted, predicted + offset)
    error = abs(offset) / max(1, size)
    assert 1e-3 / outcome.margin == pytest.approx(error, abs=1e-12)
    assert (outcome.status == "holds") == (error <= 1e-3) == (outcome.margin >= 1)


def test_close_wants_the_same_points() -> None:
    with pytest.raises(ValueError, match="exact"):
        c.close("h", TOLERANCE)(series(h=[1, 2, 3]), series(h=[1, 2, 3]).isel(time=[0, 1]))


def test_close_wants_axes_that_meet() -> None:
    one, other = xr.Dataset({"h": (("x", "y"), np.ones((2, 2)))}), xr.Dataset({"h": ("z", np.ones(3))})
    with pytest.raises(ValueError, match="no axes"):
        c.close("h", TOLERANCE)(one, other)


def test_bounded_wants_the_same_points() -> None:
    with pytest.raises(ValueError, match="exact"):
        c.bounded("h", high="high")(series(high=[3, 3, 3]), series(h=[1, 9, 9]).assign_coords(time=[4.0, 5.0, 6.0]))


def test_slope_does_not_average_unlike_rows() -> None:
    t = np.array([1.0, 2.0, 4.0])
    rows = xr.Dataset({"h": (("row", "time"), np.stack([t**2, 1000 * t]))}, {"time": t})
    outcome = c.slope("h", "time", 1.0)(NOTHING, rows)
    assert outcome.status == "fails"
    assert 0.1 / outcome.margin == pytest.approx(1.0)


def test_close_relative_sees_small_values() -> None:
    outcome = c.close_relative("h", TOLERANCE)(series(h=[1, 1, 1e-6]), series(h=[1, 1, 1.1e-6]))
    assert outcome.status == "fails"
    assert 1e-3 / outcome.margin == pytest.approx(0.1)


@pytest.mark.parametrize(("value", "status"), [([1, 2, 3], "holds"), ([1, 2, 3.5], "fails"), ([-1, 2, 3], "fails")])
def test_bounded(value: list[float], status: str) -> None:
    bounds = series(low=[0, 0, 0], high=[3, 3, 3])
    assert c.bounded("h", low="low", high="high")(bounds, series(h=value)).status == status


def test_conserved() -> None:
    assert c.conserved("h", TOLERANCE)(NOTHING, series(h=[2, 2, 2.001])).status == "holds"
    assert c.conserved("h", TOLERANCE)(NOTHING, series(h=[2, 2, 2.01])).status == "fails"


@given(st.floats(-3, 3), st.floats(0.1, 10))
def test_slope_reads_the_exponent(power: float, factor: float) -> None:
    t = np.array([1.0, 2.0, 4.0])
    assert c.slope("h", "time", power)(NOTHING, series(h=factor * t**power)).margin > 1e6
    assert c.slope("h", "time", power + 0.2)(NOTHING, series(h=factor * t**power)).status == "fails"


def seeds(*rows: list[float]) -> xr.Dataset:
    return xr.Dataset({"e": (("rate", "seed"), list(rows))})


def test_ranked_averages_seeds_first() -> None:
    values = seeds([1.0, 3.0, 2.0], [2.0, 4.5, 3.3], [3.0, 5.1, 4.2])  # seeds differ more than rates do
    rising = c.ranked("e", "rate", rising=True)(NOTHING, values)
    assert rising.status == "holds"
    assert c.ranked("e", "rate", rising=False)(NOTHING, values).status == "fails"
    weakest = np.array([1.0, 0.6, 0.9])  # paired differences of the second step
    units = weakest.mean() / (weakest.std(ddof=1) / 3**0.5)
    assert rising.margin == pytest.approx(units / t.ppf(0.975, 2))
    assert f"{units:.1f} standard errors of 3 paired seeds, 4.3 needed" in rising.reason


def test_ranked_is_inconclusive_where_noise_would_do_as_well() -> None:
    """3.1 and 3.3 standard errors, either way: ±d with a spread of 1 over four seeds, whose error is 1/2."""
    for units, up, down in ((3.1, "inconclusive", "inconclusive"), (3.3, "holds", "fails")):
        deviations = np.array([-1, -1, 1, 1]) * (3 / 4) ** 0.5
        steps = units / 2 + deviations
        values = seeds([0.0] * 4, steps.tolist())
        assert c.ranked("e", "rate", rising=True)(NOTHING, values).status == up
        assert c.ranked("e", "rate", rising=False)(NOTHING, values).status == down
    assert np.isnan(c.ranked("e", "rate", rising=True)(NOTHING, seeds([0.0, 1.0], [1.0, 0.5])).margin)
    alone = c.ranked("e", "rate", rising=True)(NOTHING, seeds([1.0], [1.01]))  # one seed: nothing to judge noise by
    assert (alone.status, alone.margin) == ("holds", 1.0)
    assert "one seed" in alone.reason


@pytest.mark.parametrize("count", [2, 3, 5, 20])
def test_ranked_decides_noise_in_one_draw_of_twenty_however_few_the_seeds(count: int) -> None:
    random, judge = np.random.default_rng(count), c.ranked("e", "rate", rising=True)
    draws = [judge(NOTHING, seeds([0.0] * count, random.normal(size=count).tolist())).status for _ in range(600)]
    decided = sum(status != "inconclusive" for status in draws)
    assert 600 * 0.05 - 3 * 5.4 < decided < 600 * 0.05 + 3 * 5.4  # two standard errors would decide .30 with two seeds


def test_as_printed_leaves_out_what_cannot_be_told() -> None:
    def judged(*losses: list[float], guess: float = 1.0) -> object:
        printed = trajectory({"loss": ("n", [0.04, 0.6][: len(losses)])}, {"n": [64, 16][: len(losses)]})
        measured = trajectory(
            {"loss": (("n", "seed"), list(losses))}, {"n": printed.n.values, "seed": range(1, 1 + len(losses[0]))}
        )
        return c.as_printed("loss", Tolerance(0.15, "made up"), trials=5, guess=guess)(printed, measured)

    assert judged([0.01, 0.12, 0.02]).status == "holds"
    assert judged([0.31, 0.36, 0.33]).status == "fails"
    assert judged([0.03, 0.97, 0.02]).status == "inconclusive"  # a mean of coin flips tells nothing
    assert judged([0.0, 1.0, 0.0, 1.0, 0.0]).status == "inconclusive"
    both = judged([0.01, 0.12, 0.02], [0.1, 1.0, 0.4])
    assert both.status == "holds"
    assert "at 1 of 2 points, and varies too much over seeds to tell at the others" in both.reason
    assert judged([0.31, 0.36, 0.33], [0.1, 1.0, 0.4]).status == "fails"
    assert judged([0.7, 1.1, 0.9]).status == "fails"  # it varies much, and yet is far
    assert judged([0.01, float("nan"), 0.02]).status == "fails"
    assert judged([0.01, 0.12, 0.02], guess=0.1).status == "inconclusive"  # who guesses has that loss too
    assert judged([0.31, 0.36, 0.33], guess=0.1).status == "fails"


def test_positive() -> None:
    assert c.positive("h")(NOTHING, series(h=[1, 2, 3])).status == "holds"
    assert c.positive("h")(NOTHING, series(h=[1, 2, 0])).status == "fails"


def test_positive_in_seeds_has_a_margin_in_standard_errors() -> None:
    holds = c.positive("e")(NOTHING, seeds([1.0, 2.0, 3.0], [5.0, 5.1, 5.2]))
    assert holds.status == "holds"
    assert holds.margin == pytest.approx(1 + 2 * 3**0.5)  # a mean of 2 with an error of 1/√3
    fails = c.positive("e")(NOTHING, seeds([1.0, 2.0, -1.0]))
    assert fails.status == "fails"
    assert fails.margin == pytest.approx(1 / (1 + 1 / np.std([1, 2, -1], ddof=1)))
    assert c.positive("e")(NOTHING, seeds([1.0, np.nan])).status == "fails"
    alone = c.positive("e")(NOTHING, seeds([0.1]))
    assert (alone.status, alone.margin) == ("holds", 1.0)
    assert c.positive("e")(NOTHING, xr.Dataset({"e": ("rate", [0.1])})).margin > 1000  # computed, not sampled


def test_bounded_by_0_in_seeds_has_a_margin_in_standard_errors() -> None:
    below = c.bounded("e", high="most")(xr.Dataset({"most": 0.0}), seeds([-1.0, -2.0, -3.0]))
    assert below.margin == pytest.approx(1 + 1 / (1 / 3**0.5))  # the nearest seed is 1 away, with an error of 1/√3
    computed = c.bounded("e", high="most")(xr.Dataset({"most": 0.0}), xr.Dataset({"e": ("rate", [-1.0, -2.0])}))
    assert computed.margin > 1000


def test_surely_positive() -> None:
    values = seeds([1.0, 2.0, 3.0, 2.0])  # 2 ± .408, 4.9 standard errors
    sure = c.surely_positive("e")(NOTHING, values)
    assert (sure.status, sure.margin) == ("holds", pytest.approx(24**0.5 / 3))
    assert "2 ± 0.4082, 4.9 standard errors above 0; 3 are needed" in sure.reason
    below = c.surely_positive("e")(NOTHING, -values)
    assert "−2 ± 0.4082, 4.9 standard errors below 0; 3 above it are needed" in below.reason
    unsure = c.surely_positive("e", surely=False)(NOTHING, values)
    assert (unsure.status, unsure.margin) == ("fails", pytest.approx(3 / 24**0.5))
    few = seeds([1.0, -0.5, 2.0])
    assert c.surely_positive("e")(NOTHING, few).status == "fails"
    assert c.surely_positive("e", surely=False)(NOTHING, few).status == "holds"
    assert c.surely_positive("e")(NOTHING, seeds([-1.0, -1.1])).margin < 0.1
    given = xr.Dataset({"gap": 1.0, "gap_error": 0.25})
    assert c.surely_positive("gap", error="gap_error")(NOTHING, given).margin == pytest.approx(4 / 3)
    for surely in (True, False):
        assert c.surely_positive("e", surely=surely)(NOTHING, seeds([1.0, np.nan])).status == "fails"
    worst = c.surely_positive("e")(NOTHING, seeds([5.0, 5.1], [0.1, -0.1]))  # everywhere
    assert worst.status == "fails"


def test_covered_forgives_chance_but_not_a_wrong_bound() -> None:
    promised = xr.Dataset({"share": 0.95})
    inside = np.arange(1000) >= 55  # 94.5 %
    assert c.covered("inside", "share")(promised, xr.Dataset({"inside": ("draw", inside)})).status == "holds"
    inside = np.arange(1000) >= 90  # 91 %
    assert c.covered("inside", "share")(promised, xr.Dataset({"inside": ("draw", inside)})).status == "fails"


def test_same_mean_wants_every_predicted_point() -> None:
    published = xr.Dataset({"e": ("q", [1.0, np.nan, 1.0]), "e_std": 0.3, "e_seeds": 10}, {"q": [1, 2, 3]})
    measured = xr.Dataset({"e": (("q", "seed"), [[0.9, 1.0, 1.1]] * 3)}, {"q": [1, 2, 3]})
    assert c.same_mean("e")(published, measured).status == "holds"
    part = c.same_mean("e")(published, measured.sel(q=[1, 2]))
    assert part.status == "fails"
    assert "1 of 2" in part.reason


def test_same_mean_counts_both_errors_and_needs_seeds() -> None:
    published = xr.Dataset({"e": 1.0, "e_std": 0.3, "e_seeds": 10})
    draws = 1.0 + 0.3 * np.random.default_rng(0).standard_normal(10)
    compare = c.same_mean("e")
    assert compare(published, xr.Dataset({"e": ("seed", draws)})).status == "holds"
    assert compare(published, xr.Dataset({"e": ("seed", draws + 1)})).status == "fails"
    assert compare(published, xr.Dataset({"e": ("seed", draws[:2])})).status == "inconclusive"
    draws[0] = np.nan
    assert compare(published, xr.Dataset({"e": ("seed", draws)})).status == "fails"


def test_converges_wants_the_rate_and_the_size() -> None:
    widths = np.array([16.0, 64.0, 256.0])
    exact = xr.Dataset({"k": (("net", "i"), [[1.0, 2.0]])}, {"net": ["a"]})
    coords = {"net": ["a"], "width": widths, "seed": [1]}

    def measured(power: float, size: float) -> xr.Dataset:
        values = np.array([1.0, 2.0]) + size * widths[None, :, None, None] ** power
        return xr.Dataset({"k": (("net", "width", "seed", "i"), values)}, coords)

    compare = c.converges("k", "width", Tolerance(0.15, "made up"), Tolerance(2.0, "made up"))
    assert compare(exact, measured(-0.5, 1.0)).status == "holds"
    assert compare(exact, measured(-1.0, 1.0)).status == "fails"
    assert compare(exact, measured(-0.5, 10.0)).status == "fails"
    assert compare(exact, measured(-0.5, np.nan)).status == "fails"


@pytest.mark.parametrize(
    "compare",
    [c.close("h", TOLERANCE), c.close_relative("h", TOLERANCE), c.bounded("h", low="h"),
     c.conserved("h", TOLERANCE), c.positive("h"), c.ranked("h", "time", rising=True),
     c.slope("h", "time", 1.0)],
)  # fmt: skip
def test_not_a_number_never_holds(compare) -> None:
    """Not even where everything beside it is right."""
    assert compare(series(h=[1.0, 1.0, 1.0]), series(h=[1.0, np.nan, 1.0])).status == "fails"
    assert compare(series(h=[1.0, 1.0, 1.0]), series(h=[np.nan] * 3)).status == "fails"


def test_every_reports_the_worst_part() -> None:
    def says(status: str, margin: float):
        return Comparator(lambda p, o, q: Outcome(status, margin, f"{status} {margin}"), (Drawn(status),))

    assert c.every(says("holds", 5.0), says("holds", 1.1))(NOTHING, NOTHING).margin == 1.1
    out = c.every(says("holds", 5.0), says("fails", 0.5), says("fails", 0.1), says("inconclusive", np.nan))
    worst = out(NOTHING, NOTHING)
    assert (worst.status, worst.margin, worst.reason) == ("fails", 0.1, "fails 0.5. fails 0.1")
    undecided = c.every(says("holds", 5.0), says("inconclusive", np.nan))(NOTHING, NOTHING)
    assert undecided.status == "inconclusive"


def by_network(**values: object) -> xr.Dataset:
    return xr.Dataset(
        {k: (("network", "asked"), np.asarray(v, float)) for k, v in values.items()}, {"network": ["a", "b"]}
    )


@given(st.floats(-0.5, 0.5), st.floats(0.5, 1.5))
def test_explains_is_the_worst_share_of_variance_around_the_line_of_slope_one(shift: float, factor: float) -> None:
    """A shift s and a factor f of scores −1, 0, 1 leave (3s² + 2(f − 1)²)/2f² of the measured variance."""
    predicted = by_network(score=[[-1, 0, 1], [-1, 0, 1]])
    observed = by_network(score=[[-1, 0, 1], [shift - factor, shift, shift + factor]])
    outcome = c.explains("score", Tolerance(0.05, "made up"))(predicted, observed)
    expected = (3 * shift**2 + 2 * (factor - 1) ** 2) / (2 * factor**2)
    assert 0.05 / outcome.margin == pytest.approx(expected, abs=1e-12)
    assert outcome.status == ("holds" if expected <= 0.05 else "fails")
    if expected > 1e-6:
        assert "least for network b" in outcome.reason


def test_explains_never_passes_a_nan() -> None:
    predicted = by_network(score=[[-1, 0, 1], [-1, 0, 1]])
    observed = by_network(score=[[-1, 0, np.nan], [-1, 0, 1]])
    assert c.explains("score", TOLERANCE)(predicted, observed).status == "fails"


def test_a_comparator_says_what_it_draws_and_cannot_be_changed() -> None:
    both = c.every(c.close("h", TOLERANCE), c.bounded("g", low="least"))
    assert both.draws == (Drawn("h", "h"), Drawn("g", low="least"))
    with pytest.raises(FrozenInstanceError):
        both.draws = ()  # type: ignore[misc]


def test_no_difference_is_called_exact() -> None:
    assert c.close("h", TOLERANCE)(series(h=[1.0, 2.0, 3.0]), series(h=[1.0, 2.0, 3.0])).reason == "h agrees exactly"


def test_a_reason_gives_both_values_where_they_differ_most() -> None:
    compare = c.close("h", TOLERANCE, by="by the printed formula", seen="by integration")
    called_b = BASE.extended(Quantity("h", "B", unit="nats"))
    wrong = compare(series(h=[1.0, 2.074, 1.0]), series(h=[1.0, 2.65, 1.0]), called_b)
    assert wrong.reason == (
        "B is 2.074 nats by the printed formula and 2.65 by integration at t = 2, 22 % too low; 0.001 is allowed"
    )
    right = compare(series(h=[1.0, 2.0, 1.0]), series(h=[1.0, 2.0, 1.0 + 2e-12]), called_b)
    assert right.reason == "B agrees to 10⁻¹² at all 3 points; 0.001 is allowed"


def test_no_name_from_the_code_reaches_a_reader() -> None:
    bounds = series(least_share=[0.5, 0.5, 0.5])
    reason = c.bounded("alive_share", low="least_share")(bounds, series(alive_share=[0.4, 0.6, 0.6])).reason
    assert reason == "Alive share is 0.4 at t = 1; at least 0.5 is needed"


@given(st.floats(-10, 10), st.floats(-10, 10), st.floats(0, 1))
def test_margins_of_bounds_agree_with_their_status(value: float, edge: float, slack: float) -> None:
    compare = c.bounded("h", high="high", slack=Tolerance(slack, "made up"))
    outcome = compare(series(high=[edge] * 3), series(h=[value] * 3))
    assert (outcome.status == "holds") == (value - edge <= slack) == (outcome.margin >= 1)


def test_the_margin_between_two_bounds_counts_from_their_middle() -> None:
    bounds = series(low=[0.9] * 3, high=[1.1] * 3)
    compare = c.bounded("h", low="low", high="high")
    assert compare(bounds, series(h=[1.01, 1.0, 1.0])).margin == pytest.approx(10)
    assert compare(bounds, series(h=[1.2, 1.0, 1.0])).margin == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("margin", "words"),
    [(12.3, "12× inside"), (1.0, "1× inside"), (0.5, "2× outside"), (np.inf, ">1000× inside"), (0.0, ">1000× outside"),
     (np.nan, "")],
)  # fmt: skip
def test_margins_in_words(margin: float, words: str) -> None:
    assert margin_words(margin) == words


@pytest.mark.parametrize(
    ("value", "text"),
    [(2.65, "2.65"), (0.0, "0"), (2e-12, "2·10⁻¹²"), (1e-8, "10⁻⁸"), (-1e6, "−10⁶"), (12345.6, "12346"), (-0.5, "−0.5"),
     (1823.37, "1823"), (3.14e7, "3.1·10⁷")],
)  # fmt: skip
def test_numbers_as_written_by_hand(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "truth", "words"),
    [
        (2.0, 4.0, "50 % too low"),
        (12.0, 4.0, "3 times too high"),
        (-12.0, -4.0, "3 times too large in size"),
        (-2.0, -4.0, "50 % too small in size"),
        (-4.0, 4.0, "of the wrong sign"),
    ],
)
def test_how_far_a_value_is_from_the_truth(value: float, truth: float, words: str) -> None:
    assert compared_to(value, truth) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1.0, "v is 1, exactly what is allowed"),
        (1 - 1e-9, "v is 1, 10⁻⁹ below what is allowed"),
        (1 + 1e-9, "v is 1, 10⁻⁹ above what is allowed"),
        (0.5, "v is 0.5; at most 1 is allowed"),
    ],
)
def test_a_value_that_prints_like_its_bound_is_told_apart_from_it(value: float, words: str) -> None:
    outcome = c.bounded("v", high=Tolerance(1.0, "made up"))(xr.Dataset(), xr.Dataset({"v": value}))
    assert outcome.reason == words
