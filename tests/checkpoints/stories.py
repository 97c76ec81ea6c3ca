"""stories260K, a small language model that was really pretrained, from llama2.c's format to transformers."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
import torch
import transformers as hf
from torch import Tensor


def stories(data: Path) -> hf.LlamaForCausalLM:
    """The model; the test is skipped where its file is absent."""
    file = data / "models" / "stories260K" / "stories260K.bin.gz"
    if not file.is_file():
        pytest.skip(f"no model at {file}")
    content = gzip.decompress(file.read_bytes())
    width, inner, layers, heads, key_heads, vocabulary, context = struct.unpack("7i", content[:28])
    numbers = torch.frombuffer(bytearray(content[28:]), dtype=torch.float32)
    place, per_head = 0, width // heads

    def take(*shape: int) -> Tensor:
        nonlocal place
        size = torch.Size(shape).numel()
        place += size
        return numbers[place - size : place].view(shape)

    def rotated(W: Tensor) -> Tensor:
        """llama2.c rotates neighbouring pairs, transformers the two halves of a head."""
        return W.view(-1, per_head // 2, 2, W.shape[1]).transpose(1, 2).reshape(W.shape)

    key_width = key_heads * per_head
    tokens = take(vocabulary, width)
    parts = {
        "input_layernorm": take(layers, width),
        "self_attn.q_proj": torch.stack([rotated(W) for W in take(layers, width, width)]),
        "self_attn.k_proj": torch.stack([rotated(W) for W in take(layers, key_width, width)]),
        "self_attn.v_proj": take(layers, key_width, width),
        "self_attn.o_proj": take(layers, width, width),
        "post_attention_layernorm": take(layers, width),
        "mlp.gate_proj": take(layers, inner, width),
        "mlp.down_proj": take(layers, width, inner),
        "mlp.up_proj": take(layers, inner, width),
    }
    state = {f"model.layers.{k}.{name}.weight": W[k] for name, W in parts.items() for k in range(layers)}
    state |= {"model.embed_tokens.weight": tokens, "lm_head.weight": tokens, "model.norm.weight": take(width)}
    config = hf.LlamaConfig(
        hidden_size=width, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=key_heads, vocab_size=vocabulary, max_position_embeddings=context, rms_norm_eps=1e-5,
        tie_word_embeddings=True,
    )  # fmt: skip
    model = hf.LlamaForCausalLM(config)
    model.load_state_dict(state)
    return model
