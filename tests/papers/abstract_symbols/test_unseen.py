"""Appendix I: what MLPs make of strings of unseen tokens, on small networks and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foretrain.core.streams import torch_stream
from foretrain.data.template_task import Template, TemplateTask
from foretrain.kernels.architectures import MLP, architecture_kernel
from foretrain.kernels.template_matrix import template_matrix
from foretrain.models.one_hot_mlp import OneHotMLP
from foretrain.papers.abstract_symbols import theory
from foretrain.papers.abstract_symbols.experiments.unseen import TOKENS, WAYS, trained

OUTPUTS = st.lists(st.floats(-5, 5), min_size=1, max_size=8)


@given(OUTPUTS, st.floats(-3, 3), st.floats(-3, 3))
def test_equal_outputs_on_two_templates_miss_one_of_them(outputs: list[float], label: float, other: float) -> None:
    """Theorem I.2: whatever the outputs are, if they are the same on both strings one error is above the floor."""
    errors = [np.mean((np.array(outputs) - value) ** 2) for value in (label, other)]
    assert max(errors) >= theory.error_floor(label, other) - 1e-12
    middle = (label + other) / 2
    assert (middle - label) ** 2 == pytest.approx(theory.error_floor(label, other))  # and the floor can be reached


@pytest.mark.parametrize("way", WAYS)
def test_exchanging_unseen_tokens_in_the_first_layer_exchanges_the_outputs(way: str) -> None:
    """Lemma I.7 and Remark I.5: no way of training can tell one string of unseen tokens from another."""
    model = OneHotMLP(TOKENS, 2, width=5)
    start = model.draw(3, torch_stream("test", "unseen"))
    first, second, seen = torch.tensor([6, 6]), torch.tensor([8, 9]), torch.tensor([0, 9])
    before = model.outputs(start, second[None])
    plain = model.outputs(trained(model, start, way, 10), second[None])
    exchanged = trained(model, model.exchanged(start, first, second), way, 10)
    torch.testing.assert_close(model.outputs(exchanged, first[None]), plain, rtol=1e-9, atol=1e-9)
    assert not torch.allclose(plain, before)  # training did change the output
    with_seen = trained(model, model.exchanged(start, first, seen), way, 10)
    on_seen = model.outputs(trained(model, start, way, 10), seen[None])
    assert not torch.allclose(model.outputs(with_seen, first[None]), on_seen)


def test_an_mlp_sees_a_template_only_by_its_regular_tokens() -> None:
    """Remark I.6: N of an MLP is constant for wildcards only, and not for templates with tokens of their own."""
    kernel = architecture_kernel(MLP)
    wild = TemplateTask((Template.parse("αα"), Template.parse("αβ")), (1.0, -1.0))
    assert np.ptp(template_matrix(wild, kernel).N) == pytest.approx(0, abs=1e-12)
    with_tokens = TemplateTask((Template.parse("aα"), Template.parse("bα")), (1.0, -1.0))
    N = template_matrix(with_tokens, kernel).N
    assert N[0, 0] == pytest.approx(N[1, 1])
    assert N[0, 0] > N[0, 1] + 0.01
    assert np.linalg.matrix_rank(N) == 2
