"""The loss and its gradient equal torch's."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from foretrain.language import loss as module
from foretrain.language.loss import cross_entropy


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 30), st.floats(0.1, 50), st.sampled_from([1.0, 0.3]))
def test_loss_and_gradient_equal_torch_s(seed: int, rows: int, vocabulary: int, scale: float, factor: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, 6, generator=generator).requires_grad_()
    weight = (scale * torch.randn(6, vocabulary, generator=generator)).requires_grad_()
    targets = torch.randint(0, vocabulary, (rows,), generator=generator)
    results = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", 64)  # several blocks
        for function in (cross_entropy, F.cross_entropy):
            loss = function(hidden @ weight, targets)
            results.append((loss, *torch.autograd.grad(factor * loss, (hidden, weight))))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-5 * max(1.0, scale), rtol=1e-4)


def test_without_a_gradient_the_logits_are_left_alone() -> None:
    logits, targets = torch.randn(5, 7), torch.arange(5)
    kept = logits.clone()
    assert float(cross_entropy(logits, targets)) == float(F.cross_entropy(kept, targets))
    assert torch.equal(logits, kept)
    with torch.no_grad():
        cross_entropy(logits.clone().requires_grad_(), targets)
    double = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(lambda x: cross_entropy(x, targets), (double,))


def test_logits_that_autograd_still_needs_are_not_spoilt_in_silence() -> None:
    logits = torch.randn(5, 7, requires_grad=True).tanh()  # tanh's gradient needs its output
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        cross_entropy(logits, torch.arange(5)).backward()
