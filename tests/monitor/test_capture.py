"""Attention of any model, read without changing a bit of it, against the weights that eager attention returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from foretrain.monitor.attention_calls import GivenLogits
from foretrain.monitor.capture import AttentionReader
from foretrain.monitor.statistics import NAMES, row_sums
from foretrain.monitor.watch import attention_of
from monitor import models

TOKENS = torch.randint(1, 50, (3, 12), generator=torch.Generator().manual_seed(1))


def padded(where: str) -> Tensor:
    mask = torch.ones_like(TOKENS)
    if where == "left":
        mask[0, :4] = 0
        mask[1, :1] = 0
    if where == "right":
        mask[0, -4:] = 0
        mask[2, -2:] = 0
    return mask


def expected(weights: Tensor, rows: Tensor) -> dict[str, np.ndarray]:
    """The statistics of attention weights [sample, head, query, key], over the rows [sample, query] that count."""
    weights, chosen = weights.detach().double(), rows[:, None].expand(weights.shape[:3])
    entropy = -(weights * weights.clamp(min=1e-300).log()).sum(-1)
    result = {"entropy": entropy}
    if weights.shape[2] == weights.shape[3]:
        result["self_attention"] = weights.diagonal(dim1=2, dim2=3)
        start = rows.int().argmax(-1)  # the first token that is not padding
        result["first_token"] = torch.stack([sample[..., at] for sample, at in zip(weights, start, strict=True)])
    return {
        name: (torch.where(chosen, values, 0).sum((0, 2)) / chosen.sum((0, 2))).numpy()
        for name, values in result.items()
    }


def check(read: dict[str, Tensor], eager: list[Tensor], rows: list[Tensor]) -> None:
    assert len(read) == len(eager)
    for statistics, weights, counted in zip(read.values(), eager, rows, strict=True):
        for name, values in expected(weights, counted).items():
            np.testing.assert_allclose(statistics[NAMES.index(name)], values, atol=1e-5, err_msg=name)


def outputs_of(model: nn.Module, **inputs: Any) -> Any:
    with torch.no_grad():
        return model(**inputs)


@pytest.mark.parametrize("padding", ["no", "left", "right"])
@pytest.mark.parametrize(
    ("name", "implementation"),
    [
        (name, implementation)
        for name in [*models.DECODERS, *models.ENCODERS]
        for implementation in ("sdpa", "eager")
        if (name, implementation) != ("Gemma", "sdpa")  # its soft cap is written out by hand
    ],
)
def test_language_models(name: str, implementation: str, padding: str) -> None:
    torch.manual_seed(0)
    model = {**models.DECODERS, **models.ENCODERS}[name]().eval()
    inputs = {"input_ids": TOKENS, "attention_mask": padded(padding)}
    model.set_attn_implementation(implementation)
    plain = outputs_of(model, **inputs).logits
    with attention_of(model) as read:
        watched = outputs_of(model, **inputs).logits
    assert torch.equal(plain, watched), "the monitor changed what the model computes"
    model.set_attn_implementation("eager")
    eager = outputs_of(model, **inputs, output_attentions=True).attentions
    check(read, list(eager), [padded(padding).bool()] * len(eager))


@pytest.mark.parametrize("padding", ["no", "left", "right"])
def test_t5_with_cross_attention(padding: str) -> None:
    torch.manual_seed(0)
    model, mask = models.t5().eval(), padded(padding)
    inputs = {"input_ids": TOKENS, "attention_mask": mask, "decoder_input_ids": TOKENS[:, :7]}
    with attention_of(model) as read:
        outputs_of(model, **inputs)
    model.set_attn_implementation("eager")
    eager = outputs_of(model, **inputs, output_attentions=True)
    decoder = [w for pair in zip(eager.decoder_attentions, eager.cross_attentions, strict=True) for w in pair]
    everything = torch.ones(3, 7, dtype=torch.bool)
    check(read, [*eager.encoder_attentions, *decoder], [*[mask.bool()] * 2, *[everything] * 4])
    own = NAMES.index("self_attention")
    assert [bool(statistics[own].isnan().all()) for statistics in read.values()] == [
        False,
        False,
        False,
        True,
        False,
        True,
    ]


def test_vit() -> None:
    torch.manual_seed(0)
    model, images = models.vit().eval(), torch.randn(2, 3, 16, 16)
    with attention_of(model) as read:
        outputs_of(model, pixel_values=images)
    model.set_attn_implementation("eager")
    eager = outputs_of(model, pixel_values=images, output_attentions=True).attentions
    check(read, list(eager), [torch.ones(2, 17, dtype=torch.bool)] * 2)


@pytest.mark.parametrize("fused", [True, False])
def test_a_hand_written_model(fused: bool) -> None:
    torch.manual_seed(0)
    model = models.NanoGPT(fused=fused)
    with attention_of(model) as read:
        model(TOKENS)
    assert list(read) == ["blocks.0.attention", "blocks.1.attention"]
    model.blocks.apply(lambda module: setattr(module, "fused", False))
    model(TOKENS)
    weights = [block.attention.weights for block in model.blocks]  # type: ignore[union-attr]
    check(read, weights, [torch.ones_like(TOKENS, dtype=torch.bool)] * 2)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_multihead_attention_of_torch(batch_first: bool, causal: bool) -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(16, 4, batch_first=batch_first)
    x = torch.randn(3, 12, 16)
    given_x = x if batch_first else x.transpose(0, 1)
    forbidden = torch.ones(12, 12, dtype=torch.bool).triu(1) if causal else None
    padding = padded("right") == 0
    model = nn.ModuleDict({"attention": module})
    options = {"attn_mask": forbidden, "key_padding_mask": padding, "average_attn_weights": False}
    with attention_of(model) as read:
        _, weights = module(given_x, given_x, given_x, **options)
    check(read, [weights], [~padding])


@pytest.mark.parametrize(("bias", "zero"), [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("mask", ["no", "causal", "padding", "per head"])
def test_multihead_attention_with_keys_that_are_no_tokens(bias: bool, zero: bool, mask: str) -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(16, 4, batch_first=True, add_bias_kv=bias, add_zero_attn=zero)
    x, padding = 3 * torch.randn(3, 12, 16), padded("right") == 0
    masks = {
        "no": {},
        "causal": {"attn_mask": torch.ones(12, 12, dtype=torch.bool).triu(1)},
        "padding": {"key_padding_mask": padding},
        "per head": {"attn_mask": torch.randn(12, 12, 12)},
    }
    with attention_of(nn.ModuleDict({"attention": module})) as read:
        _, weights = module(x, x, x, average_attn_weights=False, **masks[mask])
    rows = ~padding if mask == "padding" else torch.ones_like(padding)
    assert weights.shape[-1] == 12 + bias + zero
    assert weights[..., 12:].min() > 0
    (statistics,) = read.values()
    assert not statistics.isnan().any()
    own, chosen = weights.detach().diagonal(dim1=2, dim2=3), rows[:, None].expand(3, 4, 12)
    own_attention = torch.where(chosen, own, 0).sum((0, 2)) / chosen.sum((0, 2))
    np.testing.assert_allclose(statistics[NAMES.index("self_attention")], own_attention, atol=1e-6)
    check(read, [weights], [rows])


def test_multihead_attention_that_is_told_it_is_causal() -> None:
    """The same numbers as from its weights, which torch computes along another path."""
    torch.manual_seed(0)
    module = nn.MultiheadAttention(16, 4, batch_first=True)
    x, causal = torch.randn(3, 12, 16), torch.ones(12, 12, dtype=torch.bool).triu(1)
    with attention_of(nn.ModuleDict({"attention": module})) as read:
        module(x, x, x, attn_mask=causal, is_causal=True, need_weights=False)
    _, weights = module(x, x, x, attn_mask=causal, average_attn_weights=False)
    check(read, [weights], [torch.ones(3, 12, dtype=torch.bool)])


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["GPT-2", "Llama", "BERT"])
def test_a_model_in_half_precision(name: str, implementation: str) -> None:
    torch.manual_seed(0)
    model = {**models.DECODERS, **models.ENCODERS}[name]().eval()
    model.set_attn_implementation(implementation)
    inputs = {"input_ids": TOKENS, "attention_mask": padded("left")}
    with attention_of(model) as full:
        outputs_of(model, **inputs)
    plain = outputs_of(model.half(), **inputs).logits
    with attention_of(model) as half:
        watched = outputs_of(model, **inputs).logits
    assert torch.equal(plain, watched)
    for layer, statistics in full.items():
        np.testing.assert_allclose(half[layer], statistics, atol=2e-3)  # float16 has 11 bits; logits are below 1


@pytest.mark.parametrize("least", [torch.finfo(torch.float16).min, -1e4, -torch.inf])
def test_padded_rows_of_a_mask_in_half_precision_do_not_count(least: float) -> None:
    """Where a whole row is masked by the least float16, it must not look like a row of ordinary logits."""
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 2, 6, 4).half()
    mask = torch.zeros(1, 1, 6, 6, dtype=torch.float16)
    mask[..., :2] = least
    mask[..., :2, :] = torch.finfo(torch.float16).min if np.isfinite(least) else least
    with attention_of(nn.Identity()) as read:
        F.scaled_dot_product_attention(q, k, k, attn_mask=mask)
    weights = torch.softmax((q.float() @ k.float().mT)[..., 2:, 2:] / 2, -1)
    check(read, [weights], [torch.ones(1, 4, dtype=torch.bool)])


@pytest.mark.parametrize("padding", [False, True])
def test_the_fast_path_of_an_encoder_in_evaluation_is_read(padding: bool) -> None:
    """Torch takes the usual path while it is read: the same numbers up to rounding where there is no padding."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    model, x = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval(), torch.randn(3, 12, 16)
    ignored = padded("right") == 0 if padding else None
    plain = outputs_of(model, src=x, src_key_padding_mask=ignored)
    with attention_of(model) as read:
        watched = outputs_of(model, src=x, src_key_padding_mask=ignored)
    kept = torch.ones(3, 12, dtype=torch.bool) if ignored is None else ~ignored
    np.testing.assert_allclose(watched[kept], plain[kept], atol=1e-5)
    assert list(read) == ["layers.0.self_attn", "layers.1.self_attn"]
    first = model.layers[0].self_attn
    _, weights = first(x, x, x, key_padding_mask=ignored, average_attn_weights=False)  # type: ignore[operator]
    check({"first": read["layers.0.self_attn"]}, [weights], [kept])


