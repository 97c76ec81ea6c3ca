"""Mimetic initialisation puts the identity where it says."""

from __future__ import annotations

import pytest
import torch

from foretrain.core.errors import InputError
from foretrain.monitor.projections import identity_shares, projections_of
from foretrain.patches.mimetic import mimetic_init
from monitor.models import DECODERS, NanoGPT


@pytest.mark.parametrize("name", ["GPT-2", "GPT-NeoX", "OPT"])
def test_products_are_noise_plus_the_identity(name: str) -> None:
    model = mimetic_init(DECODERS[name](), heads=4)
    weights = dict(model.state_dict())
    for layer, shares in identity_shares(weights, 4).items():
        assert min(shares["query_key"]) > 0.4, layer
    for _, found in projections_of(weights, 4):
        assert found.output is not None
        total = (found.value @ found.output).sum(0).double()
        diagonal = total.diagonal()
        assert float(diagonal.mean()) == pytest.approx(-0.4, abs=4 * 0.4 / 32)
        off = total - torch.diag(diagonal)
        assert float(off.square().sum() / (32 * 31)) ** 0.5 == pytest.approx(0.4 / 32**0.5, rel=0.1)


def test_it_is_reproducible_and_takes_no_random_numbers() -> None:
    state = torch.get_rng_state()
    model = NanoGPT()
    torch.set_rng_state(state)
    twin = NanoGPT()
    state = torch.get_rng_state()
    for one in (model, twin):
        mimetic_init(one, heads=4, query_key=(0.0, 0.5), seed=7)
    assert torch.equal(state, torch.get_rng_state())
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(a, b)
    shares = identity_shares(dict(model.state_dict()), 4)
    assert all(share == pytest.approx(1.0) for layer in shares.values() for share in layer["query_key"])


def test_grouped_heads_and_unknown_models_are_refused() -> None:
    with pytest.raises(InputError, match="shares keys"):
        mimetic_init(DECODERS["Llama"](), heads=4)
    with pytest.raises(InputError, match="No attention layer"):
        mimetic_init(torch.nn.Linear(2, 2), heads=1)
