"""Attention over long sequences: in blocks of rows, and from a kernel's log-sum-exp, against an explicit softmax."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from foretrain.monitor import capture, long_attention, statistics
from foretrain.monitor.capture import AttentionReader
from foretrain.monitor.statistics import NAMES
from foretrain.monitor.watch import attention_of, forward_pass_of


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def explicit(logits: Tensor, allowed: Tensor) -> np.ndarray:
    """Every statistic from a softmax in float64, where the first token is the first key of the whole call."""
    weights = logits.double().masked_fill(~allowed, -torch.inf).softmax(-1)
    entropy = -(weights * weights.clamp(min=1e-300).log()).sum(-1)
    count = allowed.expand(logits.shape).sum(-1)
    chosen = count > 1
    relative = torch.where(chosen, entropy / count.clamp(min=2).log(), 0.0).sum((0, 2)) / chosen.sum((0, 2))
    square = logits.shape[-1] == logits.shape[-2]
    own = weights.diagonal(dim1=-2, dim2=-1).mean((0, 2)) if square else torch.full((logits.shape[1],), torch.nan)
    largest = logits.double().masked_fill(~allowed, -torch.inf).amax((0, 2, 3))
    return torch.stack([entropy.mean((0, 2)), relative, weights[..., 0].mean((0, 2)), own, largest]).numpy()


def seen(call: Callable[[], object]) -> np.ndarray:
    records: list[Tensor] = []
    with AttentionReader(lambda sums, _: records.append(sums.statistics())):
        call()
    (record,) = records
    return record.numpy()


def logits_of(q: Tensor, k: Tensor, scale: float | None = None) -> Tensor:
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    return (q.double() @ k.double().mT) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)


CASES: dict[str, Callable[[], tuple[dict[str, Any], int, Tensor]]] = {
    "no mask": lambda: ({}, 4, torch.ones(40, 40, dtype=torch.bool)),
    "causal": lambda: ({"is_causal": True}, 4, torch.ones(40, 40, dtype=torch.bool).tril()),
    "scale": lambda: ({"scale": 0.7, "is_causal": True}, 4, torch.ones(40, 40, dtype=torch.bool).tril()),
    "shared keys": lambda: ({"enable_gqa": True, "is_causal": True}, 2, torch.ones(40, 40, dtype=torch.bool).tril()),
    "mask": lambda: ({"attn_mask": window()[0, 0]}, 4, window()),
    "mask of a sample": lambda: ({"attn_mask": window().expand(3, 1, 40, 40)}, 4, window()),
    "added mask": lambda: ({"attn_mask": torch.zeros(40, 40).masked_fill(~window(), -torch.inf)}, 4, window()),
}


def window() -> Tensor:
    """Every query sees the first key and the last nine."""
    allowed = torch.ones(40, 40, dtype=torch.bool).tril().triu(-8)
    allowed[:, 0] = True
    return allowed[None, None]


@pytest.mark.parametrize("at_once", [1 << 5, 1 << 9, 1 << 12, 1 << 20])
@pytest.mark.parametrize("case", CASES)
def test_blocks_of_rows_equal_an_explicit_softmax(case: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of one row of a head, of some rows, of some heads, and of everything."""
    monkeypatch.setitem(statistics.LOGITS_AT_ONCE, "cpu", at_once)
    options, key_heads, allowed = CASES[case]()
    q, k = 3 * draw(3, 4, 40, 8), draw(3, key_heads, 40, 8, seed=1)
    read = seen(lambda: F.scaled_dot_product_attention(q, k, k, **options))
    np.testing.assert_allclose(read, explicit(logits_of(q, k, options.get("scale")), allowed), atol=2e-5)


@pytest.mark.parametrize("at_once", [1 << 5, 1 << 9, 1 << 20])
def test_blocks_of_a_softmax_written_by_hand(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(statistics.LOGITS_AT_ONCE, "cpu", at_once)
    logits, causal = 4 * draw(2, 3, 30, 30), torch.ones(30, 30, dtype=torch.bool).tril()
    given = logits.masked_fill(~causal, -torch.inf)
    kept = given.clone()
    np.testing.assert_allclose(seen(lambda: given.softmax(-1)), explicit(logits, causal), atol=2e-5)
    assert torch.equal(given, kept)


def test_a_call_with_fewer_queries_than_keys() -> None:
    q, k = draw(2, 3, 5, 8), draw(2, 3, 20, 8, seed=1)
    read = seen(lambda: F.scaled_dot_product_attention(q, k, k))
    np.testing.assert_allclose(read, explicit(logits_of(q, k), torch.ones(5, 20, dtype=torch.bool)), atol=2e-5)


def flash_for_cpu(q: Tensor, k: Tensor, causal: bool, factor: float) -> tuple[Tensor, Tensor]:
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, k, 0.0, causal, scale=factor)


