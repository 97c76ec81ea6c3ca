"""The forecast beside a trivial one, what it cannot tell, and which activations and layers see the templates."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from foretrain.kernels.architectures import MLP, MLP_XX
from foretrain.papers.abstract_symbols.claims import conditioning, forecast
from foretrain.papers.abstract_symbols.experiments.data_need import most_resolved, never_learns, predicted_need
from foretrain.papers.abstract_symbols.experiments.trained import VANILLA


def test_a_transformer_may_need_more_than_can_be_told_but_an_mlp_never_learns() -> None:
    """Lemma 3.6: N of a transformer is nonsingular, so its need is finite, however far beyond what is resolved."""
    task = "relational_match_to_sample"
    assert predicted_need(task, VANILLA, 0.5) == np.inf
    assert not never_learns(task, VANILLA)
    assert 1e5 < most_resolved(task, VANILLA) < 1e8
    assert never_learns(task, MLP)
    assert not never_learns("same_different", MLP_XX)


@pytest.mark.parametrize(
    ("sizes", "status"),
    [
        ((4.0, 8, 16, 32), "fails"),  # both rank perfectly
        ((8.0, 4, 16, 32), "holds"),  # the trivial forecast errs once
        ((4.0, 4, 4, 4), "holds"),  # it says nothing
    ],
)
def test_a_forecast_has_to_rank_better_than_size(sizes: tuple[float, ...], status: str) -> None:
    needs = np.array([10.0, 20, 30, 40])[:, None] * [1.0, 10.0]
    observed = xr.Dataset(
        dict.fromkeys(("predicted_need", "measured_need"), (("task", "architecture"), needs)),
        {"task": list("abcd"), "architecture": ["one", "two"]},
    )
    trivial = xr.Dataset({"size": ("task", list(sizes))}, {"task": list("abcd")})
    assert forecast._ranks_better(trivial, observed).status == status


def test_size_is_templates_times_length() -> None:
    assert forecast.task_size("same_different") == 2 * 2
    assert forecast.task_size("majority_4") == 8 * 4


def test_relu_and_polynomials_are_singular_on_a_line_and_others_are_not() -> None:
    """The conjecture of appendix E: ReLU(tz) = t·ReLU(z), so inputs along one ray give a matrix of rank 1."""
    margins = conditioning._on_a_line(("ReLU", "linear", "1 + t + t²", *conditioning.SMOOTH)).margin
    assert (margins.sel(activation=["ReLU", "linear", "1 + t + t²"]) < 1e-12).all()
    assert (margins.sel(activation=list(conditioning.SMOOTH)) > 1e-8).all()
    assert conditioning._condition_21()[0]


def test_a_linear_activation_conditions_same_different_as_well_as_the_cosine() -> None:
    """Lemma 3.6: what its finding says; the condition number is the inverse of the measured ratio."""
    ratio = conditioning._least_eigenvalues(("same_different",), 1.0, 1.0, ("linear", "cosine")).margin.values[0]
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
