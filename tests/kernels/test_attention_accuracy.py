"""How exact the exact kernel is: against an independent sum of its own definition, at all temperatures promised."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy.special import expit
from tests.kernels.difference_reference import reference_kernel

from foretrain.data.template_examples import NAMED
from foretrain.kernels import attention, attention_kernel, attention_matrix
from foretrain.kernels.patterns import pattern_of

PROMISED = {1.0: 1e-8, 2.0: 1e-8, 3.0: 1e-6, 4.0: 1e-6}  # absolute errors by β

TWO = [("AB", "CD"), ("AB", "BA"), ("AB", "AC"), ("AB", "CA"), ("AA", "AB"), ("A*", "B*")]
THREE = [("AB*", "CD*"), ("AB*", "BA*"), ("ABC", "BCA"), ("AAB", "BAA")]
LONG = [
    ("AABABBABAAABBABABBA*", "BBBAAABABABBAAABBAB*"),  # 20 positions, three tokens of both strings
    ("AABABBABAAABBABABBAA", "CCCCCBCCCCBCCCCCCBCC"),
]


def test_reference_knows_what_is_known_without_it() -> None:
    assert reference_kernel("AB", "AB", 1e-9, 0.5) == pytest.approx(0.5 + 0.125, abs=1e-12)  # even attention
    assert reference_kernel("AB*", "CD*", 1.0, 1.0, error=1e-10) == pytest.approx(0.644561117, abs=1e-9)


@pytest.mark.parametrize(("beta", "gamma"), [(1.0, 1.0), (2.0, 0.3), (2.0, 2.5), (3.0, 1.0), (4.0, 0.3), (4.0, 4.0)])
def test_two_positions(beta: float, gamma: float) -> None:
    for x, y in TWO:
        found = attention_kernel(x, y, beta=beta, gamma=gamma)
        assert abs(found - reference_kernel(x, y, beta, gamma)) <= PROMISED[beta]
    found = attention_kernel("AB", "AC", beta=beta, gamma=gamma, identity=0.7)
    assert abs(found - reference_kernel("AB", "AC", beta, gamma, 0.7)) <= PROMISED[beta]


@pytest.mark.parametrize(("x", "y"), THREE)
@pytest.mark.parametrize(("beta", "gamma"), [(2.0, 0.5)])
def test_three_positions_with_and_without_a_last_token_of_both(x: str, y: str, beta: float, gamma: float) -> None:
    exact = reference_kernel(x, y, beta, gamma, error=PROMISED[beta] / 10)
    assert abs(attention_kernel(x, y, beta=beta, gamma=gamma) - exact) <= PROMISED[beta]


@pytest.mark.parametrize(("x", "y"), LONG)
@pytest.mark.parametrize("beta", [2.0, 4.0])
def test_long_strings_of_few_tokens(x: str, y: str, beta: float) -> None:
    exact = reference_kernel(x, y, beta, 0.0)
    found = attention_matrix([x], [y], beta=beta, gamma=0.0)
    assert found.sampled == 0
    assert abs(found.values[0, 0] - exact) <= PROMISED[beta]


@pytest.mark.parametrize("tolerance", [1e-2, 1e-3, 1e-5])
@pytest.mark.parametrize(("x", "y", "beta", "gamma"), [("AB", "CA", 2.0, 1.0), ("AB*", "BC*", 4.0, 0.0)])
def test_estimated_errors_are_honest(x: str, y: str, beta: float, gamma: float, tolerance: float) -> None:
    """Never below the true error, and not so far above the tolerance that they say nothing."""
    found = attention_matrix([x], [y], beta=beta, gamma=gamma, tolerance=tolerance, check=True)
    true = abs(found.values[0, 0] - reference_kernel(x, y, beta, gamma))
    assert true <= found.errors[0, 0] + 1e-11
    assert found.errors[0, 0] <= 2 * tolerance


@pytest.mark.parametrize("name", NAMED)
def test_named_tasks_are_narrow_enough_to_contract(name: str) -> None:
    """Even where samples share as many tokens as they can, at the largest temperature promised."""
    task = NAMED[name](**({"length": 5} if name.startswith("majority") else {})).with_cls()
    few = task.sample(12, 1, alphabet=max(1, task.wildcard_count)).tokens.tolist()
    for beta, gamma in ((2.0, 0.3), (4.0, 1.0)):
        setting = attention._setting(beta, gamma, 0.0, None)
        for x, y in zip(few[::2], few[1::2], strict=True):
            assert attention._narrow(pattern_of(x, y), task.length, setting, setting.tolerance)


@cache
def _one_token_twice(gamma: float) -> float:
    """K_attn(AA, AA) at β = 1: 1 + γ²·E[σ(d)² + σ(−d)²] for d of variance 2γ²."""
    z = np.linspace(-12, 12, 400_001)
    weights = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()
    first = expit(math.sqrt(2) * gamma * z)
    return 1 + gamma**2 * float(weights @ (first**2 + (1 - first) ** 2))


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("tolerance", [None, 1e-11, 1e-12])
@pytest.mark.parametrize("gamma", [1.0, 4.0, 20.0, 50.0])
def test_stated_errors_hold_where_positions_are_large(gamma: float, tolerance: float | None, check: bool) -> None:
    found = attention_matrix(["AA"], ["AA"], beta=1.0, gamma=gamma, tolerance=tolerance, check=check)
    assert abs(found.values[0, 0] - _one_token_twice(gamma)) <= found.errors[0, 0]


@pytest.mark.parametrize(
    ("setting", "even", "sampled"),
    [
        ({"beta": 1e-320, "gamma": 1.0}, True, 0),
        ({"beta": 1e-9, "gamma": 1.0}, True, 0),
        ({"beta": 1.0, "gamma": 1e4}, False, 1),
        ({"beta": 1.0, "gamma": 1.0, "identity": 1e9}, False, 1),
    ],
)
def test_extreme_settings_neither_overflow_nor_fill_the_memory(
    setting: dict[str, float], even: bool, sampled: int
) -> None:
    found = attention_matrix(["AB*"], ["CD*"], **setting)
    assert found.sampled == sampled
    assert np.isfinite(found.values).all()
    if even:
        assert found.values[0, 0] == pytest.approx(4 / 9, abs=1e-15)
