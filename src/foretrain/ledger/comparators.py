"""Ways to compare a prediction with a measurement. Each function here makes a comparator; the tier never changes it.

`name` is a variable that both datasets have, unless a comparator says otherwise.
"""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from foretrain.ledger.claim import Comparator, Drawn, Expected, Outcome
from foretrain.ledger.tolerances import CHANCE, NONE, SLOPE, THREE_ERRORS, Tolerance


def close(name: str, tolerance: Tolerance, *, relative: bool = True) -> Comparator:
    """Largest difference; `relative` divides by the largest size of the prediction (by 1 if that is smaller)."""

    def compare(prediction: xr.Dataset, observation: xr.Dataset) -> Outcome:
        predicted, observed = _same_points(prediction[name], observation[name])
        scale = max(1.0, float(abs(predicted).max())) if relative else 1.0
        error = float(abs(predicted - observed).max(skipna=False)) / scale
        how = "relative to the largest value" if relative else "absolute"
        words = f"differs by at most {error:.3g} ({how})" if error != 0 else "agrees exactly"
        return _outcome(error, tolerance.value, f"{name} {words}")

    return Comparator(compare, _drawn(name, name))


def close_relative(name: str, tolerance: Tolerance) -> Comparator:
    """Largest pointwise relative difference: every value counts for itself, however small."""

    def compare(prediction: xr.Dataset, observation: xr.Dataset) -> Outcome:
        predicted, observed = _same_points(prediction[name], observation[name])
        error = float((abs(predicted - observed) / abs(predicted)).max(skipna=False))
        words = f"differs by at most {error:.3g} of its value" if error != 0 else "agrees exactly"
        return _outcome(error, tolerance.value, f"{name} {words}")

    return Comparator(compare, _drawn(name, name))


def bounded(name: str, *, low: str | None = None, high: str | None = None, slack: Tolerance = NONE) -> Comparator:
    """`name` (measured) stays between the predicted `low` and `high`; the error is the largest excess."""

    def compare(prediction: xr.Dataset, observation: xr.Dataset) -> Outcome:
        excess = [-math.inf]
        for bound, sign in ((low, 1), (high, -1)):
            if bound is not None:
                edge, value = _same_points(prediction[bound], observation[name])
                excess.append(float((sign * (edge - value)).max(skipna=False)))
        error = max(excess) if all(map(math.isfinite, excess[1:])) else math.nan
        inside = error <= slack.value
        words = "stays within its bounds, {:.3g} from the nearest" if inside else "leaves its bounds by {:.3g}"
        return _outcome(error, slack.value, f"{name} {words.format(abs(error))}")

    return Comparator(compare, _drawn(name, low, high))


def conserved(name: str, tolerance: Tolerance, axis: str = "time") -> Comparator:
    """`name` (measured) does not change along `axis`."""

    def compare(_: xr.Dataset, observation: xr.Dataset) -> Outcome:
        value = observation[name]
        drift = float(abs(value - value.isel({axis: 0})).max(skipna=False)) / max(1.0, float(abs(value).max()))
        return _outcome(drift, tolerance.value, f"{name} drifts by {drift:.3g} along {axis}")

    return Comparator(compare, _drawn(name))


def slope(name: str, against: str, expected: float, tolerance: Tolerance = SLOPE) -> Comparator:
    """Slope of ln(name) over ln(against) in the measurement, averaged over seeds and draws; the worst of other axes."""

    def compare(_: xr.Dataset, observation: xr.Dataset) -> Outcome:
        value = observation[name]
        repeats = [d for d in ("seed", "draw") if d in value.dims and d != against]
        curves = np.log(value.mean(repeats, skipna=False).transpose(against, ...).values)
        logs = np.log(observation[against].values)
        fitted = np.polyfit(logs, curves.reshape(len(logs), -1), 1)[0]
        worst = float(fitted[np.argmax(np.nan_to_num(abs(fitted - expected), nan=np.inf))])
        words = f"ln {name} over ln {against} has slope {worst:.3f}, {expected:g} expected"
        return _outcome(abs(worst - expected), tolerance.value, words)

    return Comparator(compare, _drawn(name))


def ranked(name: str, along: str, *, rising: bool) -> Comparator:
    """`name` (measured, averaged over `seed` if it has one) rises or falls all along `along`.

    The error is the share of neighbouring pairs in the wrong order; none is allowed.
    """

    def compare(_: xr.Dataset, observation: xr.Dataset) -> Outcome:
        steps = observation[name].diff(along) * (1 if rising else -1)
        words = f"{name} {'rises' if rising else 'falls'} along {along}"
        weakest = ""
        if "seed" in steps.dims:
            spread = steps.std("seed", ddof=1) / math.sqrt(steps.sizes["seed"]) if steps.sizes["seed"] > 1 else math.nan
            steps = steps.mean("seed", skipna=False)
            weakest = f"; the weakest step is {float((steps / spread).min()):.1f} standard errors of paired seeds"
        error = float((~(steps > 0)).mean())  # not a number is not in order
        return _outcome(error, 0.0, f"{words} in {1 - error:.0%} of neighbouring pairs{weakest}")

    return Comparator(compare, _drawn(name))


