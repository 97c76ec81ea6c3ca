"""Products of many small matrices against torch's, and what they refuse."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import grad, gradcheck

from foretrain.models.stacked.small_products import product, product_per_head


def drawn(*shape: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=draw, dtype=torch.float64).requires_grad_()


def test_each_matrix_is_multiplied_by_its_own():
    x, y = drawn(5, 2, 3), drawn(5, 4, 3)
    torch.testing.assert_close(product(x, y.mT), x @ y.mT)
    assert gradcheck(lambda x, y: product(x, y.mT), (x, y))


def test_each_head_has_a_matrix_of_its_own_and_heads_lie_between_rows():
    x, matrices = drawn(2, 5, 3, 4), drawn(2, 3, 4, 6)
    products = product_per_head(x, matrices)
    torch.testing.assert_close(products, torch.einsum("rnha,rhab->rnhb", x, matrices))
    assert products.is_contiguous()
    assert gradcheck(product_per_head, (x, matrices))


def test_gradients_may_be_views():
    x, y = drawn(5, 2, 3), drawn(5, 3, 4)
    for of in (lambda z: z.sum(), lambda z: z.mT.flip(1)[:, ::2].sum(0).norm()):
        for ours, wanted in zip(grad(of(product(x, y)), (x, y)), grad(of(x @ y), (x, y)), strict=True):
            torch.testing.assert_close(ours, wanted)


def test_second_derivatives_are_refused():
    x, y = drawn(5, 2, 3), drawn(5, 3, 4)
    (first,) = grad(product(x, y).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()
