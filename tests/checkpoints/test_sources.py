"""Which files and folders count as checkpoints, and which do not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from checkpoints.series import gpt2, shards
from foretrain.checkpoints import analyze
from foretrain.checkpoints.formats import open_weights
from foretrain.checkpoints.sources import find, step_in
from foretrain.checkpoints.weights import MissingShards, Unreadable

MOMENTS = {"exp_avg.a": torch.ones(3, 3)}


def test_the_folder_of_a_training(series: Path) -> None:
    """As `foretrain lab language` leaves it: the optimizer's state is not a checkpoint."""
    Path("run").mkdir()
    series.rename("run/checkpoints")
    for name in ("setting.json", "state.json", "run.jsonl"):
        Path("run", name).write_text("{}")
    save_file(MOMENTS, "run/state-40.safetensors")
    source = find("run")
    assert [checkpoint.step for checkpoint in source.checkpoints] == [0, 20, 40, 60, 80, 100]
    assert source.name == "run/checkpoints"


@pytest.mark.parametrize(
    "name",
    ["state-40.safetensors", "optimizer.safetensors", "adapter_model.safetensors", "consolidated.00.safetensors",
     ".model.safetensors.part.safetensors"],
)  # fmt: skip
def test_what_lies_beside_the_weights(name: str, tmp_path: Path) -> None:
    save_file({"a.weight": torch.zeros(2, 2)}, tmp_path / "model.safetensors")
    save_file(MOMENTS, tmp_path / name)
    assert list(open_weights(tmp_path)) == ["a.weight"]


def test_an_adapter_alone(tmp_path: Path) -> None:
    save_file(MOMENTS, tmp_path / "adapter_model.safetensors")
    with pytest.raises(Unreadable, match="holds only an adapter"):
        open_weights(tmp_path)


def test_what_a_killed_process_left_is_no_checkpoint(series: Path) -> None:
    shutil.copytree(series / "checkpoint-40", series / ".step-50.part")
    assert len(find(str(series)).checkpoints) == 6
    Path("files").mkdir()
    for name in ("step_1.pt", "step_2.pt", ".step_3.pt"):
        torch.save(MOMENTS, f"files/{name}")
    assert [checkpoint.step for checkpoint in find("files").checkpoints] == [1, 2]


def test_a_folder_without_a_step_is_named(series: Path) -> None:
    shutil.copytree(series / "checkpoint-100", series / "last")
    (series / "logs").mkdir()
    assert find(str(series)).notes == ["last is left out: its name has no step."]


def test_files_of_lightning(tmp_path: Path) -> None:
    names = ["epoch=0-step=3.ckpt", "epoch=0-step=3-v1.ckpt", "epoch=0-step=3-v10.ckpt", "epoch=1-step=6.ckpt"]
    for name in [*names, "last.ckpt", "last-v1.ckpt"]:
        torch.save(gpt2().state_dict(), tmp_path / name)
    source = find(str(tmp_path))
    assert [(c.label, c.step) for c in source.checkpoints] == [(names[2], 3), (names[3], 6)]
    assert f"{names[1]} is left out: {names[2]} is a later version of the same step." in source.notes
    assert "last-v1.ckpt is left out: its name has no step." in source.notes
    assert step_in("model-v2.pt") == 2


@pytest.mark.parametrize("outside", ["../outside.safetensors", "/etc/passwd", "a\\b.safetensors", ".."])
def test_an_index_that_leads_elsewhere(outside: str, tmp_path: Path) -> None:
    save_file(MOMENTS, tmp_path / "outside.safetensors")
    place = tmp_path / "model"
    place.mkdir()
    (place / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": outside}}))
    with pytest.raises(Unreadable, match="only files in the same folder are read"):
        open_weights(place)


def test_an_index_without_any_of_its_files(series: Path) -> None:
    place = series / "checkpoint-60"
    count = len(shards(place))
    for shard in shards(place):
        shard.unlink()
    with pytest.raises(MissingShards, match=f"lacks {count} of {count} files of weights"):
        analyze(place)
    assert [(fault.kind, fault.checkpoint) for fault in analyze(series).faults] == [("missing shards", "checkpoint-60")]
