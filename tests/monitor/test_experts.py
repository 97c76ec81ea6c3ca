"""Mixtures of experts: what is recorded of their routers, against the routers' own outputs."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from torch import Tensor, nn
from torch.nn import functional as F

from foretrain.monitor import experts
from foretrain.monitor.experts import mixtures_of
from foretrain.monitor.guard import LoggedErrors
from foretrain.monitor.watch import forward_pass_of
from monitor.models import GROUPED, NanoGPT

TOKENS = torch.randint(1, 50, (3, 12), generator=torch.Generator().manual_seed(1))
ROUTED = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
LATENT = {
    **GROUPED, **ROUTED, "num_key_value_heads": 4, "kv_lora_rank": 8, "q_lora_rank": 8, "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8, "v_head_dim": 8, "n_shared_experts": 1, "n_routed_experts": 8, "first_k_dense_replace": 1,
}  # fmt: skip
NO_HEAD_WIDTH = {name: value for name, value in GROUPED.items() if name != "head_dim"}

FAMILIES: dict[str, Callable[[], Any]] = {
    "Mixtral": lambda: hf.MixtralForCausalLM(hf.MixtralConfig(**GROUPED, num_local_experts=4, num_experts_per_tok=2)),
    "Qwen2": lambda: hf.Qwen2MoeForCausalLM(
        hf.Qwen2MoeConfig(**GROUPED, **ROUTED, num_experts=4, shared_expert_intermediate_size=16)
    ),
    "Qwen3": lambda: hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(**GROUPED, **ROUTED, num_experts=4)),
    "OLMoE": lambda: hf.OlmoeForCausalLM(hf.OlmoeConfig(**NO_HEAD_WIDTH, num_experts=4, num_experts_per_tok=2)),
    "GPT-OSS": lambda: hf.GptOssForCausalLM(
        hf.GptOssConfig(
            **GROUPED, num_local_experts=4, num_experts_per_tok=2,
            rope_parameters={"rope_type": "default", "rope_theta": 1e4},
        )
    ),
    "DeepSeek-V2": lambda: hf.DeepseekV2ForCausalLM(
        hf.DeepseekV2Config(**LATENT, n_group=1, topk_group=1, topk_method="greedy")
    ),
    "DeepSeek-V3": lambda: hf.DeepseekV3ForCausalLM(hf.DeepseekV3Config(**LATENT, n_group=2, topk_group=1)),
    "DeepSeek-V3, one group": lambda: hf.DeepseekV3ForCausalLM(
        hf.DeepseekV3Config(**LATENT, n_group=1, topk_group=1)
    ),
}  # fmt: skip


def read_experts(model: nn.Module, **inputs: Any) -> dict[str, dict[str, Any]]:
    with forward_pass_of(model) as readings:
        model(**inputs)
    return readings.read()["experts"]


def check(read: dict[str, Any], distribution: Tensor, chosen: Tensor) -> None:
    """Against a router's distribution [token, expert] and its choices [token, choice]."""
    count = distribution.shape[-1]
    entropy = -(distribution.double() * distribution.double().clamp(min=1e-300).log()).sum(-1).mean()
    load = np.bincount(chosen.flatten().numpy(), minlength=count) / chosen.numel()
    np.testing.assert_allclose(read["router_entropy"], entropy / math.log(count), rtol=1e-5)
    np.testing.assert_allclose(read["load"], load, rtol=1e-6)
    np.testing.assert_allclose(read["busiest"], load.max() * count, rtol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_routers_of_known_families(family: str) -> None:
    torch.manual_seed(0)
    model = FAMILIES[family]().train()
    for name, parameter in model.named_parameters():
        if name.endswith(("gate.weight", "router.weight")):
            nn.init.normal_(parameter, std=0.5)  # else all experts are as likely as any
    outputs: dict[str, Any] = {}
    for name, mixture in mixtures_of(model).items():
        (router,) = (m for n, m in mixture.module.named_children() if n in ("gate", "router"))
        router.register_forward_hook(lambda _, __, output, name=name: outputs.update({name: output}))
    read = read_experts(model, input_ids=TOKENS)
    assert list(read) == list(outputs)
    assert len(read) == (1 if "DeepSeek" in family else 2)
    for name, (logits, _, chosen) in outputs.items():
        distribution = logits.detach().float().softmax(-1)
        if "V3" in family:
            distribution = logits.detach().sigmoid() / logits.detach().sigmoid().sum(-1, keepdim=True)
        check(read[name], distribution, chosen)
        assert read[name]["busiest"] > 1.1
        assert "dropped" not in read[name]


@pytest.mark.parametrize("family", ["Mixtral", "Qwen2", "Qwen3", "OLMoE", "GPT-OSS"])
def test_entropies_equal_those_of_the_logits_that_the_model_gives_out(family: str) -> None:
    torch.manual_seed(0)
    model = FAMILIES[family]().eval()
    read = read_experts(model, input_ids=TOKENS)
    with torch.no_grad():
        given = model(input_ids=TOKENS, output_router_logits=True).router_logits
    for measures, logits in zip(read.values(), given, strict=True):
        check({**measures}, logits.float().softmax(-1), logits.topk(2).indices)


@pytest.mark.parametrize("capacity", [2, 12])
def test_tokens_that_no_expert_takes(capacity: int) -> None:
    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4}
    routing = {"num_experts": 4, "expert_capacity": capacity, "num_sparse_encoder_layers": 1}
    config = hf.SwitchTransformersConfig(
        **sizes,
        **routing,
        vocab_size=50,
        num_sparse_decoder_layers=1,
        decoder_start_token_id=0,
        router_jitter_noise=0.0,
    )
    model = hf.SwitchTransformersForConditionalGeneration(config).train()
    read = read_experts(model, input_ids=TOKENS, decoder_input_ids=TOKENS)
    assert list(read) == ["encoder.block.1.layer.1.mlp", "decoder.block.1.layer.2.mlp"]
    for measures in read.values():
        assert (measures["dropped"] > 0) == (capacity == 2)  # no expert can get more than the 12 tokens of a text
        assert measures["dropped"] >= 1 - 4 * capacity / 12


