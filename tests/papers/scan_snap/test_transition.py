"""Section 6 on paper: growth of attention, its stages and late times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import cumulative_simpson, solve_ivp
from scipy.optimize import brentq
from scipy.special import lambertw

from foretrain.core.errors import InputError
from foretrain.papers.scan_snap import theory

FIG3 = {"eta_y": 0.1, "eta_z": 0.5, "vocab": 1000, "classes": 10, "c0": 0.1}
rates = st.floats(0.01, 5)
settings_drawn = st.fixed_dictionaries(
    {
        "eta_y": rates,
        "eta_z": rates,
        "vocab": st.integers(4, 10**5),
        "classes": st.integers(1, 50),
        "c0": st.floats(1e-4, 1e2),
    }
)
times_drawn = st.floats(0, 1e6)


def test_growth_of_the_worked_example() -> None:
    """Theorem 4 at C0 = .1, M = 1000, K = 10, η_Y = .1, η_Z = .5, t = 690: 2.650; as printed 2.074."""
    assert theory.attention_growth(690, **FIG3) == pytest.approx(2.650, abs=5e-4)
    assert theory.attention_growth_printed(690, **FIG3) == pytest.approx(2.074, abs=5e-4)


def test_growth_is_the_integral_of_eq_123() -> None:
    """Theorem 4: Γ and B_n by Simpson's rule over ln(1 + t), with γ from Theorem 1."""
    clock = np.linspace(0, np.log(1e4), 4001)
    t, setting = np.expm1(clock), {name: FIG3[name] for name in ("eta_y", "vocab", "classes")}
    rate = FIG3["eta_z"] * theory.speed(t, **setting) * np.exp(clock)
    drive = cumulative_simpson(rate, x=clock, initial=0)
    growth = cumulative_simpson(rate / (FIG3["c0"] + 4 * drive), x=clock, initial=0)
    np.testing.assert_allclose(theory.attention_drive(t, eta_z=0.5, **setting), drive, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(theory.attention_growth(t, **FIG3), growth, rtol=1e-8, atol=1e-10)


@given(settings_drawn, times_drawn)
def test_printed_form_misses_a_quarter_of_the_logarithm_of_c0(setting: dict[str, Any], t: float) -> None:
    """Theorem 4, eq. 129: as printed, B_n(0) is ¼·ln C0 instead of 0."""
    gap = theory.attention_growth_printed(t, **setting) - theory.attention_growth(t, **setting)
    assert gap == pytest.approx(np.log(setting["c0"]) / 4, abs=1e-12)
    assert theory.attention_growth(0.0, **setting) == 0


@given(settings_drawn, st.floats(0.1, 1e5))
def test_growth_rises_with_time_and_falls_with_c0(setting: dict[str, Any], t: float) -> None:
    """Theorem 4: B_n rises with t and falls with C0."""
    growth = theory.attention_growth([t, 2 * t, 4 * t], **setting)
    assert (np.diff(growth) > 0).all()
    assert theory.attention_growth(t, **{**setting, "c0": 2 * setting["c0"]}) < growth[0]


@given(settings_drawn, st.floats(0.2, 5))
def test_growth_at_the_snap_depends_on_the_rates_through_their_ratio(setting: dict[str, Any], factor: float) -> None:
    """Fig 9: B_n(t0) is the same for all η_Z at one η_Y/η_Z."""

    def at_snap(eta_y: float, eta_z: float) -> Any:
        t0 = theory.snap_time(eta_y=eta_y, vocab=setting["vocab"], classes=setting["classes"])
        return theory.attention_growth(t0, **{**setting, "eta_y": eta_y, "eta_z": eta_z})

    y, z = setting["eta_y"], setting["eta_z"]
    assert at_snap(y * factor, z * factor) == pytest.approx(at_snap(y, z), rel=1e-9)


def test_arrays_broadcast_and_scalars_are_allowed() -> None:
    t, eta_y = np.geomspace(1, 1e4, 7)[:, None], np.array([0.1, 0.5, 1.0])
    growth = theory.attention_growth(t, **{**FIG3, "eta_y": eta_y})
    assert growth.shape == (7, 3)
    assert growth.dtype == np.float64
    for i, j in ((0, 0), (3, 1), (6, 2)):
        assert growth[i, j] == pytest.approx(theory.attention_growth(t[i, 0], **{**FIG3, "eta_y": eta_y[j]}), rel=1e-14)
    assert np.ndim(theory.attention_growth(3, **FIG3)) == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("t", -1.0),
        ("t", np.nan),
        ("t", [1.0, np.inf]),
        ("eta_y", 0.0),
        ("eta_z", -0.5),
        ("eta_z", np.inf),
        ("c0", 0.0),
        ("c0", np.nan),
        ("vocab", 1),
        ("classes", 0),
    ],
)
@pytest.mark.parametrize(
    "form",
    [
        theory.attention_growth,
        theory.attention_growth_printed,
        theory.attention_growth_scanning,
        theory.attention_growth_snapped,
        theory.attention_growth_late,
    ],
)
def test_bad_input_is_refused_by_name(form: Any, name: str, value: Any) -> None:
    with pytest.raises(InputError, match=name):
        form(**{"t": 1e5, **FIG3, name: value})


