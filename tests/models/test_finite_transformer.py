"""Networks of finite width: their kernels on average, their losses' velocities against actual steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from foretrain.core.errors import InputError
from foretrain.kernels import attention_matrix, transformer_kernel
from foretrain.models.finite_transformer import CopyingAttention, FiniteTransformer, Widths, loss_velocities
from foretrain.papers.abstract_symbols import theory

STRINGS = ["AB*", "BA*", "CC*"]
CODES = torch.tensor([["ABC*".index(t) for t in s] for s in STRINGS])


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("activation", ["cosine", "relu", "gelu"])
def test_random_features_have_the_kernel_as_their_mean(activation: str) -> None:
    found = []
    for seed in range(60):
        net = FiniteTransformer(
            4, 3, Widths(48, 64, 32, 256), beta=1.5, gamma=0.7, activation=activation, generator=generator(seed)
        )
        found.append([kernel.numpy() for kernel in net.kernels(CODES)])
    values = np.array(found)
    limits = (
        attention_matrix(STRINGS, STRINGS, beta=1.5, gamma=0.7).values,
        transformer_kernel(STRINGS, STRINGS, beta=1.5, gamma=0.7, activation=activation),
    )
    for index, limit in enumerate(limits):
        mean = values[:, index].mean(axis=0)
        error = values[:, index].std(axis=0, ddof=1) / np.sqrt(len(values))
        assert (abs(mean - limit) < 4 * error + 0.03 * abs(limit)).all()  # a bias of order 1/width is left


def test_readout_starts_at_0_and_is_linear_in_the_features() -> None:
    net = FiniteTransformer(4, 3, Widths.all(8), beta=1.0, gamma=1.0, generator=generator(1))
    assert not net(CODES).any()
    net.w_U.data = torch.ones(8, dtype=torch.float64)
    assert torch.allclose(net(CODES), net.features(CODES).sum(dim=1))


def test_velocities_are_those_of_a_small_step() -> None:
    rates = {"O": 0.3, "V": 0.7, "E": 0.2, "P": 0.5, "b": 0.4}
    net = CopyingAttention(5, Widths(2, 12, 6, 1), gamma=0.8, generator=generator(3))
    train, test = torch.arange(3), torch.tensor([4])
    expected = loss_velocities(net, train, test, rates)
    before = [float(net.copying_loss(tokens).detach()) for tokens in (train, test)]
    step = 1e-6
    gradients = torch.autograd.grad(net.copying_loss(train), [getattr(net, name) for name in rates])
    with torch.no_grad():
        for (name, rate), gradient in zip(rates.items(), gradients, strict=True):
            getattr(net, name).sub_(step * rate * gradient)
    after = [float(net.copying_loss(tokens).detach()) for tokens in (train, test)]
    assert np.allclose([(a - b) / step for a, b in zip(after, before, strict=True)], expected, rtol=1e-4)
    assert expected[0] < 0


def test_network_of_one_token_strings_is_eq_27() -> None:
    net = CopyingAttention(5, Widths(3, 7, 4, 1), gamma=0.8, generator=generator(4))
    net.b.data = torch.tensor([0.1, -0.3, 0.7], dtype=torch.float64)
    inner = sum(net.O[h].T @ net.V[h] for h in range(3)) + 0.5 * torch.eye(7, dtype=torch.float64)
    for token in range(5):
        expected = net.E @ (inner @ (net.E[token] + 0.8 * net.P))
        assert torch.allclose(net(torch.tensor([token]))[0], expected)


def test_output_variance_has_the_heads_in_it() -> None:
    """J.2 prints O(1/d_emb); it is H(1 + γ²)/d_emb."""
    for heads in (1, 8):
        values = []
        for seed in range(60):
            net = CopyingAttention(20, Widths(heads, 256, 16, 1), gamma=0.5, generator=generator(seed))
            values.append(net(torch.tensor([0]))[0, 1:].detach().numpy())
        assert np.var(values) == pytest.approx(theory.output_variance(0.5, heads, 256), rel=0.15)


def test_bad_input() -> None:
    with pytest.raises(InputError, match="heads must be at least 1"):
        Widths(0, 4, 4, 4)
    with pytest.raises(InputError, match="no activation"):
        FiniteTransformer(4, 3, Widths.all(4), beta=1.0, gamma=1.0, activation="cosin", generator=generator(1))
    net = CopyingAttention(5, Widths.all(4), gamma=0.0, generator=generator(1))
    with pytest.raises(InputError, match="no parameter 'c'"):
        loss_velocities(net, torch.arange(3), torch.tensor([4]), {"c": 1.0})
