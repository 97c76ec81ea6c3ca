"""One attention layer, computed in each of the ways in which people write it, and the logits that it must come from."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from foretrain.core.streams import torch_stream

HEADS, PER_HEAD, TOKENS, SAMPLES = 4, 8, 24, 3
WIDTH = HEADS * PER_HEAD
PADDED = 7  # tokens at the end of the last sample, where there is padding
CAUSAL, BOOLEAN, ADDITIVE = "fused, causal", "fused, padding and causal mask", "fused, additive mask"
GROUPED, MODULE, WRITTEN = "fused, two queries share a key", "nn.MultiheadAttention", "hand-written softmax"
KINDS = (CAUSAL, BOOLEAN, ADDITIVE, GROUPED, MODULE, WRITTEN)


class AttentionLayer(nn.Module):
    """Attention of one kind, with an output matrix; its names are those that Llama has, or nn.MultiheadAttention."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.key_heads = HEADS // 2 if kind == GROUPED else HEADS
        if kind == MODULE:
            self.attention = nn.MultiheadAttention(WIDTH, HEADS, bias=False, batch_first=True)
        else:
            for name, heads in (("q", HEADS), ("k", self.key_heads), ("v", self.key_heads), ("o", HEADS)):
                self.add_module(f"{name}_proj", nn.Linear(WIDTH, heads * PER_HEAD, bias=False))
        draw = torch_stream("doctor", kind)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=draw) * 1.5 / math.sqrt(WIDTH))

    def forward(self, x: Float[Tensor, "sample token width"]) -> Float[Tensor, "sample token width"]:
        if self.kind == MODULE:
            forbidden = ~_causal(x.device)
            return self.attention(x, x, x, attn_mask=forbidden, need_weights=False)[0]
        q, k, v = self.queries_keys_values(x)
        if self.kind == WRITTEN:
            logits = (q @ k.mT) / math.sqrt(PER_HEAD)
            mixed = logits.masked_fill(~_causal(x.device), -torch.inf).softmax(-1) @ v
        else:
            causal = self.kind in (CAUSAL, GROUPED)
            mask = None if causal else self.mask(x)
            mixed = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, enable_gqa=self.kind == GROUPED)
        return self.get_submodule("o_proj")(mixed.transpose(1, 2).flatten(2))

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[sample, head, token, per_head]; where queries share a key, there are fewer heads of keys and values."""
        if self.kind == MODULE:
            parts = F.linear(x, self.attention.in_proj_weight).chunk(3, -1)
        else:
            parts = tuple(self.get_submodule(f"{name}_proj")(x) for name in "qkv")
        q, k, v = (part.unflatten(-1, (-1, PER_HEAD)).transpose(1, 2) for part in parts)
        return q, k, v

    def mask(self, x: Tensor) -> Tensor:
        """For the kinds that have one: what may be attended to, or what is added to the logits."""
        if self.kind == BOOLEAN:
            filled = torch.ones(SAMPLES, 1, 1, TOKENS, dtype=torch.bool, device=x.device)
            filled[-1, ..., -PADDED:] = False
            return _causal(x.device) & filled
        places = torch.arange(TOKENS, device=x.device)
        distance = (places - places[:, None]).to(x.dtype)
        slopes = 2.0 ** -torch.arange(1, HEADS + 1, device=x.device).to(x.dtype)
        return (slopes[:, None, None] * distance).masked_fill(~_causal(x.device), -torch.inf)[None]

    @torch.no_grad()
    def logits(self, x: Tensor) -> tuple[Float[Tensor, "sample head query key"], Bool[Tensor, "sample head query key"]]:
        """What the softmax sees, from the definition, and where it may look."""
        q, k, _ = self.queries_keys_values(x)
        logits = q @ k.repeat_interleave(HEADS // self.key_heads, dim=1).mT / math.sqrt(PER_HEAD)
        allowed = _causal(x.device).expand_as(logits)
        if self.kind == BOOLEAN:
            allowed = self.mask(x).expand_as(logits)
        if self.kind == ADDITIVE:
            logits = logits + self.mask(x).nan_to_num(neginf=0.0)
        return logits, allowed


def inputs(kind: str) -> Float[Tensor, "sample token width"]:
    """Random vectors, the same for every device."""
    return torch.randn(SAMPLES, TOKENS, WIDTH, generator=torch_stream("doctor", kind, "inputs"))


def _causal(device: torch.device) -> Bool[Tensor, "query key"]:
    return torch.ones(TOKENS, TOKENS, dtype=torch.bool, device=device).tril()
