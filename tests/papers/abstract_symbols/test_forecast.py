"""The forecast beside a trivial one, what it cannot tell, and which activations and layers see the templates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from foretrain.core.errors import MissingData
from foretrain.papers.abstract_symbols.claims import conditioning, forecast


def _ranked(forecast_needs: list[float], sizes: list[float]) -> str:
    """The verdict if training needs 10, 20, 30, 40 samples, and ten times that in a second architecture."""
    axes = {"task": list("abcd"), "architecture": ["one", "two"]}

    def table(needs: list[float]) -> tuple[tuple[str, str], np.ndarray]:
        return ("task", "architecture"), np.array(needs)[:, None] * [1.0, 10.0]

    observed = {"predicted_need": table(forecast_needs), "measured_need": table([10.0, 20, 30, 40])}
    return forecast.forecast_agrees.compare(
        xr.Dataset({"size_need": table(sizes)}, axes), xr.Dataset(observed, axes)
    ).status


@pytest.mark.parametrize(
    ("forecast_needs", "sizes", "status"),
    [
        ([1.0, 2, 3, 4], [4.0, 8, 16, 32], "fails"),  # both rank perfectly
        ([1.0, 2, 3, 4], [8.0, 4, 16, 32], "holds"),  # the size errs once
        ([1.0, 2, 3, 4], [4.0, 4, 4, 4], "holds"),  # it says nothing
        ([2.0, 1, 3, 4], [4.0, 8, 16, 32], "fails"),  # the forecast errs once
    ],
)
def test_a_forecast_has_to_rank_better_than_size(forecast_needs: list[float], sizes: list[float], status: str) -> None:
    assert _ranked(forecast_needs, sizes) == status


def test_it_must_win_within_each_architecture() -> None:
    """A forecast that is right about all but one architecture does not hold, however good it is over all."""
    axes = {"task": list("abcd"), "architecture": ["one", "two"]}
    cells = ("task", "architecture")
    measured = np.array([10.0, 20, 30, 40])[:, None] * [1.0, 10.0]
    predicted = np.stack([measured[:, 0], measured[[1, 0, 2, 3], 1]], axis=1)
    size = np.stack([measured[::-1, 0], measured[:, 1]], axis=1)
    observed = xr.Dataset({"predicted_need": (cells, predicted), "measured_need": (cells, measured)}, axes)
    trivial = xr.Dataset({"size_need": (cells, size)}, axes)
    taus = forecast.rank_correlations(trivial, observed)
    assert taus["all"][0] > taus["all"][1]
    assert forecast.forecast_agrees.compare(trivial, observed).status == "fails"


def test_the_kept_results_are_asked_for_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORETRAIN_RESULTS", str(tmp_path))
    with pytest.raises(MissingData, match=r"no template_needs.json.*python -m benchmarks.template_needs"):
        forecast.kept_needs()


def test_relu_and_polynomials_are_singular_on_a_line_and_others_are_not() -> None:
    """The conjecture of appendix E: ReLU(tz) = t·ReLU(z), so inputs along one ray give a matrix of rank 1."""
    margins = conditioning._on_a_line(("ReLU", "linear", "1 + t + t²", *conditioning.SMOOTH)).eigenvalue_ratio
    assert (margins.sel(activation=["ReLU", "linear", "1 + t + t²"]) < 1e-12).all()
    assert (margins.sel(activation=list(conditioning.SMOOTH)) > 1e-8).all()
    assert conditioning._condition_21()[0]


def test_a_linear_activation_conditions_same_different_as_well_as_the_cosine() -> None:
    """Lemma 3.6: what its finding says; the condition number is the inverse of the measured ratio."""
    ratio = conditioning._least_eigenvalues(
        ("same_different",), 1.0, 1.0, ("linear", "cosine")
    ).eigenvalue_ratio.values[0]
    assert 1 / ratio[0] == pytest.approx(810, rel=0.01)
    assert 1 / ratio[1] == pytest.approx(1070, rel=0.01)


def test_quadrature_of_activations_is_their_closed_form() -> None:
    own, between = np.array([1.3]), np.array([0.4])
    for name in ("cosine", "GELU"):
        closed = conditioning.CLOSED[name](own, own, between)
        assert conditioning._quadrature(conditioning.FUNCTIONS[name])(own, own, between) == pytest.approx(
            closed, abs=1e-9
        )


def test_a_second_layer_and_a_negative_a_condition_n_better() -> None:
    """Section 3.3: in one layer a·I does not matter, in two a positive a does not help."""
    setting = {"tasks": ("same_different",), "beta": 1.0, "gamma": 1.0, "scrambles": 1, "log2": 12}
    assert float(conditioning._better(**setting, identity=-2.0).times_better.min()) > 20
    assert float(conditioning._better(**setting, identity=2.0).times_better.max()) < 1.5
    assert float(conditioning._better(**setting, identity=-2.0, layers=1).times_better.max()) < 1.5