def positive(name: str, drawn_with: str | None = None) -> Comparator:
    """`name` (measured) is above 0 everywhere; the error is how far the smallest value is below 0.

    `drawn_with` is a predicted 0 that a drawing shows beside it.
    """

    def compare(_: xr.Dataset, observation: xr.Dataset) -> Outcome:
        smallest = float(observation[name].min(skipna=False))
        ok = smallest > 0
        return Outcome("holds" if ok else "fails", max(0.0, -smallest), 0.0, f"the smallest {name} is {smallest:.3g}")

    return Comparator(compare, _drawn(name, drawn_with))


def covered(inside: str, at_least: str) -> Comparator:
    """Share of draws with `inside` true is at least the predicted `at_least`.

    Fails only if the share is significantly below (one-sided binomial test), so that a sound bound does not fail by
    chance; the error is the shortfall.
    """

    def compare(prediction: xr.Dataset, observation: xr.Dataset) -> Outcome:
        from scipy.stats import binomtest  # more than a second to load, and few claims need it

        hits, wanted = observation[inside], float(prediction[at_least].max())
        repeats = [d for d in hits.dims if d != "time"]  # the times of one run do not count as draws
        draws = int(np.prod([hits.sizes[d] for d in repeats]))
        count = int(hits.sum(repeats).min())
        share = count / draws
        low = binomtest(count, draws, wanted, alternative="less").pvalue < CHANCE.value
        words = f"{inside} in {share:.2%} of {draws} draws{', at the worst time' * ('time' in hits.dims)}"
        return Outcome("fails" if low else "holds", max(0.0, wanted - share), 0.0, f"{words}, {wanted:.2%} promised")

    return Comparator(compare, _drawn(inside, at_least))


def same_mean(name: str, tolerance: Tolerance = THREE_ERRORS, least_seeds: int = 3) -> Comparator:
    """Measured means over `seed` agree with the predicted mean in combined standard errors, at every point.

    The prediction carries `name`, `name_std` and `name_seeds` (its own spread and number of seeds) and may be nan
    where nothing is predicted; everything it does predict must have been measured.
    """

    def compare(prediction: xr.Dataset, observation: xr.Dataset) -> Outcome:
        measured = observation[name]
        seeds = measured.sizes.get("seed", 1)
        if seeds < least_seeds:
            return Outcome("inconclusive", math.nan, tolerance.value, f"{seeds} seeds; {least_seeds} are needed")
        own = measured.std("seed", ddof=1) / math.sqrt(seeds)
        theirs = prediction[f"{name}_std"] / np.sqrt(prediction[f"{name}_seeds"])
        distance = abs(measured.mean("seed", skipna=False) - prediction[name]) / np.hypot(own, theirs)
        published = prediction[name].notnull()
        total = int(published.sum())
        distance, published = xr.align(distance, published, join="inner")
        cells = int(published.sum())
        if cells < total:
            return _outcome(math.nan, tolerance.value, f"{name}: {cells} of {total} predicted means were measured")
        error = float(distance.where(published, 0.0).max(skipna=False))
        words = f"{cells} predicted means, the farthest {error:.2f} combined standard errors off"
        return _outcome(error, tolerance.value, f"{name}: {words}")

    return Comparator(compare, _drawn(name, name))


def as_printed(name: str, tolerance: Tolerance, trials: int, *, guess: float) -> Comparator:
    """Measured means over `seed` are within `tolerance` of printed means of so many trials, where the data can decide.

    It cannot where twice the error of the difference, with the measured spread for both, is more than `tolerance` and
    the difference no more than both together: such points are left out. If none is left at which the printed mean is
    more than `tolerance` away from that of a `guess`, agreement says nothing and the outcome is inconclusive.
    """

    def compare(prediction: xr.Dataset, observation: xr.Dataset) -> Outcome:
        measured = observation[name]
        printed, mean = _same_points(prediction[name], measured.mean("seed", skipna=False))
        error = 2 * measured.std("seed", ddof=1) * math.sqrt(1 / measured.sizes["seed"] + 1 / trials)
        apart = abs(mean - printed)
        decided = ~((error > tolerance.value) & (apart <= tolerance.value + error))  # nan must not go unnoticed
        farthest = float(apart.where(decided, 0.0).max(skipna=False))
        learned = decided & (abs(printed - guess) > tolerance.value)
        if farthest <= tolerance.value and not learned.any():
            why = f"{name} varies too much over seeds, or is printed as that of a guess, everywhere"
            return Outcome("inconclusive", math.nan, tolerance.value, why)
        words = f"{name} differs by at most {farthest:.3g} at {int(decided.sum())} of {decided.size} points"
        left = "" if decided.all() else "; the others vary too much over seeds to tell"
        return _outcome(farthest, tolerance.value, words + left)

    return Comparator(compare, _drawn(name, name))


