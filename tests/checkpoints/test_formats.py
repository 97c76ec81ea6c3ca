"""Every format gives the same tensors; damaged and dangerous files are refused with one sentence."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from checkpoints.series import gpt2
from checkpoints.stories import stories
from foretrain.checkpoints import analyze
from foretrain.checkpoints.formats import open_weights
from foretrain.checkpoints.weights import MissingShards, Unreadable

TENSORS = {
    "a.weight": torch.arange(6.0).view(2, 3),
    "b.weight": torch.arange(4).view(2, 2),
    "c.weight": torch.full((3,), 1.5, dtype=torch.bfloat16),
    "d": torch.tensor(2.5, dtype=torch.float16),
    "e": torch.tensor([True, False]),
}


def same(place: Path) -> bool:
    weights = open_weights(place)
    equal = [torch.equal(weights[n], t) and weights[n].dtype == t.dtype for n, t in TENSORS.items()]
    return set(weights) == set(TENSORS) and all(equal)


@pytest.mark.parametrize("name", ["model.safetensors", "step_5.pt", "pytorch_model.bin", "last.ckpt"])
def test_a_file_of_weights(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    save_file(TENSORS, file) if name.endswith(".safetensors") else torch.save(TENSORS, file)
    assert same(file)
    assert same(tmp_path)


@pytest.mark.parametrize("key", ["model", "state_dict"])
def test_weights_inside_what_a_script_saved(key: str, tmp_path: Path) -> None:
    wrapped = {f"_orig_mod.{name}": tensor for name, tensor in TENSORS.items()}
    torch.save({key: wrapped, "iteration": 7, "model_args": {"n_head": 4}}, tmp_path / "ckpt.pt")
    assert same(tmp_path)
    assert open_weights(tmp_path).config == {"n_head": 4}


def test_an_old_file_of_torch(tmp_path: Path) -> None:
    torch.save(TENSORS, tmp_path / "model.pt", _use_new_zipfile_serialization=False)
    assert same(tmp_path)


class Malicious:
    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.file), "w")


@pytest.mark.parametrize("name", ["model.pkl", "model.pt", "pytorch_model.bin"])
def test_a_pickle_is_refused_and_does_not_run(name: str, tmp_path: Path) -> None:
    harmed = tmp_path / "harmed"
    (tmp_path / name).write_bytes(pickle.dumps({"a.weight": Malicious(harmed)}))
    with pytest.raises(Unreadable, match=r"is a pickle.*could run code"):
        open_weights(tmp_path)
    torch.save({"a.weight": Malicious(harmed)}, tmp_path / name)
    way_out = "" if name == "model.pkl" else r".*only if you trust it.*weights_only=False"
    with pytest.raises(Unreadable, match=r"is a pickle.*could run code" + way_out):
        open_weights(tmp_path)
    assert not harmed.exists()


@pytest.mark.parametrize("name", ["model.safetensors", "model.pt"])
@pytest.mark.parametrize("kept", [0.3, 0.9, 0.999])
def test_a_torn_file(name: str, kept: float, tmp_path: Path) -> None:
    file = tmp_path / name
    big = {"a.weight": torch.ones(100, 100)}
    save_file(big, file) if name.endswith(".safetensors") else torch.save(big, file)
    content = file.read_bytes()
    file.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(MissingShards, match="is not whole"):
        open_weights(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"text", b"\xff" * 40, struct.pack("<Q", 4) + b"{]}}", struct.pack("<Q", 8) + b'{"a": 1}',
     struct.pack("<Q", 60) + b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}' + b"0" * 9],
)  # fmt: skip
def test_what_is_no_safetensors_file(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(Unreadable):
        open_weights(tmp_path)


@pytest.mark.parametrize("whole", [[1, 2], 3, {"a": 1}, {}])
def test_a_file_of_torch_without_tensors(whole: Any, tmp_path: Path) -> None:
    torch.save(whole, tmp_path / "model.pt")
    with pytest.raises(Unreadable, match="holds no tensors"):
        open_weights(tmp_path)


def test_missing_shards_of_torch(tmp_path: Path) -> None:
    torch.save(TENSORS, tmp_path / "pytorch_model-00001-of-00002.bin")
    with pytest.raises(MissingShards, match=r"lacks 1 of 2 files of weights: pytorch_model-00002-of-00002\.bin"):
        open_weights(tmp_path)


def test_the_same_numbers_from_every_format(tmp_path: Path) -> None:
    model = gpt2()
    model.save_pretrained(tmp_path / "one")
    model.save_pretrained(tmp_path / "two", max_shard_size="100KB")
    torch.save(model.state_dict(), tmp_path / "three.pt")
    one, two, three = (analyze(tmp_path / n, heads=4, runs=tmp_path).records[0] for n in ("one", "two", "three.pt"))
    assert one["weights"] == two["weights"]
    assert one["identity"] == two["identity"] == three["identity"]
    assert one["parameters"] == three["parameters"] == sum(p.numel() for p in model.parameters())


def test_gguf(data_dir: Path, tmp_path: Path) -> None:
    """A pretrained model in GGUF: the matrices that transformers makes of it are those that were written."""
    model = stories(data_dir)
    _write_gguf(model, tmp_path / "stories.gguf")
    weights = open_weights(tmp_path / "stories.gguf")
    for name, tensor in model.state_dict().items():
        assert torch.allclose(weights[name], tensor, atol=1e-6), name
    assert analyze(tmp_path / "stories.gguf", runs=tmp_path).faults == []


def _write_gguf(model: Any, file: Path) -> None:
    import gguf

    config, writer = model.config, gguf.GGUFWriter(file, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_vocab_size(config.vocab_size)
    names = {
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
        "model.embed_tokens": "token_embd", "model.norm": "output_norm",
    }  # fmt: skip

    def interleaved(W: Tensor, heads: int) -> Tensor:
        """GGUF rotates neighbouring pairs, as llama2.c does."""
        return W.view(heads, 2, -1, W.shape[1]).transpose(1, 2).reshape(W.shape)

    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        short = name.removesuffix(".weight")
        if "q_proj" in name or "k_proj" in name:
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            tensor = interleaved(tensor, heads)
        if short.startswith("model.layers."):
            number, part = short.removeprefix("model.layers.").split(".", 1)
            short = f"blk.{number}.{names[part]}"
        else:
            short = names[short]
        writer.add_tensor(f"{short}.weight", np.ascontiguousarray(tensor.numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
