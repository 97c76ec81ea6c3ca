"""Identity scalings and mimetic initialisation of a model that is on an accelerator already."""

from __future__ import annotations

import torch
import transformers as hf
from torch import nn

from fake_accelerator import host_reads
from foretrain.language.models import build
from foretrain.language.setting import LanguageSetting
from foretrain.patches.identity import add_identity_scaling, identity_parameters
from foretrain.patches.mimetic import mimetic_init


def gpt2() -> nn.Module:
    torch.manual_seed(0)
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 16, "vocab_size": 32}
    return hf.GPT2LMHeadModel(hf.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, use_cache=False)).eval()


def encoder() -> nn.Module:
    return build(LanguageSetting(model="post-norm", width=16, layers=1, heads=2, context=8), 32).eval()


def logits(model: nn.Module, device: torch.device | str) -> torch.Tensor:
    out = model(torch.arange(8)[None].to(device))
    return out if isinstance(out, torch.Tensor) else out.logits


def test_scalings_are_added_where_the_model_is(device: torch.device) -> None:
    for make in (gpt2, encoder):
        with host_reads() as reads_of_model:  # transformers looks at the positions once
            logits(make().to(device), device)
        on_cpu = add_identity_scaling(make(), a=0.5, b=0.25)
        on_device = add_identity_scaling(make().to(device), a=0.5, b=0.25)
        assert {p.device for p in identity_parameters(on_device)} == {device}
        with host_reads() as reads:
            outputs = logits(on_device, device)
            outputs.square().mean().backward()
        assert reads == reads_of_model
        torch.testing.assert_close(outputs.cpu(), logits(on_cpu, "cpu"), rtol=1e-4, atol=1e-5)
        assert all(p.grad is not None and p.grad.device == device for p in identity_parameters(on_device))


def test_mimetic_initialisation(device: torch.device) -> None:
    on_cpu, on_device = mimetic_init(encoder(), heads=2), mimetic_init(encoder().to(device), heads=2)
    for name, parameter in on_device.named_parameters():
        torch.testing.assert_close(parameter.cpu(), on_cpu.get_parameter(name))