@pytest.mark.parametrize("numbers_at_once", [1, 3 * 70 * 16, 1 << 22])
@pytest.mark.parametrize("size", [1.0, 30.0])
@pytest.mark.parametrize("key_heads", [4, 2])
@pytest.mark.parametrize("causal", [True, False])
def test_a_kernel_gives_the_same_from_its_log_sum_exp(
    causal: bool, key_heads: int, size: float, numbers_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, k = size * draw(3, 4, 70, 16), draw(3, key_heads, 70, 16, seed=1)
    exact = seen(lambda: F.scaled_dot_product_attention(q, k, k, is_causal=causal, enable_gqa=True))
    monkeypatch.setitem(long_attention.KERNELS, "cpu", flash_for_cpu)
    monkeypatch.setattr(long_attention, "LONG", 1)
    monkeypatch.setattr(long_attention, "NUMBERS_AT_ONCE", numbers_at_once)
    monkeypatch.setattr(long_attention, "LOGITS_AT_ONCE_ELSEWHERE", 1 << 10)
    monkeypatch.setattr(capture, "row_sums", None)  # only the kernel is used
    read = seen(lambda: F.scaled_dot_product_attention(q, k, k, is_causal=causal, enable_gqa=True))
    bound = 1e-6 * exact[NAMES.index("largest_logit")].max()  # as the module says
    np.testing.assert_allclose(read[:-1], exact[:-1], atol=max(bound, 5e-6), rtol=1e-5)
    np.testing.assert_allclose(read[-1], exact[-1], rtol=1e-6)


def test_where_a_kernel_refuses_rows_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*_: object) -> Any:
        raise RuntimeError("no kernel for this width")

    q = draw(1, 2, 20, 8)
    exact = seen(lambda: F.scaled_dot_product_attention(q, q, q))
    monkeypatch.setitem(long_attention.KERNELS, "cpu", refusing)
    monkeypatch.setattr(long_attention, "LONG", 1)
    np.testing.assert_array_equal(seen(lambda: F.scaled_dot_product_attention(q, q, q)), exact)


def cap(score: Tensor, _b: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return 5 * torch.tanh(score / 5) + 0.1 * head * (key - query)


# torch deprecates some of what its own flex attention uses, and it is not compiled here
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("score", [None, cap])
@pytest.mark.parametrize("at_once", [1 << 6, 1 << 20])
def test_flex_attention(score: Any, mask: bool, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(statistics.LOGITS_AT_ONCE, "cpu", at_once)
    q, k = 2 * draw(2, 4, 24, 8), draw(2, 2, 24, 8, seed=1)
    allowed = torch.ones(24, 24, dtype=torch.bool)
    block_mask = None
    if mask:
        allowed = allowed.tril()
        block_mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 24, 24, device="cpu")
    with attention_of(nn.Identity()) as read:
        flex_attention(q, k, k, score_mod=score, block_mask=block_mask, enable_gqa=True)
    logits = logits_of(q, k)
    if score is not None:
        places = torch.arange(24)
        logits = cap(logits, logits, torch.arange(4)[:, None, None], places[:, None], places)
    (statistics_read,) = read.values()
    np.testing.assert_allclose(statistics_read, explicit(logits, allowed), atol=2e-5)


@torch.library.custom_op("flash_attn::_flash_attn_forward", mutates_args=())
def flash_forward(
    q: Tensor, k: Tensor, v: Tensor, dropout_p: float, softmax_scale: float, causal: bool,
    window_size_left: int, window_size_right: int, softcap: float,
) -> Tensor:  # fmt: skip
    """An operator of the name and the leading arguments that flash-attn's has."""
    out = F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=causal, scale=softmax_scale)
    return out.transpose(1, 2).contiguous()


@pytest.mark.parametrize("causal", [True, False])
def test_the_operator_of_flash_attn(causal: bool) -> None:
    q, k = draw(2, 20, 3, 8), draw(2, 20, 3, 8, seed=1)
    read = seen(lambda: torch.ops.flash_attn._flash_attn_forward(q, k, k, 0.0, 0.5, causal, -1, -1, 0.0))
    allowed = torch.ones(20, 20, dtype=torch.bool)
    logits = logits_of(q.transpose(1, 2), k.transpose(1, 2), 0.5)
    np.testing.assert_allclose(read, explicit(logits, allowed.tril() if causal else allowed), atol=2e-5)


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norm, self.norm_mlp = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm_mlp(x))


def resident() -> float:
    """Memory of this process in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def peak_of(action: Callable[[], object]) -> float:
    peaks, done = [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            peaks.append(resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    action()
    done.set()
    watcher.join()
    return max(peaks)


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read where Linux shows it")
def test_a_measured_step_over_4096_tokens_costs_at_most_half_a_step_and_200_megabytes() -> None:
    """The least of three steps each, by turns; CPU time, so that other processes cost neither of them."""
    torch.manual_seed(0)
    model = nn.Sequential(*(Layer(768, 12) for _ in range(2)))
    optimizer, x = torch.optim.AdamW(model.parameters()), torch.randn(1, 4096, 768)

    def step(measured: bool) -> float:
        start = time.process_time()
        with forward_pass_of(model) if measured else nullcontext() as readings:
            output = model(x)
        output.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if readings is not None:
            assert len(readings.of("attention")) == 2
        return time.process_time() - start

    step(measured=False)
    times = [(step(measured=False), step(measured=True)) for _ in range(3)]
    plain, measured = (min(column) for column in zip(*times, strict=True))
    assert measured < 1.5 * plain, f"{measured:.2f} s against {plain:.2f} s"
    plain_peak, measured_peak = (peak_of(lambda given=given: step(given)) for given in (False, True))
    assert measured_peak < plain_peak + 200, f"{measured_peak:.0f} MB against {plain_peak:.0f} MB"