# torch and transformers deprecate some of what their own flex attention uses, and it is not compiled here
@pytest.mark.filterwarnings("ignore:_compile flag on create_block_mask:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
@pytest.mark.parametrize("padding", ["no", "left", "right"])
def test_a_model_with_flex_attention(padding: str) -> None:
    torch.manual_seed(0)
    model, inputs = models.DECODERS["Llama"]().eval(), {"input_ids": TOKENS, "attention_mask": padded(padding)}
    model.set_attn_implementation("flex_attention")
    with attention_of(model) as read:
        outputs_of(model, **inputs)
    model.set_attn_implementation("eager")
    eager = outputs_of(model, **inputs, output_attentions=True).attentions
    check(read, list(eager), [padded(padding).bool()] * len(eager))


def test_a_layer_that_cannot_be_read_is_named() -> None:
    class LinearAttention(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x @ (x.mT @ x)

    model = nn.Sequential(nn.Linear(4, 4), LinearAttention())
    with pytest.warns(UserWarning, match=r"Attention could not be read in 1:"), attention_of(model) as read:
        model(torch.randn(2, 3, 4))
    assert read == {}


def test_a_module_that_is_called_often_has_a_record_for_every_call() -> None:
    shared = nn.MultiheadAttention(8, 2, batch_first=True)

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = shared

        def forward(self, x: Tensor) -> Tensor:
            for _ in range(3):
                x = self.attention(x, x, x, need_weights=False)[0]
            return x

    with attention_of(model := Tied()) as read:
        model(torch.randn(2, 5, 8))
    assert list(read) == ["attention", "attention#2", "attention#3"]


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 6), st.floats(0.0, 300.0), st.integers(0, 2**31 - 1))
def test_statistics_of_random_logits(samples: int, heads: int, keys: int, scale: float, seed: int) -> None:
    """Against float64, at logits so large that plain log-sum-exp would cancel."""
    draw = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(samples, heads, keys, keys, generator=draw)
    logits = logits.masked_fill(~torch.ones(keys, keys, dtype=torch.bool).tril(), -torch.inf)
    statistics = row_sums(GivenLogits(logits)).statistics()
    weights = torch.softmax(logits.double(), -1)
    entropy = -(weights * weights.clamp(min=1e-300).log()).sum(-1)
    np.testing.assert_allclose(statistics[0], entropy.mean((0, 2)), atol=1e-5)
    np.testing.assert_allclose(statistics[2], weights[..., 0].mean((0, 2)), atol=1e-5)
    np.testing.assert_allclose(statistics[4], logits.amax((0, 2, 3)), rtol=1e-6)
    assert bool(((statistics[1] >= -1e-6) & (statistics[1] <= 1 + 1e-6) | statistics[1].isnan()).all())