class HandWritten(nn.Module):
    """As in many tutorials: softmax, the best two, and a loop over experts."""

    def __init__(self, order: str) -> None:
        super().__init__()
        self.order, self.router = order, nn.Linear(8, 5, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)) for _ in range(5))

    def forward(self, x: Tensor) -> Tensor:
        logits = self.router(x)
        if self.order == "softmax first":
            weights, chosen = F.softmax(logits, dim=-1).topk(2, dim=-1)
        elif self.order == "top first":
            weights, chosen = torch.topk(logits, 2)
            weights = torch.softmax(weights, dim=-1)
        else:
            weights, chosen = (part[..., None] for part in logits.softmax(-1).max(dim=-1))
        out = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            share = (weights * (chosen == index)).sum(-1, keepdim=True)
            out = out + share * expert(x)
        return x + out


@pytest.mark.parametrize("order", ["softmax first", "top first", "one"])
def test_a_router_written_by_hand(order: str) -> None:
    torch.manual_seed(0)
    model = nn.ModuleDict({"moe": HandWritten(order)})
    x = 3 * torch.randn(2, 7, 8)
    with forward_pass_of(model) as readings:
        model["moe"](x)
    logits = model["moe"].router(x).detach()
    ((name, measures),) = readings.read()["experts"].items()
    assert name == "moe"
    check(measures, logits.softmax(-1), logits.topk(1 if order == "one" else 2).indices)


def test_a_mixture_that_runs_twice_has_two_records_and_one_without_a_router_has_none() -> None:
    mixture = HandWritten("top first")
    plain = nn.ModuleDict({"experts": nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])})
    model = nn.ModuleDict({"moe": mixture, "plain": plain})
    with forward_pass_of(model) as readings:
        mixture(mixture(torch.randn(2, 7, 8)))
    assert list(readings.read()["experts"]) == ["moe", "moe#2"]
    assert "experts" not in read_experts_of_nothing()


def read_experts_of_nothing() -> dict[str, Any]:
    with forward_pass_of(model := NanoGPT()) as readings:
        model(TOKENS)
    return readings.read()


def test_shared_experts_are_no_mixture() -> None:
    model = nn.ModuleDict(
        {"shared_experts": nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)]), "expert": nn.Linear(2, 2)}
    )
    assert mixtures_of(model) == {}


def train(watch: bool) -> tuple[list[Tensor], list[Tensor]]:
    torch.manual_seed(0)
    model = FAMILIES["Mixtral"]().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses, guard = [], LoggedErrors()
    for _ in range(2):
        if watch:
            with forward_pass_of(model, guard):
                loss = model(input_ids=TOKENS, labels=TOKENS).loss
        else:
            loss = model(input_ids=TOKENS, labels=TOKENS).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses, [parameter.detach() for parameter in model.parameters()]


@pytest.mark.parametrize("failing", [None, "_tally", "_softmax", "local_part"])
def test_reading_changes_nothing_even_where_it_fails(
    failing: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plain = train(watch=False)
    if failing is not None:
        monkeypatch.setattr(experts, failing, lambda *_: 1 / 0)
    with caplog.at_level(logging.WARNING, "foretrain"):
        watched = train(watch=True)
    assert all(torch.equal(a, b) for pair in zip(plain, watched, strict=True) for a, b in zip(*pair, strict=True))
    assert caplog.text.count("could not read experts (ZeroDivisionError") == (failing is not None)
