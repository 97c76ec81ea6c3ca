"""The matrices of every family are found and cut into heads: logits made from them equal the model's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from foretrain.monitor.projections import identity_share, identity_shares, projections_of
from monitor.models import DECODERS, ENCODERS, NanoGPT, t5, vit

FAMILIES: dict[str, Callable[[], Any]] = {**DECODERS, **ENCODERS, "T5": t5, "ViT": vit, "NanoGPT": NanoGPT}
LAYERS = {"T5": 6}  # two in the encoder, four in the decoder


@pytest.mark.parametrize("family", FAMILIES)
def test_every_layer_of_every_family_is_found(family: str) -> None:
    torch.manual_seed(0)
    model = FAMILIES[family]()
    shares = identity_shares(dict(model.state_dict()), 4)
    assert len(shares) == LAYERS.get(family, 2)
    for layer, products in shares.items():
        assert model.get_submodule(layer) is not None
        assert set(products) == {"query_key", "value_output"}
        assert all(len(values) == 4 and max(map(abs, values)) < 0.5 for values in products.values())


@pytest.mark.parametrize("family", ["GPT-2", "GPT-NeoX", "Llama", "BERT", "NanoGPT"])
def test_heads_are_cut_as_the_model_cuts_them(family: str) -> None:
    """Queries from the matrices found here equal those that the model's own layers make, before rotation."""
    torch.manual_seed(1)
    model = FAMILIES[family]()
    for parameter in model.parameters():
        if parameter.ndim == 1:
            nn.init.zeros_(parameter)  # biases
    layer, found = next(iter(projections_of(dict(model.state_dict()), 4)))
    module = model.get_submodule(layer)
    x = torch.randn(5, 32)
    if family == "GPT-2":
        q, k, v = module.c_attn(x).split(32, dim=-1)
    elif family == "NanoGPT":
        q, k, v = module.qkv(x).chunk(3, dim=-1)
    elif family == "GPT-NeoX":
        q, k, v = (p.flatten(1) for p in module.query_key_value(x).view(5, 4, 24).chunk(3, dim=-1))
    elif family == "BERT":
        q, k, v = module.query(x), module.key(x), module.value(x)
    else:  # two heads of keys for four of queries
        q = module.q_proj(x)
        k, v = (p(x).view(5, 2, 8).repeat_interleave(2, dim=1).flatten(1) for p in (module.k_proj, module.v_proj))
    for ours, theirs in ((found.query, q), (found.key, k), (found.value, v)):
        expected = theirs.unflatten(-1, (4, -1)).transpose(0, 1)
        torch.testing.assert_close(x @ ours, expected, atol=1e-5, rtol=1e-5)
    mixed = torch.randn(5, 32)
    names = {"GPT-2": "c_proj", "NanoGPT": "out", "GPT-NeoX": "dense", "Llama": "o_proj"}
    output = model.get_submodule(f"{layer}.{names[family]}") if family in names else None
    if output is not None:
        assert found.output is not None
        ours = (mixed.unflatten(-1, (4, -1)).transpose(0, 1) @ found.output).sum(0)
        torch.testing.assert_close(ours, output(mixed), atol=1e-5, rtol=1e-5)


@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(2, 12), st.integers(1, 12))
def test_the_share_is_the_trace_over_its_largest_possible_value(seed: int, heads: int, width: int, e: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    left, right = torch.randn(2, heads, width, e, generator=generator, dtype=torch.float64)
    product = (left @ right.mT).numpy()
    rank = min(width, e)
    expected = np.trace(product, axis1=1, axis2=2) / (math.sqrt(rank) * np.linalg.norm(product, axis=(1, 2)))
    share = identity_share(left, right).numpy()
    np.testing.assert_allclose(share, expected, atol=1e-12)
    assert (np.abs(share) <= 1 + 1e-12).all()


def test_the_ends_of_the_scale() -> None:
    basis = torch.linalg.qr(torch.randn(10, 10, dtype=torch.float64))[0][:, :4][None]
    torch.testing.assert_close(identity_share(basis, 3 * basis), torch.ones(1, dtype=torch.float64))
    torch.testing.assert_close(identity_share(basis, -basis), -torch.ones(1, dtype=torch.float64))
    assert identity_share(torch.zeros(1, 3, 2), torch.ones(1, 3, 2)).isnan().all()


def test_random_matrices_are_centred_with_the_stated_deviation() -> None:
    left, right = torch.randn(2, 2000, 48, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    share, expected = identity_share(left, right), 1 / math.sqrt(48 * 12)
    assert abs(float(share.mean())) < 4 * expected / math.sqrt(2000)
    # ‖M‖² has an extra term from W_QᵀW_Q not being diagonal: of order per_head/width
    assert 0.85 * expected < float(share.std()) < 1.05 * expected


def test_what_does_not_fit_is_left_out() -> None:
    assert identity_shares({"a.q_proj.weight": torch.ones(8, 8)}, 4) == {}
    assert identity_shares({f"a.{n}.weight": torch.ones(9, 8) for n in ("q_proj", "k_proj", "v_proj")}, 4) == {}
    assert identity_shares({"a.qkv.weight": torch.ones(24, 8)}, 4) == {}  # without an output, heads cannot be cut
    cross = {"a.q.weight": torch.randn(8, 8), "a.k.weight": torch.randn(8, 6), "a.v.weight": torch.randn(8, 6)}
    assert identity_shares(cross, 4) == {}  # queries and keys come from spaces of different width
    separate = {f"a.{n}.weight": torch.randn(8, 8) for n in ("q", "k", "v")}
    assert set(identity_shares(separate, {"a": 4})["a"]) == {"query_key"}
    assert identity_shares(separate, {"b": 4}) == {}
