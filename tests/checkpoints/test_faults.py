"""Every fault is planted in a sound series and found; the sound series has none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers as hf
from torch import Tensor

from checkpoints.series import copy_weights, edit, exchange, gpt2, set_config, shards
from foretrain.checkpoints import Analysis, analyze

MLP = "transformer.h.1.mlp.c_fc.weight"


def analysed(series: Path) -> Analysis:
    return analyze(series, runs=series.parent / "runs")


def only_fault(series: Path, kind: str) -> tuple[str, str, str]:
    faults = analysed(series).faults
    assert [fault.kind for fault in faults] == [kind], [fault.sentence for fault in faults]
    return faults[0].checkpoint, faults[0].where, faults[0].sentence


def in_16_bits(place: Path) -> None:
    edit(place, lambda _, tensor: tensor.to(torch.bfloat16))


def test_a_sound_series_has_no_faults(series: Path) -> None:
    analysis = analysed(series)
    assert analysis.complete
    assert analysis.faults == []
    assert "no faults found." in analysis.summary


def test_a_sound_series_in_16_bits_has_no_faults(series: Path) -> None:
    for place in series.iterdir():
        in_16_bits(place)
    assert analysed(series).faults == []


def test_frozen_tensors_are_no_fault(series: Path) -> None:
    start: dict[str, Tensor] = {}

    def freeze(name: str, tensor: Tensor) -> Tensor:
        return start.setdefault(name, tensor) if "wpe" in name or "ln_" in name or "h.0.mlp" in name else tensor

    for step in (0, 20, 40, 60, 80, 100):
        edit(series / f"checkpoint-{step}", freeze)
    assert analysed(series).faults == []


def test_layers_that_are_unfrozen_late_are_a_note(series: Path) -> None:
    start: dict[str, Tensor] = {}

    def freeze(name: str, tensor: Tensor) -> Tensor:
        return start.setdefault(name, tensor) if ".h." in name else tensor

    for step in (0, 20, 40):
        edit(series / f"checkpoint-{step}", freeze)
    analysis = analysed(series)
    assert [f for f in analysis.faults if f.kind == "identical weights"] == []
    assert len(analysis.notes) == 1
    assert analysis.notes[0].startswith("Not trained until step 40, and the same as in the first checkpoint: ")
    assert analysis.notes[0].endswith("and 5 more.")
    assert [f.sentence for f in analysis.faults] == []


def test_a_shard_of_the_first_checkpoint(series: Path) -> None:
    """It holds biases that are all 0; the file is named all the same."""
    place, source = series / "checkpoint-60", series / "checkpoint-0"
    shard = shards(place)[1].name
    (place / shard).write_bytes((source / shard).read_bytes())
    faults = [fault for fault in analysed(series).faults if fault.kind == "identical weights"]
    assert [(fault.checkpoint, fault.where) for fault in faults] == [("checkpoint-60", shard)]
    assert analysed(series).notes == []


@pytest.mark.parametrize(("wrong", "right"), [(40, 20), (40, 100), (20, 80), (100, 0)])
def test_a_repeated_checkpoint(series: Path, wrong: int, right: int) -> None:
    copy_weights(series / f"checkpoint-{wrong}", series / f"checkpoint-{right}")
    checkpoint, where, sentence = only_fault(series, "identical weights")
    assert where == "all"
    assert {f"checkpoint-{wrong}", f"checkpoint-{right}"} == {checkpoint, sentence.split(" as ")[1].split(",")[0]}
    if abs(wrong - right) > 20:  # of two neighbours, either may be the copy
        assert checkpoint == f"checkpoint-{wrong}"


@pytest.mark.parametrize("other", [40, 100])
def test_a_repeated_shard(series: Path, other: int) -> None:
    place, source = series / "checkpoint-60", series / f"checkpoint-{other}"
    shard = shards(place)[1].name
    (place / shard).write_bytes((source / shard).read_bytes())
    checkpoint, where, _ = only_fault(series, "identical weights")
    assert where == shard
    assert checkpoint == "checkpoint-60" or other == 40


def test_a_repeated_tensor(series: Path) -> None:
    kept: dict[str, Tensor] = {}
    edit(series / "checkpoint-100", lambda name, tensor: kept.setdefault(name, tensor))
    edit(series / "checkpoint-40", lambda name, tensor: kept[name] if name == MLP else tensor)
    checkpoint, where, _ = only_fault(series, "identical weights")
    assert (checkpoint, where) == ("checkpoint-40", MLP)


def test_a_norm_that_comes_back_is_no_fault(series: Path) -> None:
    kept: dict[str, Tensor] = {}
    edit(series / "checkpoint-100", lambda name, tensor: kept.setdefault(name, tensor))
    edit(series / "checkpoint-40", lambda name, tensor: kept[name] if "h.1.ln_2" in name else tensor)
    assert analysed(series).faults == []


@pytest.mark.parametrize(("one", "other"), [(20, 40), (20, 80), (40, 60), (80, 100), (0, 20), (0, 100)])
def test_exchanged_checkpoints(series: Path, one: int, other: int) -> None:
    exchange(series / f"checkpoint-{one}", series / f"checkpoint-{other}")
    found = analysed(series).faults
    assert {fault.kind for fault in found} == {"out of order"}, found
    assert {label for f in found for label in (f.checkpoint, *f.others)} >= {f"checkpoint-{one}", f"checkpoint-{other}"}


def test_a_name_that_contradicts_the_trainer(series: Path) -> None:
    (series / "checkpoint-40").rename(series / "checkpoint-50")
    checkpoint, _, sentence = only_fault(series, "out of order")
    assert checkpoint == "checkpoint-50"
    assert "written at step 40" in sentence


def test_an_outlier(series: Path) -> None:
    torch.manual_seed(0)
    noise = 0.3  # of the deviation of each tensor; from 40 to 80 they move by 0.12
    edit(series / "checkpoint-60", lambda _, tensor: tensor + noise * tensor.std() * torch.randn(tensor.shape))
    checkpoint, where, _ = only_fault(series, "outlier")
    assert (checkpoint, where) == ("checkpoint-60", "all")


def test_an_outlying_tensor(series: Path) -> None:
    edit(series / "checkpoint-60", lambda name, tensor: 1.5 * tensor if name == MLP else tensor)
    checkpoint, where, _ = only_fault(series, "outlier")
    assert (checkpoint, where) == ("checkpoint-60", MLP)


@pytest.mark.parametrize("with_index", [True, False])
def test_a_missing_shard(series: Path, with_index: bool) -> None:
    place = series / "checkpoint-60"
    shards(place)[2].unlink()
    if not with_index:
        (place / "model.safetensors.index.json").unlink()
    analysis = analysed(series)
    assert not analysis.complete
    assert analysis.summary.startswith("Incomplete: 1 of 6 checkpoints (steps 0 to 100) could not be measured;")
    assert "the rest leaves it out. No other faults." in analysis.summary
    assert [(fault.kind, fault.checkpoint) for fault in analysis.faults] == [("missing shards", "checkpoint-60")]
    assert "lacks 1 of" in analysis.faults[0].sentence
    assert 60 not in analysis.dataset["step"]


def test_a_torn_shard(series: Path) -> None:
    shard = shards(series / "checkpoint-60")[0]
    shard.write_bytes(shard.read_bytes()[:-10])
    analysis = analysed(series)
    assert [fault.kind for fault in analysis.faults] == ["missing shards"]
    assert "ends before its last tensor" in analysis.faults[0].sentence


def test_undefined_weights(series: Path) -> None:
    def spoil(name: str, tensor: Tensor) -> Tensor:
        return torch.where(torch.arange(tensor.numel()).view(tensor.shape) == 3, torch.nan, tensor)

    edit(series / "checkpoint-60", lambda name, tensor: spoil(name, tensor) if name == MLP else tensor)
    analysis = analysed(series)
    assert not analysis.complete
    assert [(fault.kind, fault.checkpoint) for fault in analysis.faults] == [("not a number", "checkpoint-60")]
    assert f"{MLP} has 1 of 16,384 entries" in analysis.faults[0].sentence


def test_an_absent_config(series: Path) -> None:
    (series / "checkpoint-60" / "config.json").unlink()
    checkpoint, where, sentence = only_fault(series, "missing config")
    assert (checkpoint, where) == ("checkpoint-60", "config.json")
    assert sentence == "checkpoint-60 has no config.json, so that of checkpoint-40 is used."
    assert only_fault(series, "missing config")[0] == "checkpoint-60"  # now from the record
    (series / "checkpoint-60" / "config.json").write_bytes((series / "checkpoint-40" / "config.json").read_bytes())
    assert analysed(series).faults == []


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("n_layer", 3, "the weights have 2 layers"),
        ("vocab_size", 130, "embeddings of 128 tokens"),
        ("n_embd", 128, "embeddings of width 64"),
        ("n_head", 8, "the other checkpoints say 4"),
        ("n_head", 3, "that does not divide the width 64"),
        ("model_type", "gptj", "the other checkpoints say gpt2"),
    ],
)
def test_a_wrong_config(series: Path, setting: str, value: object, says: str) -> None:
    set_config(series / "checkpoint-60", **{setting: value})
    checkpoint, where, sentence = only_fault(series, "wrong config")
    assert (checkpoint, where) == ("checkpoint-60", setting)
    assert says in sentence


@pytest.mark.parametrize("step", [40, 100])
def test_weights_like_an_initialisation(series: Path, step: int) -> None:
    fresh = gpt2(seed=7).state_dict()
    edit(series / f"checkpoint-{step}", lambda name, _: fresh[name].clone())
    checkpoint, where, sentence = only_fault(series, "like initialisation")
    assert (checkpoint, where) == (f"checkpoint-{step}", "all")
    assert "indistinguishable from an initialisation" in sentence


@pytest.mark.parametrize("step", [40, 100])
def test_a_matrix_like_an_initialisation(series: Path, step: int) -> None:
    def fresh(tensor: Tensor) -> Tensor:
        return 0.02 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(3))

    edit(series / f"checkpoint-{step}", lambda name, tensor: fresh(tensor) if name == MLP else tensor)
    faults = analysed(series).faults
    assert ("like initialisation", f"checkpoint-{step}", MLP) in [(f.kind, f.checkpoint, f.where) for f in faults]
    assert {fault.checkpoint for fault in faults} == {f"checkpoint-{step}"}


def test_a_wrong_number_of_key_heads(tmp_path: Path) -> None:
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 50}
    config = hf.LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2)
    hf.LlamaForCausalLM(config).save_pretrained(tmp_path / "model")
    assert "wrong config" not in {fault.kind for fault in analyze(tmp_path / "model", runs=tmp_path).faults}
    set_config(tmp_path / "model", num_key_value_heads=4)
    faults = [f for f in analyze(tmp_path / "model", runs=tmp_path).faults if f.kind == "wrong config"]
    assert [fault.where for fault in faults] == ["num_key_value_heads"]
    assert "room for 2 heads of width 8" in faults[0].sentence
