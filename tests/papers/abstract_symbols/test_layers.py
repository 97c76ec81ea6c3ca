"""Sections 3.3 and 4, Proposition 3.1 and Remark I.3: against finite networks, autograd and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import softmax

from foretrain.kernels import attention_kernel
from foretrain.models.finite_transformer import Widths
from foretrain.papers.abstract_symbols import theory
from foretrain.papers.abstract_symbols.experiments.last_layer import last_layer
from foretrain.papers.abstract_symbols.experiments.skip import EXPERIMENTS as SKIP
from foretrain.papers.abstract_symbols.experiments.skip import CopyingStrings
from foretrain.papers.abstract_symbols.experiments.unseen import TOKENS, relational_weights


def random_layers(strings: list[str], *, beta: float, gamma: float, identity: float, layers: int, seed: int) -> float:
    """⟨z(x), z(y)⟩/d of a finite network: attention with W_KW_Qᵀ + a·I at every position, `layers` times."""
    draw = np.random.default_rng(seed)
    heads, d, e = 64, 192, 32
    tokens = sorted(set("".join(strings)))
    embedded, places = draw.normal(size=(len(tokens), d)), draw.normal(size=(len(strings[0]), d))
    Z = np.array([[embedded[tokens.index(t)] for t in s] for s in strings]) + gamma * places
    for _ in range(layers):
        K, Q, V, W = (draw.normal(size=(heads, e, d)) for _ in range(4))
        logits = (
            np.einsum("hed,spd,hec,sqc->shpq", Q, Z, K, Z, optimize=True) * beta / (d * (e * (1 + gamma**2)) ** 0.5)
        )
        logits = logits + identity * np.einsum("spd,sqd->spq", Z, Z)[:, None] / d
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        Z = np.einsum("hed,hec,shpq,sqc->spd", W, V, weights, Z, optimize=True) / (heads * e * d) ** 0.5
    return float(Z[0, -1] @ Z[1, -1]) / d


@pytest.mark.parametrize(("layers", "identity"), [(1, 0.0), (1, -1.5), (2, -1.5)])
def test_identity_kernel_is_the_limit_of_wide_networks(layers: int, identity: float) -> None:
    """Section 3.3: the mean over networks, within 4 of its standard errors and what width 192 still misses."""
    setting = {"beta": 1.3, "gamma": 0.8, "identity": identity, "layers": layers}
    strings = ["AAB*", "CAB*"]
    runs = np.array([random_layers(strings, **setting, seed=seed) for seed in range(24)])
    exact = theory.identity_kernel(*strings, **setting)
    assert abs(runs.mean() - exact) < 4 * runs.std(ddof=1) / len(runs) ** 0.5 + 0.03


def test_one_layer_without_identity_is_eq_4() -> None:
    exact = attention_kernel("AAB*", "CAB*", beta=1.3, gamma=0.8)
    one = theory.identity_kernel("AAB*", "CAB*", beta=1.3, gamma=0.8, identity=0.0, layers=1, log2=14)
    assert one == pytest.approx(exact, abs=3e-4)


def test_one_layer_adds_a_constant_to_the_logit_of_cls_only() -> None:
    """Section 3.3: whatever symbols repeat, a·I in a single layer cannot see it."""

    def by_offset(x: str, y: str) -> float:
        draw = np.random.default_rng(3).normal(size=(200_000, 10))
        tokens = sorted(set(x + y))
        offset = np.array([0.0, 0.0, 0.0, -1.0 * (1 + 0.8**2)])
        sides = []
        for s in (x, y):
            m = draw[:, [tokens.index(t) for t in s]] + 0.8 * draw[:, 6:]
            sides.append(softmax(1.3 * m + offset, axis=1))
        gram = np.equal.outer(list(x), list(y)) + 0.8**2 * np.eye(4)
        return float(np.einsum("sp,pq,sq->s", sides[0], gram, sides[1]).mean())

    for x, y in (("AAB*", "CDD*"), ("ABA*", "BAA*")):
        kernel = theory.identity_kernel(x, y, beta=1.3, gamma=0.8, identity=-1.0, layers=1)
        assert kernel == pytest.approx(by_offset(x, y), abs=5e-3)


def test_gradient_descent_on_the_last_layer_ends_at_eq_5() -> None:
    """Proposition 3.1: the distance falls by e^(−t) in units of 1/λ, and without weight decay it does not."""
    run = last_layer(samples=16, width=16, time=20.0)
    distance = abs(run.output - run.eq5).max("string").values
    assert distance[-1] < 1e-7 < 1e-2 < distance[0]
    late = run.time.values >= 8
    slope = np.polyfit(run.time.values[late], np.log(distance[late]), 1)[0]
    assert slope == pytest.approx(-1.0, abs=0.1)
    without = last_layer(samples=16, width=16, time=20.0, decay=0.0)
    assert abs(without.output[-1] - without.eq5).max() > 0.05


def test_a_skip_connection_copies_only_what_stands_where_it_is_read() -> None:
    """Section 4: with one symbol and no [CLS] attention is 1, and the skip connection is b·I."""
    losses = SKIP[0].run(embedding=128, steps=20, seeds=2).test_loss.mean("seed")
    at_symbol = losses.sel(read_at="the symbol")
    assert float(at_symbol[0]) == pytest.approx(float(at_symbol[1]), rel=1e-9)
    assert float(losses.sel(read_at="[CLS]", added="skip connection")) > 0.9
    assert float(losses.sel(read_at="[CLS]", added="b·I per head")) < 0.3


def test_outputs_of_the_copying_network_by_hand() -> None:
    net = CopyingStrings(3, Widths(2, 5, 4, 1), cls=True, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        net.b += 0.3
        net.skip += 0.7
    z = [net.E[1] + net.P[0], net.E[3] + net.P[1]]
    out = 0.7 * z[1]
    for h in range(2):
        logits = torch.stack([(net.Q[h] @ z[1]) @ (net.K[h] @ row) for row in z])
        attended = torch.softmax(logits, 0) @ torch.stack(z)
        out = out + net.O[h].T @ (net.V[h] @ attended) + 0.3 * attended
    torch.testing.assert_close(net(torch.tensor([1]))[0], net.E[:3] @ out)


def test_weights_that_solve_same_different_exist() -> None:
    """Remark I.3: on all strings of twelve tokens."""
    model, weights = relational_weights()
    strings = torch.cartesian_prod(torch.arange(TOKENS), torch.arange(TOKENS))
    wanted = torch.where(strings[:, 0] == strings[:, 1], 1.0, -1.0).double()
    torch.testing.assert_close(model.outputs(weights, strings)[0], wanted, rtol=0, atol=1e-12)
