"""Forecasts do not depend on the names of wildcards, nor their limit on how rare a template is."""

from __future__ import annotations

import numpy as np
import pytest

from foretrain.core.errors import InputError
from foretrain.data.template import Template
from foretrain.data.template_task import TemplateTask
from foretrain.forecast.templating.forecast import forecast_templates
from foretrain.kernels.regression import answers, targets
from foretrain.kernels.template_matrix import TemplateMatrix


def _task(
    texts: list[str], labels: tuple[float, ...] | tuple[str, ...], weights: tuple[float, ...] = ()
) -> TemplateTask:
    return TemplateTask(tuple(map(Template.parse, texts)), labels, weights)


def test_renaming_wildcards_in_one_template_changes_no_target() -> None:
    one, other = _task(["αβα", "αββ"], ("α", "α")), _task(["αβα", "βαα"], ("α", "β"))
    assert answers(one) == answers(other) == [0, 0]
    assert np.array_equal(targets(one), targets(other))
    assert targets(_task(["αβα", "αββ"], ("α", "β"))).shape == (2, 2)


def test_a_rare_template_is_learned_in_the_limit_if_n_is_nonsingular() -> None:
    task = _task(["αα", "αβ"], (1.0, -1.0), (1 - 1e-6, 1e-6))
    N = np.array([[1.0, 0.5], [0.5, 1.0]])
    assert TemplateMatrix(task, N, np.ones(2), 1e-5).limit_loss() == 0
    blind = TemplateMatrix(task, np.ones((2, 2)), np.ones(2), 1e-8).limit_loss()
    assert np.isclose(blind, 4 * 1e-6 * (1 - 1e-6), rtol=1e-6)  # the variance of the labels


@pytest.mark.parametrize("simulate", [-3, 4001])
def test_simulations_out_of_range_are_refused(simulate: int) -> None:
    with pytest.raises(InputError, match="simulate must lie between 0 and 4000"):
        forecast_templates(_task(["αα", "αβ"], (1.0, -1.0)), simulate=simulate)
