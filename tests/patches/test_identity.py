"""Identity scalings: nothing changes at 0, the formula holds elsewhere, and everything a model can do still works."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn
from torch.nn import functional as F

import foretrain
from foretrain.core.errors import InputError
from foretrain.language.models import build
from foretrain.language.setting import LanguageSetting
from foretrain.monitor.watch import attention_of
from foretrain.patches.identity import identity_parameters, load_identity_scaling
from monitor.models import DECODERS, ENCODERS, t5

FAMILIES = {name: DECODERS[name] for name in ("GPT-2", "GPT-NeoX", "OPT", "Llama", "Mistral", "Qwen")}
TOKENS = torch.randint(1, 50, (3, 12), generator=torch.Generator().manual_seed(3))
OURS = LanguageSetting(
    model="post-norm", tokens="words", vocabulary=50, layers=2, width=32, heads=4, hidden=64, context=16
)


def ours() -> nn.Module:
    return build(OURS, 50)


EVERY: dict[str, Callable[[], Any]] = {**FAMILIES, "foretrain": ours}


def made(name: str, **scalars: float) -> Any:
    torch.manual_seed(0)
    model = EVERY[name]()
    return foretrain.add_identity_scaling(model, **scalars) if scalars else model


def logits(model: Any, tokens: Tensor = TOKENS, **options: Any) -> Tensor:
    output = model(tokens, **options)
    return output if isinstance(output, Tensor) else output.logits


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("padding", ["none", "left", "right"])
def test_at_zero_nothing_changes(name: str, padding: str) -> None:
    options = {}
    if padding != "none" and name != "foretrain":
        mask = torch.ones_like(TOKENS)
        mask[1, :4] = 0
        options["attention_mask"] = mask if padding == "left" else mask.flip(1)
    plain, scaled = made(name).eval(), made(name, a=0.0).eval()
    chosen = options.get("attention_mask", torch.ones_like(TOKENS)).bool()
    torch.testing.assert_close(logits(plain, **options)[chosen], logits(scaled, **options)[chosen], atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", EVERY)
def test_all_scalars_have_a_gradient(name: str) -> None:
    model = made(name, a=0.0, b=0.0)
    F.cross_entropy(logits(model)[:, :-1].flatten(0, 1), TOKENS[:, 1:].flatten()).backward()
    scalars = identity_parameters(model)
    assert [tuple(p.shape) for p in scalars] == [(4,)] * 4  # two layers, a and b
    assert all(p.grad is not None and bool((p.grad != 0).all()) for p in scalars)


def test_gpt2_small_gains_288_parameters() -> None:
    with torch.device("meta"):
        model = hf.GPT2LMHeadModel(hf.GPT2Config())
    foretrain.add_identity_scaling(model)
    assert sum(p.numel() for p in identity_parameters(model)) == 288


class Reference(nn.Module):
    """One attention layer with W_Q·W_Kᵀ + a·I and W_V·W_O + b·I written out as matrices [head, width, width]."""

    def forward(self, x: Tensor, layer: Any) -> Tensor:
        width, heads, e = 32, 4, 8
        q, k, v = (W.mT.unflatten(1, (heads, e)).permute(1, 0, 2) for W in layer.qkv.weight.split(width))
        o = layer.out.weight.mT.unflatten(0, (heads, e))
        a, b, one = layer.identity_scaling.a, layer.identity_scaling.b, torch.eye(width)
        QK = q @ k.mT + a.view(-1, 1, 1) * one
        VO = v @ o + b.view(-1, 1, 1) * one
        scores = torch.einsum("sid,hde,sje->shij", x, QK, x) / e**0.5
        later = torch.full(scores.shape[-2:], -torch.inf).triu(1)
        return torch.einsum("shij,sjd,hde->sie", (scores + later).softmax(-1), x, VO) + layer.out.bias


def test_the_scalars_multiply_the_identity() -> None:
    model: Any = made("foretrain", a=0.3, b=-0.7)
    layer = model.layers[0].attention
    with torch.no_grad():
        layer.identity_scaling.a.copy_(torch.tensor([0.5, -0.2, 0.0, 1.0]))
    layer.eval()
    x = torch.randn(2, 9, 32)
    torch.testing.assert_close(layer(x), Reference()(x, layer), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", FAMILIES)
def test_other_families_agree_with_a_direct_computation(name: str) -> None:
    """The change of the first layer's output that b makes is b·Σ_h A_h·x, with A read by an independent reader."""
    model: Any = made(name, a=0.4, b=0.0).eval()
    seen: dict[str, Tensor] = {}
    layer = next(m for m in model.modules() if hasattr(m, "identity_scaling"))
    layer.register_forward_pre_hook(
        lambda _, given, named: seen.update(x=named.get("hidden_states", given[0] if given else None)), with_kwargs=True
    )
    layer.register_forward_hook(lambda _, given, output: seen.update(out=output[0], A=output[1]))
    logits(model)
    before = dict(seen)
    with torch.no_grad():
        layer.identity_scaling.b.copy_(torch.tensor([0.1, 0.2, -0.3, 0.4]))
    logits(model)
    expected = torch.einsum("h,shij,sjd->sid", layer.identity_scaling.b, before["A"], before["x"])
    torch.testing.assert_close(seen["out"] - before["out"], expected, atol=1e-5, rtol=1e-4)
    with torch.no_grad():
        layer.identity_scaling.a.zero_()
    logits(model)
    gram = before["x"] @ before["x"].mT / 8**0.5
    odds = (before["A"] / seen["A"]).log()  # of the weights with and without a: a·gram, up to a constant per row
    difference = odds - 0.4 * gram[:, None]
    kept = torch.ones(12, 12, dtype=torch.bool).tril() & torch.ones(12, 12, dtype=torch.bool).triu(-5)
    first = difference.diagonal(dim1=-2, dim2=-1)[..., None]
    assert float((difference - first)[..., kept].abs().max().detach()) < 1e-4