def test_late_forms_refuse_early_times() -> None:
    with pytest.raises(InputError, match="late times"):
        theory.attention_growth_late(0.05, **FIG3)


@pytest.mark.parametrize(
    ("form", "time_of", "gap"),
    [
        # at the end of scanning e^{−d} = d for d = ln M − Mh, so d is the omega constant W(1)
        (theory.attention_growth_scanning, lambda M: 10 * np.log(M) / 0.1, float(lambertw(1).real)),
        # at the snap e^u = (M−1)u makes up half of eq. 45
        (theory.attention_growth_snapped, lambda M: theory.snap_time(eta_y=0.1, vocab=M, classes=10), np.log(2)),
    ],
)
def test_stage_forms_are_off_by_a_constant_over_the_logarithm(form: Any, time_of: Any, gap: float) -> None:
    """Theorem 4: what eq. 130 and 131 neglect at the edge of their stage is ½·ln of Mh's relative error, gap/Mh."""
    M = np.array([1e6, 1e9, 1e12])
    t, setting = time_of(M), {**FIG3, "vocab": M}
    Mh = M * theory.decoder_growth(t / 10, eta_y=0.1, vocab=M)
    off = form(t, **setting) - theory.attention_growth(t, **setting)
    np.testing.assert_allclose(np.expm1(2 * off) * Mh, gap, rtol=1e-3)


def test_late_form_closes_in_on_the_growth_with_the_square_of_the_logarithm() -> None:
    """Theorem 4, eq. 132."""
    logs = np.array([30.0, 60.0, 120.0, 240.0])
    times = FIG3["classes"] / (FIG3["vocab"] * FIG3["eta_y"]) * np.exp(logs)
    excess = theory.attention_growth(times, **FIG3) - theory.attention_growth_late(times, **FIG3)
    assert np.polyfit(np.log(logs), np.log(excess), 1)[0] == pytest.approx(-2, abs=0.02)


@pytest.mark.parametrize("log", [15.0, 25.0, 40.0])
def test_at_the_late_time_the_drive_has_reached_c0(log: float) -> None:
    """4Γ = C0 where Mh = √(C0·η_Y/2K·η_Z), up to (M−1)/M and what eq. 131 neglects."""
    setting = {"eta_y": 0.5, "eta_z": 0.5 / (20 * log**2), "vocab": 10**5, "classes": 10}
    drive = theory.attention_drive(theory.late_time(**setting, c0=1.0), **setting)
    neglected = setting["vocab"] * log / np.exp(log)  # (M−1)Mh against e^{Mh} in eq. 45
    assert 4 * drive == pytest.approx(1, abs=1e-4 + 2 * neglected)
    printed = theory.late_time_printed(**{k: setting[k] for k in ("eta_y", "eta_z", "vocab")})
    assert 4 * theory.attention_drive(printed, **setting) < 1e-3


@pytest.mark.parametrize("vocab", [10, 1000, 10**6])
def test_logarithmic_start(vocab: int) -> None:
    """Remark 2: s1 by root search, and what is printed for it."""
    u = brentq(lambda u: np.exp(u) - (vocab - 1) * u, 1, 50)
    assert theory.logarithmic_start(eta_y=0.2, vocab=vocab) == pytest.approx(2 * u / 0.2, rel=1e-12)
    printed = theory.logarithmic_start_printed(eta_y=0.2, vocab=vocab)
    assert printed == pytest.approx(2 * np.log(u / np.log(vocab)) / 0.2, rel=1e-9)


@pytest.mark.parametrize("distinct", [1, 4, np.inf])
def test_equal_overlaps_solve_their_equation(distinct: float) -> None:
    """dB/dΓ = (K−1)ρ²e^{4z−4w}, with z = −K·B of the common token and w = B/distinct of the distinct ones."""
    K, overlap = 5, 0.03
    solved = solve_ivp(
        lambda _, b: (K - 1) * overlap**2 * np.exp(-4 * (K + 1 / distinct) * b), (0, 1e4), [0.0], rtol=1e-11, atol=1e-14
    )
    growth = theory.attention_growth_equal_overlaps(1e4, classes=K, overlap=overlap, distinct=distinct)
    assert growth == pytest.approx(solved.y[0, -1], rel=1e-8)


@pytest.mark.parametrize(
    "change", [{"drive": -1.0}, {"overlap": 1.0}, {"overlap": -0.1}, {"distinct": 0}, {"classes": 0}]
)
def test_equal_overlaps_refuse(change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(change))):
        theory.attention_growth_equal_overlaps(**{"drive": 1.0, "classes": 5, "overlap": 0.1, **change})
