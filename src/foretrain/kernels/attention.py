"""K_attn and K_trans (eq. 4): the exact kernels of an infinitely wide transformer layer.

K_attn(x, y) = E[ smax(βm(x))ᵀ (XYᵀ + γ²I) smax(βm(y)) ],  m(x)_i = ζ_{x_i} + γp_i with the same Gaussian ζ
(per token) and p (per position) for both strings. Only the equality pattern of a pair of strings matters, so each
pattern is computed once.

`identity` adds a times how often the string has the token x_i to each logit: one layer whose query is the sum of all
positions. It knows only how often symbols occur. For a·I at every position, see `foretrain.kernels.two_layers`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from foretrain.core.errors import require, require_at_least
from foretrain.core.progress import Progress, tell
from foretrain.kernels.activations import KernelActivation, activation_named
from foretrain.kernels.contraction import contract, work
from foretrain.kernels.patterns import Component, String, count_tokens, encoded, pair_patterns, pattern_of
from foretrain.kernels.quadrature import Array, QuadratureGrid, grid
from foretrain.kernels.sampling import quasi_monte_carlo

# A pattern whose components need more multiplications than this is sampled. Up to β = 4, where accuracy is promised,
# the limit is minutes of work, which covers all named tasks; beyond, it is ten seconds.
MOST_WORK, MOST_WORK_AT_LARGE_BETA = 1e12, 2e10
WORK_PER_SECOND, SECONDS_TO_SAMPLE = 2e8, 2.0  # rough, on one core: only for estimates of how long it takes
MOST_SCORES = 4000  # of a grid, whose tables have the square of this
WIDEST_LOGITS = 300.0  # if βm, or what `identity` adds, is larger than this, no grid is tried
FLOOR = 1e-12  # relative to the largest value 1 + γ²: errors of rounding, splines and cut tails that all grids have
NO_SCORES = 1e-8  # if βm is smaller than this, attention counts as even, which changes K by less than the square
FINER = 100.0  # an error estimate compares results whose tolerances differ by this factor


@dataclass(frozen=True)
class KernelMatrix:
    """A kernel of every x with every y, with a bound on its errors, and how much work it was."""

    values: Array
    errors: Array
    patterns: int  # equality patterns among the pairs
    evaluations: int  # patterns computed, each once: up to order of positions and exchange, own variances included
    sampled: int  # of these, the ones too entangled to contract: their values are quasi-Monte Carlo


def attention_kernel(
    x: String, y: String, *, beta: float, gamma: float, identity: float = 0.0, tolerance: float | None = None
) -> float:
    """K_attn of two sequences of tokens. The tokens of a str are its characters; a CLS is a last token of both."""
    matrix = attention_matrix([x], [y], beta=beta, gamma=gamma, identity=identity, tolerance=tolerance)
    return float(matrix.values[0, 0])


def attention_matrix(
    X: Sequence[String],
    Y: Sequence[String],
    *,
    beta: float,
    gamma: float,
    identity: float = 0.0,
    tolerance: float | None = None,
    check: bool = False,
) -> KernelMatrix:
    """K_attn of every x in X with every y in Y, each equality pattern computed once.

    tolerance  absolute error to aim for; by default `default_tolerance(beta)`, 1e-9 up to β = 2 and 1e-7 beyond. With
               that, strings that share many tokens in many places take minutes; 1e-4 is much faster
    check      compute every pattern a second time, 100 times finer (or coarser, if that is too much work), and report
               the difference as its error. Without it, the reported error is the tolerance itself. Both include a
               floor of 1e-12·(1 + γ²), which no tolerance can lower
    """
    groups = _group(X, Y)
    evaluated = _Evaluated(groups.length, _setting(beta, gamma, identity, tolerance), check)
    return evaluated.matrix(groups, *evaluated.entries(groups.between))


def transformer_kernel(
    X: Sequence[String],
    Y: Sequence[String],
    *,
    beta: float,
    gamma: float,
    activation: str | KernelActivation = "cosine",
    identity: float = 0.0,
    tolerance: float | None = None,
    seconds: float | None = None,
) -> Array:
    """K_trans of every x in X with every y in Y: K_attn, then one infinitely wide MLP layer."""
    return transformer_matrix(
        X, Y, beta=beta, gamma=gamma, activation=activation, identity=identity, tolerance=tolerance, seconds=seconds
    ).values


def transformer_matrix(
    X: Sequence[String],
    Y: Sequence[String],
    *,
    beta: float,
    gamma: float,
    activation: str | KernelActivation = "cosine",
    identity: float = 0.0,
    tolerance: float | None = None,
    check: bool = False,
    seconds: float | None = None,
) -> KernelMatrix:
    """K_trans with a bound on its errors; arguments as for `transformer_kernel` and `attention_matrix`.

    seconds  a value that would take longer than about this is sampled instead (by default, hours are allowed)
    """
    phi = activation_named(activation)
    groups = _group(X, Y)
    evaluated = _Evaluated(groups.length, _setting(beta, gamma, identity, tolerance, seconds), check)
    entries = [evaluated.entries(forms) for forms in (groups.own_x, groups.own_y, groups.between)]
    values = phi.expectation(*(value for value, _ in entries))
    errors = np.zeros_like(values)
    for moved in entries:
        arguments = (value + error if entry is moved else value for entry in entries for value, error in [entry])
        errors += abs(phi.expectation(*arguments) - values)
    return evaluated.matrix(groups, values, errors)


def expected_seconds(X: Sequence[String], Y: Sequence[String], *, beta: float, gamma: float) -> list[float]:
    """Roughly how long each value takes that `transformer_matrix` has to compute for X and Y."""
    groups = _group(X, Y)
    setting = _setting(beta, gamma, 0.0, None, None)
    forms = dict.fromkeys([*groups.own_x, *groups.own_y, *groups.between])
    return [_expected_seconds(form, groups.length, setting) for form in forms]


def default_tolerance(beta: float) -> float:
    """The absolute error of K_attn to aim for, if the caller does not choose one."""
    return 1e-9 if beta <= 2 else 1e-7


@dataclass(frozen=True)
class _Setting:
    beta: float
    gamma: float
    identity: float
    tolerance: float
    most_work: float


def _setting(
    beta: float, gamma: float, identity: float, tolerance: float | None, seconds: float | None = None
) -> _Setting:
    require_at_least("beta", beta, 0)
    require_at_least("gamma", gamma, 0)
    require(math.isfinite(identity), f"identity must be a finite number; got {identity!r}.")
    if tolerance is None:
        tolerance = default_tolerance(beta)
    require(1e-12 <= tolerance <= 1e-2, f"tolerance must lie between 1e-12 and 1e-2; got {tolerance!r}.")
    most = MOST_WORK if beta <= 4 else MOST_WORK_AT_LARGE_BETA
    if seconds is not None:
        most = min(most, seconds * WORK_PER_SECOND)
    return _Setting(float(beta), float(gamma), float(identity), float(tolerance), most)


Form = tuple[Component, ...]  # a pair of strings up to names of tokens, order of positions and exchange


@dataclass(frozen=True)
class _Groups:
    """The equality pattern of every pair of strings, and for each pattern the forms of (x, y), (x, x) and (y, y)."""

    length: int
    labels: NDArray[np.int64]
    between: list[Form]
    own_x: list[Form]
    own_y: list[Form]


def _group(X: Sequence[String], Y: Sequence[String]) -> _Groups:
    x, y = encoded(X, Y)
    labels, rows, columns = pair_patterns(x, y)
    pairs = [(x[i].tolist(), y[j].tolist()) for i, j in zip(rows, columns, strict=True)]
    return _Groups(
        x.shape[1],
        labels,
        [pattern_of(first, second) for first, second in pairs],
        [_with_itself(first) for first, _ in pairs],
        [_with_itself(second) for _, second in pairs],
    )


def _with_itself(string: list[int]) -> Form:
    return tuple(sorted(((0, 0, count),) for count in Counter(string).values()))


@dataclass(frozen=True)
class _Evaluated:
    """Kernel values of forms, each evaluated once."""

    length: int
    setting: _Setting
    check: bool
    results: dict[Form, tuple[float, float, bool]] = field(default_factory=dict)

    def entries(self, forms: list[Form]) -> tuple[Array, Array]:
        """Values and errors, one per pattern."""
        new = [form for form in dict.fromkeys(forms) if form not in self.results]
        expected = [_expected_seconds(form, self.length, self.setting) for form in new]
        for done, form in enumerate(new):
            left = f", about {sum(expected[done:]):.0f} s left" if sum(expected) > 1 else ""
            tell(Progress(done, len(new), f"kernel value {done + 1} of {len(new)}{left}", inner=True))
            self.results[form] = _evaluate(form, self.length, self.setting, self.check)
        values, errors, _ = np.array([self.results[form] for form in forms]).T
        return values, errors

    def matrix(self, groups: _Groups, values: Array, errors: Array) -> KernelMatrix:
        sampled = sum(was_sampled for _, _, was_sampled in self.results.values())
        return KernelMatrix(values[groups.labels], errors[groups.labels], len(values), len(self.results), sampled)


@lru_cache(maxsize=1 << 16)
def _evaluate(pattern: Form, length: int, setting: _Setting, check: bool) -> tuple[float, float, bool]:
    """K_attn of a pattern, a bound on its error, and whether it was sampled."""
    if setting.beta * math.hypot(1.0, setting.gamma) <= NO_SCORES:
        return _without_scores(pattern, length, setting), 1e-15, False
    if not _narrow(pattern, length, setting, setting.tolerance):
        pairs = [(t, u) for t, u, m in _joined(pattern) for _ in range(m)]
        x, y = zip(*pairs, strict=True)
        value, error = quasi_monte_carlo(x, y, beta=setting.beta, gamma=setting.gamma, identity=setting.identity)
        return value, error, True
    value = _contracted(pattern, length, setting, setting.tolerance)
    floor = FLOOR * (1 + setting.gamma**2)
    if not check:
        return value, setting.tolerance + floor, False
    other = setting.tolerance / FINER
    if not _narrow(pattern, length, setting, other):
        other = setting.tolerance * FINER
    apart = abs(value - _contracted(pattern, length, setting, other))
    return value, apart + min(other, setting.tolerance) + floor, False


@lru_cache(maxsize=1 << 16)
def _expected_seconds(pattern: Form, length: int, setting: _Setting) -> float:
    """Roughly how long a pattern takes, for a sentence that says how far the work is."""
    if setting.beta * math.hypot(1.0, setting.gamma) <= NO_SCORES:
        return 0.0
    if not _narrow(pattern, length, setting, setting.tolerance):
        return SECONDS_TO_SAMPLE
    nodes = _grid(pattern, length, setting, setting.tolerance)
    return sum(work(component, nodes) for component in pattern) / WORK_PER_SECOND


def _narrow(pattern: Form, length: int, setting: _Setting, tolerance: float) -> bool:
    """Whether every component can be contracted within the work and memory allowed."""
    if max(setting.beta * math.hypot(1.0, setting.gamma), abs(setting.identity) * length) > WIDEST_LOGITS:
        return False
    nodes = _grid(pattern, length, setting, tolerance)
    if len(nodes.scores) > MOST_SCORES:
        return False
    return max(work(component, nodes) for component in pattern) <= setting.most_work


def _grid(pattern: Form, length: int, setting: _Setting, tolerance: float) -> QuadratureGrid:
    crossed = any(t != u and count_tokens(c, 0)[u] for c in pattern for t, u, _ in c)
    return grid(setting.beta, setting.gamma, length, setting.identity, crossed, tolerance)


def _contracted(pattern: Form, length: int, setting: _Setting, tolerance: float) -> float:
    nodes = _grid(pattern, length, setting, tolerance)
    total, product = np.zeros(nodes.shape), np.ones(nodes.shape)
    for component in pattern:  # both marks are in the same component
        plain, marked = _parts(component, nodes, setting.identity)
        total, product = total * plain + product * marked, product * plain
    return nodes.integral(total)


@lru_cache(maxsize=256)
def _parts(component: Component, nodes: QuadratureGrid, identity: float) -> tuple[Array, Array]:
    return contract(component, nodes, identity)


def _without_scores(pattern: Form, length: int, setting: _Setting) -> float:
    """K at β = 0, where attention is even except for the logits of `identity`: K = Σ s_i(XYᵀ + γ²I)_ij s̃_j."""
    edges = _joined(pattern)
    counts = [count_tokens(edges, side) for side in (0, 1)]
    weights = [{t: math.exp(setting.identity * (c - length)) for t, c in side.items()} for side in counts]
    totals = [sum(weights[side][t] * c for t, c in counts[side].items()) for side in (0, 1)]
    tokens = sum(weights[0][t] * c * weights[1][t] * counts[1][t] for t, c in counts[0].items() if t in counts[1])
    positions = sum(weights[0][t] * weights[1][u] * m for t, u, m in edges)
    return (tokens + setting.gamma**2 * positions) / (totals[0] * totals[1])


def _joined(pattern: Form) -> Component:
    """All components as one graph, with tokens renamed so that the components stay separate."""
    edges, used = [], 0
    for component in pattern:
        edges += [(t + used, u + used, m) for t, u, m in component]
        used += 1 + max(max(t, u) for t, u, _ in component)
    return tuple(edges)