@pytest.mark.parametrize("name", FAMILIES)
def test_with_a_cache_it_says_the_same(name: str) -> None:
    model = made(name, a=0.3, b=0.2).eval()
    with torch.no_grad():
        whole = logits(model)
        cache, parts = hf.DynamicCache(config=model.config), []
        for k in range(TOKENS.shape[1]):
            output = model(TOKENS[:, k : k + 1], past_key_values=cache, use_cache=True)
            parts.append(output.logits)
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("beams", [1, 3])
def test_generation_with_and_without_a_cache_is_the_same(name: str, beams: int) -> None:
    model = made(name, a=0.5, b=0.5).eval()
    options = {"max_new_tokens": 8, "num_beams": beams, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    mask = torch.ones_like(TOKENS)
    with_cache = model.generate(TOKENS, attention_mask=mask, use_cache=True, **options)
    without = model.generate(TOKENS, attention_mask=mask, use_cache=False, **options)
    assert torch.equal(with_cache, without)


def test_a_cache_of_fixed_size_is_refused() -> None:
    model = made("Llama", a=0.5).eval()
    cache = hf.StaticCache(config=model.config, max_cache_len=16)
    with pytest.raises(InputError, match="DynamicCache"):
        model(TOKENS, past_key_values=cache, use_cache=True)


@pytest.mark.parametrize("name", EVERY)
def test_copies_and_saved_models_are_independent(name: str, tmp_path: Path) -> None:
    model = made(name, a=0.3, b=0.2).eval()
    expected = logits(model)
    clone = copy.deepcopy(model)
    stream = io.BytesIO()
    torch.save(model, stream)
    with torch.no_grad():
        for p in identity_parameters(model):
            p.zero_()
    torch.testing.assert_close(logits(clone), expected, atol=0, rtol=0)
    assert not torch.allclose(logits(model), expected)
    stream.seek(0)
    torch.testing.assert_close(logits(torch.load(stream, weights_only=False)), expected, atol=0, rtol=0)
    loaded = made(name, a=0.0)
    loaded.load_state_dict(clone.state_dict())
    torch.testing.assert_close(logits(loaded.eval()), expected, atol=0, rtol=0)
    if name != "foretrain":
        clone.save_pretrained(tmp_path)
        again = load_identity_scaling(hf.AutoModelForCausalLM.from_pretrained(tmp_path), tmp_path)
        torch.testing.assert_close(logits(again.eval()), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", FAMILIES)
def test_gradient_checkpointing_gives_the_same_gradients(name: str) -> None:
    gradients = []
    for checkpointed in (False, True):
        model = made(name, a=0.3, b=0.2).train()
        if checkpointed:
            model.activation_checkpointing_enable({"use_reentrant": False})
        torch.manual_seed(1)
        logits(model, use_cache=False).square().mean().backward()
        gradients.append([p.grad for p in identity_parameters(model)])
    for plain, again in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, again, atol=1e-7, rtol=1e-5)


def test_nothing_is_kept_between_passes() -> None:
    model: Any = made("GPT-2", a=0.1, b=0.1)
    logits(model)
    with pytest.raises(IndexError):
        model(torch.full((1, 3), 99))
    for module in model.modules():
        if hasattr(module, "identity_scaling"):
            assert module.identity_scaling.inputs is None
            assert module.identity_scaling.residual is None


def test_the_monitor_reads_scaled_attention() -> None:
    model = made("GPT-2", a=2.0).eval()
    with attention_of(model) as seen:
        output = model(TOKENS, output_attentions=True)
    weights = output.attentions[0]
    entropy = -(weights * weights.clamp(min=1e-30).log()).sum(-1).mean((0, 2))
    torch.testing.assert_close(next(iter(seen.values()))[0], entropy, atol=1e-5, rtol=1e-4)


def test_the_monitor_records_the_scalars() -> None:
    model = made("GPT-2", a=2.0, b=-1.0)
    monitor = foretrain.Monitor(model, every=1)
    logits(model)
    monitor.step()
    dataset = monitor.dataset().isel(step=0)
    assert dataset.identity_scaling_a.values.tolist() == [[2.0] * 4] * 2
    assert dataset.identity_scaling_b.values.tolist() == [[-1.0] * 4] * 2


def test_what_cannot_take_scalings_is_refused_and_left_alone() -> None:
    for model in (ENCODERS["BERT"](), t5(), nn.Linear(3, 3)):
        before = [name for name, _ in model.named_parameters()]
        with pytest.raises(InputError, match="cannot be added to"):
            foretrain.add_identity_scaling(model)
        assert [name for name, _ in model.named_parameters()] == before
    with pytest.raises(InputError, match="There is no folder nowhere"):
        load_identity_scaling(made("GPT-2"), Path("nowhere"))
    with pytest.raises(InputError, match="no identity scalings"):
        load_identity_scaling(made("GPT-2"), Path())
    twice = made("GPT-2", a=0.0)
    with pytest.raises(InputError, match="already"):
        foretrain.add_identity_scaling(twice)


@pytest.mark.usefixtures("as_users_run_it")
def test_a_name_in_place_of_a_model_is_refused() -> None:
    with pytest.raises(InputError, match="takes a torch module; got a str"):
        foretrain.add_identity_scaling("gpt2")


def test_language_models_train_with_scalings(tmp_path: Path) -> None:
    from language.test_training import POST_NORM, SMALL, text, train

    for setting in (SMALL, POST_NORM):
        run = train(replace(setting, identity_scaling=True, steps=12), tmp_path / setting.model)
        scalars = identity_parameters(run.model)
        assert len(scalars) == 4
        assert all(bool((p != 0).all()) for p in scalars)
    assert text().vocabulary > 0
