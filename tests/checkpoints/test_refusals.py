"""What cannot be measured is refused with one sentence; what can be measured in part says so first."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

from checkpoints.series import gpt2, sample_text, set_config
from foretrain.checkpoints import Comparison, analyze, compare
from foretrain.checkpoints.formats import open_weights
from foretrain.checkpoints.weights import Unreadable
from foretrain.core.errors import InputError


def mamba(version: int) -> Any:
    if version == 1:
        return hf.MambaForCausalLM(hf.MambaConfig(hidden_size=32, num_hidden_layers=2, vocab_size=50, state_size=4))
    sizes = {"hidden_size": 32, "num_heads": 4, "head_dim": 16, "n_groups": 1, "state_size": 8}
    return hf.Mamba2ForCausalLM(hf.Mamba2Config(**sizes, num_hidden_layers=2, vocab_size=50))


@pytest.mark.parametrize("version", [1, 2])
def test_a_model_without_attention_has_matrices(version: int, tmp_path: Path) -> None:
    mamba(version).save_pretrained(tmp_path / "mamba")
    analysis = analyze(tmp_path / "mamba", runs=tmp_path)
    assert analysis.summary.startswith("In mamba no attention layer was found; only its matrices are measured.")
    assert "0 attention" not in analysis.summary
    assert analysis.dataset.sizes["matrix"] > 4
    analysis.report(tmp_path / "page.html")
    (tmp_path / "text.txt").write_text(sample_text(100))
    asked: dict[str, Any]
    for asked in ({"heads": 4}, {"text": tmp_path / "text.txt"}):
        with pytest.raises(InputError, match=r"has no attention.*leave out --text and --heads"):
            analyze(tmp_path / "mamba", **asked, runs=tmp_path)


@pytest.mark.parametrize("key", ["num_attention_heads", "n_head", "vocab_size", "n_layer", "n_inner", "model_type"])
@pytest.mark.parametrize("value", [[4, 4], {"a": 1}, True])
def test_settings_of_a_wrong_type(key: str, value: object, tmp_path: Path) -> None:
    gpt2().save_pretrained(tmp_path / "model")
    set_config(tmp_path / "model", **{key: value})
    with pytest.raises(Unreadable, match=rf"says {key} = .*, which is not a (whole number|word); correct it"):
        analyze(tmp_path / "model", runs=tmp_path)


@pytest.mark.parametrize(
    ("shape", "offsets"),
    [([-2], [8, 0]), ([2, -1], [8, 0]), ([2], [0.0, 8.0]), ([2.0], [0, 8]), ([True, 2], [0, 8]), ([2], [-8, 0]),
     ([2**70, 0], [0, 0]), (["2"], [0, 8]), (2, [0, 8]), ([2], [0, 8, 9])],
)  # fmt: skip
def test_impossible_shapes_and_places(shape: Any, offsets: Any, tmp_path: Path) -> None:
    header = json.dumps({"a": {"dtype": "F32", "shape": shape, "data_offsets": offsets}}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
    with pytest.raises(Unreadable, match="its header cannot be read"):
        open_weights(tmp_path)


@pytest.mark.parametrize("ending", ["safetensors", "pt"])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (), (1,), (5,), (1, 5)])
def test_a_checkpoint_without_a_matrix(shape: tuple[int, ...], ending: str, tmp_path: Path) -> None:
    tensors = {"q_proj.weight": torch.ones(shape)}
    file = tmp_path / f"model.{ending}"
    save_file(tensors, file) if ending == "safetensors" else torch.save(tensors, file)
    with pytest.raises(Unreadable, match="no matrix of at least 2 by 2"):
        analyze(file, heads=1, runs=tmp_path)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: torch.eye(4).to_sparse(), "special form"),
        (lambda: torch.eye(4).to_sparse_csr(), "special form"),
        (lambda: torch.empty(4, 4, device="meta"), "has no entries"),
        (lambda: torch.ones(1, 1).expand(10**7, 10**7), "more than the file holds"),
        (lambda: torch.quantize_per_tensor(torch.eye(4), 0.1, 0, torch.quint8), "special form"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_tensors_that_are_not_plain(make: Callable[[], torch.Tensor], says: str, tmp_path: Path) -> None:
    torch.save({"a.q_proj.weight": make()}, tmp_path / "model.pt")
    with pytest.raises(Unreadable, match=says):
        analyze(tmp_path / "model.pt", heads=1, runs=tmp_path)


def test_complex_numbers_are_no_weights(tmp_path: Path) -> None:
    """llama2's own files have the rotations."""
    torch.save(gpt2().state_dict() | {"freqs_cis": torch.ones(3, 3, dtype=torch.complex64)}, tmp_path / "model.pt")
    assert analyze(tmp_path / "model.pt", heads=4, runs=tmp_path).complete


def test_quantised_matrices_are_left_out(tmp_path: Path) -> None:
    gpt2().save_pretrained(tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    tensors, name = load_file(file), "transformer.h.0.attn.c_attn.weight"
    whole = analyze(tmp_path / "model", runs=tmp_path / "whole").records[0]
    save_file(tensors | {name: (1000 * tensors[name]).to(torch.int8)}, file, {"format": "pt"})
    analysis = analyze(tmp_path / "model", runs=tmp_path)
    assert "1 matrix is quantised to whole numbers, and left out of all this." in analysis.summary
    record = analysis.records[0]
    assert name not in record["weights"]
    assert list(record["identity"]) == ["transformer.h.1.attn"]
    assert record["parameters"] == whole["parameters"] - tensors[name].numel()
    gpt2(seed=1).save_pretrained(tmp_path / "other")
    compared = compare(tmp_path / "model", tmp_path / "other")
    assert isinstance(compared, Comparison)
    assert list(compared.identity) == ["transformer.h.1.attn"]
    everything = {name: tensor.to(torch.int8) for name, tensor in tensors.items()}
    save_file(everything, file, {"format": "pt"})
    with pytest.raises(Unreadable, match=r"All \d+ matrices are quantised.*give the model as it was before"):
        analyze(tmp_path / "model", runs=tmp_path)


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_of_a_checkpoint_is_never_run(file: str, series: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.models.auto import auto_factory, tokenization_auto

    trusted: list[object] = []

    def resolve(trust: object, *_: Any, **__: Any) -> bool:
        trusted.append(trust)
        return False

    for module in (auto_factory, tokenization_auto):
        monkeypatch.setattr(module, "resolve_trust_remote_code", resolve)
    place = series / "checkpoint-100"
    Path("text.txt").write_text(sample_text(100))
    (place / "code.py").write_text("open('harmed', 'w')\nclass Own: pass\n")
    classes = {"AutoConfig": "code.Own", "AutoModelForCausalLM": "code.Own", "AutoTokenizer": ["code.Own", "code.Own"]}
    content = json.loads((place / file).read_text()) | {"auto_map": classes}
    (place / file).write_text(json.dumps(content))
    assert analyze(place, text="text.txt").complete  # transformers has classes of its own for it
    assert set(trusted) == {False}
    if file == "config.json":
        (place / file).write_text(json.dumps(content | {"model_type": "own"}))
        with pytest.raises(InputError, match=r"needs code of its own \(auto_map\), which is never run here"):
            analyze(place, text="text.txt")
    assert not Path("harmed").exists()
