"""A forward pass on an accelerator is read there: the host reads nothing, and then everything at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fake_accelerator import host_reads
from foretrain.monitor import statistics
from foretrain.monitor.guard import no_guard
from foretrain.monitor.watch import forward_pass_of

TOKENS, WIDTH, HEADS = 9, 16, 4


class Attention(nn.Module):
    """Attention in one of many ways, and then a mixture of experts; a block whose output has the shape of its input."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.norm, self.act = way, nn.LayerNorm(WIDTH), nn.GELU()
        self.up, self.down, self.router = nn.Linear(WIDTH, 24), nn.Linear(24, WIDTH), nn.Linear(WIDTH, 3)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.multihead = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, add_bias_kv=way == "added keys")

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm(x))
        x = x + self.down(self.act(self.up(F.relu(x))))
        weights, chosen = self.router(x).softmax(-1).topk(2)
        for index, expert in enumerate(self.experts):
            x = x + (weights * (chosen == index)).sum(-1, keepdim=True) * expert(x)
        return x

    def attention(self, x: Tensor) -> Tensor:
        q = x.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        allowed = torch.ones(TOKENS, TOKENS, dtype=torch.bool, device=x.device).tril()
        added = torch.zeros(TOKENS, TOKENS, device=x.device).masked_fill(~allowed, -torch.inf)
        options: dict[str, dict[str, Any]] = {
            "causal": {"is_causal": True}, "mask": {"attn_mask": allowed}, "added mask": {"attn_mask": added},
            "no mask": {}, "shared keys": {"enable_gqa": True},
        }  # fmt: skip
        if self.way == "softmax":
            mixed = (q @ q.mT / math.sqrt(q.shape[-1]) + added).softmax(-1) @ q
        elif self.way in options:
            k = q[:, ::2] if self.way == "shared keys" else q
            mixed = F.scaled_dot_product_attention(q, k, k, **options[self.way])
        else:
            keys = x.clone() if self.way in ("equal tokens", "added keys") else x.flip(1)
            return self.multihead(x, keys, keys, need_weights=False)[0]
        return mixed.transpose(1, 2).flatten(2)


WAYS = ["causal", "mask", "added mask", "no mask", "shared keys", "softmax", "equal tokens", "added keys", "cross"]


@pytest.mark.parametrize("at_once", [1 << 6, 1 << 24])
@pytest.mark.parametrize("way", WAYS)
def test_a_pass(way: str, at_once: int, device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "LOGITS_AT_ONCE_ELSEWHERE", at_once)
    torch.manual_seed(0)
    model = nn.ModuleDict({"blocks": nn.ModuleList([Attention(way), Attention(way)])})
    x = torch.randn(3, TOKENS, WIDTH)
    expected = read(model, x).read()
    readings = []
    with host_reads() as reads:
        readings.append(read(model.to(device), x.to(device)))
    assert reads == []
    with host_reads() as reads:
        numbers = readings[0].read()
    assert len(reads) == 1
    assert set(numbers) == set(expected) == {"attention", "activations", "experts"}
    for part, names in expected.items():
        assert list(numbers[part]) == list(names)
        for name, measures in names.items():
            for measure, value in measures.items():
                np.testing.assert_allclose(numbers[part][name][measure], value, rtol=1e-4, atol=1e-6, err_msg=measure)
    itself = np.array([values["self_attention"] for values in numbers["attention"].values()])
    assert np.isnan(itself).all() if way == "cross" else np.isfinite(itself).all()


def read(model: Any, x: Tensor) -> Any:
    with forward_pass_of(model, no_guard) as readings:
        for block in model["blocks"]:
            x = block(x)
    return readings