@pytest.mark.parametrize("mask", ["causal", "Boolean", "added"])
def test_huge_logits_are_not_taken_for_a_mask(mask: str) -> None:
    """Before a training breaks down, logits reach 1e6: keys far below the largest are still allowed."""
    q, k, v = 3e4 * torch.randn(3, 1, 2, 6, 4, generator=torch.Generator().manual_seed(0))
    allowed = torch.ones(6, 6, dtype=torch.bool).tril()
    added = torch.zeros(6, 6).masked_fill(~allowed, torch.finfo(torch.float32).min)
    options = {"causal": {"is_causal": True}, "Boolean": {"attn_mask": allowed}, "added": {"attn_mask": added}}[mask]
    seen = []
    with AttentionReader(lambda sums, _: seen.append(sums.statistics())):
        F.scaled_dot_product_attention(q, k, v, **options)
    assert torch.isfinite(seen[0]).all()
    assert float(seen[0][1].max()) < 0.2  # relative entropy


def by_hand(logits: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """All five statistics of each head, in plain loops, for self-attention."""
    samples, heads, queries, _ = logits.shape
    result = np.zeros((len(NAMES), heads))
    for head in range(heads):
        entropies, relatives, firsts, selves, largest = [], [], [], [], -np.inf
        for sample in range(samples):
            counted = [q for q in range(queries) if allowed[sample, head, q, q]]
            seen = [k for k in range(queries) if any(allowed[sample, head, q, k] for q in counted)]
            for q in counted:
                keys = np.flatnonzero(allowed[sample, head, q])
                weights = np.exp(logits[sample, head, q, keys] - logits[sample, head, q, keys].max())
                weights /= weights.sum()
                entropies.append(-(weights * np.log(weights)).sum())
                if len(keys) > 1:
                    relatives.append(entropies[-1] / np.log(len(keys)))
                firsts.append(weights[keys == seen[0]].sum())
                selves.append(weights[keys == q].sum())
                largest = max(largest, logits[sample, head, q, keys].max())
        result[:, head] = [np.mean(x) for x in (entropies, relatives, firsts, selves)] + [largest]
    return result


@pytest.mark.parametrize("padding", ["no", "left", "right"])
@pytest.mark.parametrize("window", [None, 3])
def test_every_statistic_equals_plain_loops(padding: str, window: int | None) -> None:
    tokens = 7
    allowed = torch.ones(tokens, tokens, dtype=torch.bool).tril()
    if window is not None:
        allowed = allowed.triu(1 - window)
    real = torch.ones(2, tokens, dtype=torch.bool)
    if padding != "no":
        real[0, :3] = False
    real = real.flip(1) if padding == "right" else real
    allowed = (allowed & real[:, None] & real[:, :, None])[:, None].expand(2, 3, -1, -1)
    logits = 3 * torch.randn(2, 3, tokens, tokens, generator=torch.Generator().manual_seed(5))
    logits = torch.where(real[:, None, :, None], logits, 50.0)  # padded queries must not count, however large
    read = row_sums(GivenLogits(logits, allowed)).statistics()
    np.testing.assert_allclose(read, by_hand(logits.double().numpy(), allowed.numpy()), atol=1e-5)


def test_cross_attention_is_not_told_by_equal_lengths() -> None:
    torch.manual_seed(0)
    model = models.t5().eval()
    source, target = TOKENS, TOKENS.flip(1)  # of the same length
    mask = padded("right")
    with attention_of(model) as read:
        outputs_of(model, input_ids=source, attention_mask=mask, decoder_input_ids=target)
    model.set_attn_implementation("eager")
    eager = outputs_of(
        model, input_ids=source, attention_mask=mask, decoder_input_ids=target, output_attentions=True
    ).cross_attentions
    cross = [statistics for name, statistics in read.items() if "EncDecAttention" in name]
    for statistics, weights in zip(cross, eager, strict=True):
        entropy = -(weights.double() * weights.double().clamp(min=1e-300).log()).sum(-1).mean((0, 2))
        np.testing.assert_allclose(statistics[0], entropy, atol=1e-5)
        assert statistics[NAMES.index("self_attention")].isnan().all()
    query, key = torch.randn(2, 1, 5, 16)
    layer = nn.MultiheadAttention(16, 4, batch_first=True)
    with attention_of(nn.ModuleList([layer])) as one:
        layer(query, key, key)
    assert next(iter(one.values()))[NAMES.index("self_attention")].isnan().all()
    with attention_of(nn.ModuleList([layer])) as other:
        layer(query, query.clone(), query.clone())
    assert next(iter(other.values()))[NAMES.index("self_attention")].isfinite().all()


class SingleHead(nn.Module):
    """Attention as in many tutorials: three axes, no heads."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.query, self.key, self.value, self.fused = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8), fused

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.query(x), self.key(x), self.value(x)
        if self.fused:
            return F.scaled_dot_product_attention(q, k, v)
        return (q @ k.mT / 8**0.5).softmax(-1) @ v


def test_a_single_head_is_read_and_a_module_with_its_matrices_is_never_silently_missing() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(SingleHead(True), SingleHead(False))
    model[1].load_state_dict(model[0].state_dict())
    x = torch.randn(2, 5, 8)
    with attention_of(model) as read:
        model[0](x)
        model[1](x)
    assert list(read) == ["0", "1"]
    torch.testing.assert_close(read["0"], read["1"])

    class Own(SingleHead):
        def forward(self, x: Tensor) -> Tensor:
            weights = (self.query(x) @ self.key(x).mT).exp()
            return (weights / weights.sum(-1, keepdim=True)) @ self.value(x)

    own = nn.Sequential(Own(False))
    with pytest.warns(UserWarning, match="could not be read in 0"), attention_of(own) as read:
        own(x)
    assert read == {}