def converges(name: str, along: str, power: Tolerance, scale: Tolerance, *, expected: float = -0.5) -> Comparator:
    """`name` (measured, over `along`, `seed` and others) approaches the predicted `name` like a power of `along`.

    For every entry of the prediction's first axis: the relative distance (Frobenius, root mean square over seeds) has
    slope `expected` in log-log, give or take `power`, and at the largest value of `along` is at most `scale` times that
    value to the power `expected`.
    """

    def compare(prediction: xr.Dataset, observation: xr.Dataset) -> Outcome:
        predicted, observed = _same_points(prediction[name], observation[name])
        first = predicted.dims[0]
        inner = [d for d in predicted.dims if d != first]
        distance = (((observed - predicted) ** 2).sum(inner, skipna=False) / (predicted**2).sum(inner)).mean(
            "seed"
        ) ** 0.5
        logs = np.log(observation[along].values)
        allowed = scale.value * float(observation[along].max()) ** expected
        worst = []
        for entry in distance[first].values:
            curve = distance.sel({first: entry}).transpose(along).values
            fitted = float(np.polyfit(logs, np.log(curve), 1)[0])
            strain = max(abs(fitted - expected) / power.value, curve[-1] / allowed)
            worst.append(
                (strain if np.isfinite(strain) else math.inf, f"{entry}: slope {fitted:.2f}, end {curve[-1]:.3f}")
            )
        strain, words = max(worst)
        return _outcome(strain, 1.0, f"{len(worst)} limits; the farthest is {words} (in units of what is allowed)")

    return Comparator(compare, _drawn(name, name))


def explains(name: str, unexplained: Tolerance) -> Comparator:
    """For every entry of the prediction's first axis: 1 − R² of the measurement around the predicted `name`.

    R² is taken around the line of slope 1 through 0, so a shift or a factor that is not predicted counts as error.
    """

    def compare(prediction: xr.Dataset, observation: xr.Dataset) -> Outcome:
        predicted, observed = _same_points(prediction[name], observation[name])
        first = predicted.dims[0]
        inner = [d for d in predicted.dims if d != first]
        left = ((observed - predicted) ** 2).sum(inner, skipna=False)
        share = left / ((observed - observed.mean(inner)) ** 2).sum(inner, skipna=False)
        error = float(share.max(skipna=False))
        worst = predicted[first].values[int(np.argmax(np.nan_to_num(share.values, nan=np.inf)))]
        return _outcome(error, unexplained.value, f"R² of {name} is at least {1 - error:.3f}, at {first} {worst}")

    return Comparator(compare, _drawn(name, name))


def every(*parts: Comparator) -> Comparator:
    """All parts must hold. Error and tolerance are those of the part nearest to failing, or failing worst."""

    def compare(prediction: xr.Dataset, observation: xr.Dataset) -> Outcome:
        outcomes = [part(prediction, observation) for part in parts]
        order: dict[Expected, int] = {"holds": 0, "inconclusive": 1, "fails": 2}
        worst = max(outcomes, key=lambda o: (order[o.status], _strain(o)))
        shown = [o for o in outcomes if o.status == worst.status]
        return Outcome(worst.status, worst.error, worst.tolerance, "; ".join(o.reason for o in shown))

    return Comparator(compare, tuple(quantity for part in parts for quantity in part.draws))


def _drawn(measured: str, *predicted: str | None) -> tuple[Drawn, ...]:
    return (Drawn(measured, tuple(name for name in predicted if name)),)


def _same_points(predicted: xr.DataArray, observed: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Both at the same coordinates; one may lack axes of the other, but not each some of the other's."""
    own, other = set(predicted.dims), set(observed.dims)
    if not (own <= other or other <= own):
        raise ValueError(f"{predicted.dims} and {observed.dims} have no axes to be compared along")
    return xr.align(predicted, observed, join="exact")


def _strain(outcome: Outcome) -> float:
    if outcome.tolerance > 0 and math.isfinite(outcome.error):
        return outcome.error / outcome.tolerance
    return outcome.error if math.isfinite(outcome.error) else 0.0


def _outcome(error: float, tolerance: float, reason: str) -> Outcome:
    """Not a number is a failure, never a pass."""
    return Outcome("holds" if error <= tolerance else "fails", error, tolerance, reason)
