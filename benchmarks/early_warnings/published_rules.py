"""Rules that others have published, as alarms: each in a few lines, with its source and what is our reading of it."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import inf, isfinite, sqrt
from statistics import fmean, median, pstdev
from typing import Any

import numpy as np

Run = Mapping[str, Any]
Candidate = dict[str, float]
RECENT = 20  # steps in which outliers are counted
SETTLED = 25  # norms that ZClip averages before it begins
HUGE = 1e30  # stands for a norm that is infinite or undefined


def _often(outliers: Iterable[bool], hits: float, start: int) -> int | None:
    """The first step at which `hits` of the last 20 steps are outliers. One alone may be chance, as all authors say."""
    recent: list[bool] = []
    for step, outlier in enumerate(outliers, start):
        recent = [*recent[-RECENT + 1 :], outlier]
        if sum(recent) >= hits:
            return step
    return None


def _finite(values: Sequence[float]) -> list[float]:
    return [value if isfinite(value) else HUGE for value in values]


def update_spikes(candidate: Candidate, run: Run) -> int | None:
    """The norm of Adam's update is `factor` times its median over the last 100 steps: github.com/marin-community/marin,
    issue 1368 ("update norm spikes (2x) precede loss spikes"). Our reading: the norm is divided by the rate, because
    a schedule of the rate is no spike; how many spikes count is chosen."""
    setting = run["setting"]
    norms = [
        norm / rate for norm, rate in zip(_finite(run["updates"]), rates(setting, len(run["updates"])), strict=True)
    ]
    start, usual = int(candidate["history"]), _medians(tuple(norms))
    spikes = (norms[step] > candidate["factor"] * usual[step] for step in range(start, len(norms)))
    return _often(spikes, candidate["hits"], start)


@lru_cache(maxsize=2000)
def _medians(values: tuple[float, ...]) -> list[float]:
    """For each step, the median of the 100 values before it."""
    return [median(values[max(0, step - 100) : step] or (inf,)) for step in range(len(values))]


def rates(setting: Mapping[str, Any], steps: int) -> list[float]:
    """The rate of the layers without a fault of their own, at each step, and of all where every layer has the fault."""
    first, last = setting["ramp"]
    growth = 1.0 if setting["layer"] is not None else setting["peak"] / setting["rate"]
    shares = np.clip((np.arange(steps) - first) / (last - first), 0, 1)
    warm = np.minimum(1, (np.arange(steps) + 1) / setting["warm_up"])
    return list(setting["rate"] * warm * growth**shares)


def zclip(candidate: Candidate, run: Run) -> int | None:
    """The norm of the gradient is `z` standard deviations above a moving average: ZClip (arXiv 2504.02507), with its
    averages (.97, begun after 25 steps, an outlier counted as if it were clipped); there z is 2.5."""
    norms, z = _finite(run["gradients"]), candidate["z"]
    return _often(_zclip(norms, z), candidate["hits"], SETTLED) if len(norms) > SETTLED else None


def _zclip(norms: list[float], z: float) -> Iterator[bool]:
    mean, spread = fmean(norms[:SETTLED]), pstdev(norms[:SETTLED])
    for norm in norms[SETTLED:]:
        score = (norm - mean) / (spread + 1e-6)
        kept = mean + z * spread * z / score if score > z else norm
        mean = 0.97 * mean + 0.03 * kept
        spread = sqrt(0.97 * spread**2 + 0.03 * (kept - mean) ** 2)
        yield score > z


def autoclip(candidate: Candidate, run: Run) -> int | None:
    """The norm of the gradient is above a quantile of all norms so far: AutoClip (arXiv 2007.14469), which clips at a
    low one. Our reading: outliers are above a high quantile, times `factor`."""
    norms, start = _finite(run["gradients"]), int(candidate["history"])
    limits = _quantiles(tuple(norms), candidate["quantile"])
    outliers = (norms[step] > candidate["factor"] * limits[step] for step in range(start, len(norms)))
    return _often(outliers, candidate["hits"], start)


@lru_cache(maxsize=2000)
def _quantiles(values: tuple[float, ...], quantile: float) -> list[float]:
    """For each step, a quantile of the values before it; infinite at the first."""
    before: list[float] = []
    quantiles = []
    for value in values:
        quantiles.append(before[int(quantile * (len(before) - 1))] if before else inf)
        insort(before, value)
    return quantiles


def skip_step(candidate: Candidate, run: Run) -> int | None:
    """The loss or the norm of the gradient is `sigma` standard deviations above its mean over the last 128 steps: the
    rule by which OLMo-core and MaxText skip steps, with 6 of them."""
    start = int(candidate["history"])
    losses, norms = (_scores(tuple(_finite(run[name])))[start:] for name in ("losses", "gradients"))
    outliers = (max(pair) > candidate["sigma"] for pair in zip(losses, norms, strict=True))
    return _often(outliers, candidate["hits"], start)


@lru_cache(maxsize=2000)
def _scores(values: tuple[float, ...]) -> list[float]:
    """For each step, by how many standard deviations it is above the mean of the 128 steps before."""
    scores = []
    for step, value in enumerate(values):
        before = np.array(values[max(0, step - 128) : step] or [value])
        scores.append(float((value - before.mean()) / (before.std() + 1e-12)))
    return scores


def spectral_alignment(candidate: Candidate, run: Run) -> int | None:
    """Nearly all inputs of a matrix lie on the same side of its first singular vector: spectral alignment (arXiv
    2510.04202), whose sign diversity collapses. Our reading: a share of at least `level`, at `times` measurements in a
    row, in a matrix that had less than .9 at the start; in at least `matrices` of them."""
    start = run["records"][0]["one_sided"]
    able = [name for name, share in start.items() if share < 0.9]
    row = dict.fromkeys(able, 0)
    for record in run["records"]:
        for name in able:
            row[name] = row[name] + 1 if not record["one_sided"].get(name, 1.0) < candidate["level"] else 0
        collapsed = sum(count >= candidate["times"] for count in row.values())
        if collapsed and collapsed >= candidate["matrices"] * len(able):
            return int(record["step"])
    return None


def critical_sharpness(candidate: Candidate, run: Run) -> int | None:
    """The update is at least 1 / `multiple` of the length at which it would raise the loss of its own batch: critical
    sharpness (arXiv 2601.16979) near its edge, at `times` measurements in a row. Our reading: the paper shows that
    training goes to this edge; it does not propose an alarm."""
    row = 0
    for step, multiple in run["critical_multiples"]:
        row = row + 1 if not multiple > candidate["multiple"] else 0
        if row >= candidate["times"] and step >= candidate["after"]:
            return int(step)
    return None


def near_unit_mass(candidate: Candidate, run: Run) -> int | None:
    """Before training, many eigenvalues of the blocks are close to 1: RKSP (arXiv 2602.22988). It speaks at step 0."""
    return 0 if run["near_unit_mass"] >= candidate["level"] else None


def residual_growth(candidate: Candidate, run: Run) -> int | None:
    """The norm of what a block sends on is `factor` times its median over the ten measurements before (usual practice,
    as in llm-internal-medicine)."""
    past: dict[str, list[float]] = {}
    for record in run["records"]:
        for name, measures in record["activations"].items():
            before = past.setdefault(name, [])
            norm = _finite([measures["residual_norm"]])[0]
            if len(before) >= candidate["history"] and norm > candidate["factor"] * median(before[-10:]):
                return int(record["step"])
            before.append(norm)
    return None


HITS = (1.0, 3.0, 6.0, 10.0)
PUBLISHED: list[tuple[str, str, Mapping[str, tuple[float, ...]], Callable[[Candidate, Run], int | None]]] = [
    (
        "update-norm spikes",
        "[marin 1368](https://github.com/marin-community/marin/issues/1368)",
        {"factor": (1.25, 1.5, 2.0, 3.0, 5.0), "hits": HITS, "history": (20, 100)},
        update_spikes,
    ),
    (
        "gradient z-score",
        "[ZClip](https://arxiv.org/abs/2504.02507)",
        {"z": (2.5, 4.0, 6.0, 10.0, 20.0), "hits": HITS},
        zclip,
    ),
    (
        "gradient quantile",
        "[AutoClip](https://arxiv.org/abs/2007.14469)",
        {"quantile": (0.9, 0.99, 1.0), "factor": (1.0, 1.5, 2.0), "hits": HITS, "history": (50, 100)},
        autoclip,
    ),
    (
        "loss or gradient beyond σ",
        "[OLMo-core](https://github.com/allenai/OLMo-core)",
        {"sigma": (3.0, 4.0, 6.0, 8.0), "hits": HITS, "history": (32, 128)},
        skip_step,
    ),
    (
        "spectral alignment",
        "[2510.04202](https://arxiv.org/abs/2510.04202)",
        {"level": (0.95, 0.98, 0.99, 0.999, 1.0), "times": (1.0, 2.0, 4.0), "matrices": (0.0, 0.1, 0.3)},
        spectral_alignment,
    ),
    (
        "critical sharpness",
        "[2601.16979](https://arxiv.org/abs/2601.16979)",
        {"multiple": (0.25, 0.5, 1.0, 2.0), "times": (1.0, 2.0, 3.0, 5.0), "after": (0.0, 50.0)},
        critical_sharpness,
    ),
    (
        "RKSP, before training",
        "[2602.22988](https://arxiv.org/abs/2602.22988)",
        {"level": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)},
        near_unit_mass,
    ),
    (
        "residual norm",
        "usual practice",
        {"factor": (1.25, 1.5, 2.0, 3.0, 5.0), "history": (5, 10)},
        residual_growth,
    ),
]
