"""An analysis as a whole: what it returns, how it continues, what it refuses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from torch import nn

from checkpoints.series import NO_SPECIAL, STEPS, copy_weights, edit, gpt2, sample_text, set_config, shards
from foretrain.checkpoints import analysis as analysis_module
from foretrain.checkpoints import analyze, compare
from foretrain.checkpoints.scales import chance_of_mean, identity_chances
from foretrain.checkpoints.sources import _title, find, step_in
from foretrain.core.errors import InputError
from foretrain.core.progress import Progress, listening
from foretrain.measures import effective_rank, stable_rank
from monitor.models import t5, vit


def test_what_an_analysis_holds(series: Path) -> None:
    analysis = analyze(series)
    dataset = analysis.dataset
    assert dataset["step"].values.tolist() == list(STEPS)
    assert dataset["stable_rank"].dims == ("step", "matrix")
    assert dataset["identity_query_key"].sizes == {"step": 6, "layer": 2, "head": 4}
    name = "transformer.h.0.mlp.c_fc.weight"
    model = hf.GPT2LMHeadModel.from_pretrained(series / "checkpoint-100")
    W = model.state_dict()[name].double()
    last = dataset.sel(step=100, matrix=name)
    assert float(last["stable_rank"]) == pytest.approx(float(stable_rank(W)), rel=1e-4)
    assert float(last["effective_rank"]) == pytest.approx(float(effective_rank(W)), rel=1e-3)
    assert analysis.summary.startswith("6 checkpoints from step 0 to 100, no faults found. Each has 0.112 M parameters")
    assert re.search(r"stable rank of the MLP matrices \(median\) falls from .* of at most 64, half", analysis.summary)
    assert analysis.file.parent == Path("runs/analysis")


class Killed(BaseException):
    pass


def test_a_killed_analysis_continues(series: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = analyze(series, runs="elsewhere")
    measured: list[int] = []
    measure = analysis_module.measure

    def counting(*arguments: Any) -> dict[str, Any]:
        if len(measured) == 2 and not killed:
            killed.append(True)
            raise Killed
        measured.append(1)
        return measure(*arguments)

    killed: list[bool] = []
    monkeypatch.setattr(analysis_module, "measure", counting)
    with pytest.raises(Killed):
        analyze(series)
    file = next(Path("runs/analysis").iterdir())
    with open(file, "ab") as stream:
        stream.write(b'{"step": 40, "torn')
    again = analyze(series)
    assert len(measured) == 6
    assert again.dataset.identical(whole.dataset)
    assert again.records == whole.records
    assert analyze(series).records == whole.records
    assert len(measured) == 6


def test_a_changed_checkpoint_is_measured_again(series: Path) -> None:
    first = analyze(series).dataset
    shard = shards(series / "checkpoint-60")[1]
    before = shard.stat()
    edit(series / "checkpoint-60", lambda name, tensor: tensor * 1.01 if "h.1.mlp.c_fc.weight" in name else tensor)
    assert shard.stat().st_size == before.st_size
    second = analyze(series).dataset
    moved = (first["norm"] != second["norm"]).any("matrix")
    assert moved["step"][moved].values.tolist() == [60]


def test_a_damaged_record_is_named(series: Path) -> None:
    file = analyze(series).file
    lines = file.read_bytes().split(b"\n")
    file.write_bytes(b"\n".join([lines[0], lines[1][:100], *lines[2:]]))
    with pytest.raises(InputError, match="line 2 is damaged; delete that line"):
        analyze(series)


def test_two_analyses_can_be_compared(series: Path) -> None:
    first = analyze(series, runs="first").file
    edit(series / "checkpoint-60", lambda name, tensor: tensor * 1.01 if "mlp" in name else tensor)
    second = analyze(series, runs="second").file
    edit(series / "checkpoint-20", lambda name, tensor: tensor * 1.01 if "mlp" in name else tensor)
    assert "differ from step 60 on" in compare(first, second).summary
    assert "differ from step 20 on" in compare(second, analyze(series, runs="first").file).summary


def test_a_new_checkpoint_is_added(series: Path) -> None:
    (series / "checkpoint-100").rename(series.parent / "kept")
    assert analyze(series).total == 5
    (series.parent / "kept").rename(series / "checkpoint-100")
    assert analyze(series).total == 6
    assert len(list(Path("runs/analysis").iterdir())) == 1


def test_progress_counts_checkpoints_and_names_tensors(series: Path) -> None:
    heard: list[Progress] = []
    with listening(heard.append):
        analyze(series)
    assert [p.done for p in heard if not p.inner] == [*range(6), 6]
    assert any("wte" in p.doing for p in heard if p.inner)


def test_a_text(series: Path) -> None:
    text = Path("text.txt")
    text.write_text(sample_text(300))
    analysis = analyze(series, text=text, context=32)
    dataset = analysis.dataset
    assert dataset["attention_entropy"].sizes == {"step": 6, "layer": 2, "head": 4}
    loss = dataset["loss"].values
    assert loss[0] == pytest.approx(np.log(128), abs=0.1)
    assert loss[-1] < 3
    assert (dataset["attention_entropy"].sel(step=0) == pytest.approx(3 / 4 * np.log(32), rel=0.2)).all()
    assert "The loss on the text falls from" in analysis.summary


def test_a_text_gives_what_the_model_gives(series: Path) -> None:
    text = Path("text.txt")
    text.write_text(sample_text(64))
    record = analyze(series / "checkpoint-100", text=text).records[0]
    model = hf.GPT2LMHeadModel.from_pretrained(series / "checkpoint-100", attn_implementation="eager").eval()
    tokens = torch.tensor([hf.AutoTokenizer.from_pretrained(series / "checkpoint-100")(sample_text(64))["input_ids"]])
    with torch.no_grad():
        output = model(tokens, labels=tokens, output_attentions=True)
    assert record["loss"] == pytest.approx(float(output.loss), rel=1e-5)
    entropy = torch.special.entr(output.attentions[1]).sum(-1).mean((0, 2))
    assert record["attention"]["transformer.h.1.attn"]["entropy"] == pytest.approx(entropy.tolist(), rel=1e-4)


def test_a_text_on_state_dicts_beside_a_config(series: Path) -> None:
    """Files of torch have no configuration: the model that is named has it."""
    Path("text.txt").write_text(sample_text(64))
    for step in (20, 40):
        state = hf.GPT2LMHeadModel.from_pretrained(series / f"checkpoint-{step}").state_dict()
        Path("files").mkdir(exist_ok=True)
        torch.save({"model": state}, f"files/step_{step}.pt")
    files = analyze(series / "checkpoint-0", checkpoints="files", text="text.txt")
    folders = analyze(series, text="text.txt")
    chosen = folders.dataset["loss"].sel(step=[20, 40]).values
    np.testing.assert_allclose(files.dataset["loss"].values, chosen, rtol=1e-6)


def test_a_text_that_is_too_short(series: Path) -> None:
    Path("text.txt").write_text(sample_text(40))
    with pytest.raises(InputError, match=r"has 40 tokens, fewer than the context of 64; .* --context 40 or less"):
        analyze(series, text="text.txt")
    assert analyze(series / "checkpoint-100", text="text.txt", context=40).complete
    with pytest.raises(InputError, match="--context must be from 2 to 64"):
        analyze(series, text="text.txt", context=65)


def test_a_text_without_a_tokenizer(series: Path) -> None:
    Path("text.txt").write_text(sample_text(100))
    for file in (series / "checkpoint-100").glob("tokenizer*"):
        file.unlink()
    with pytest.raises(InputError, match="There is no tokenizer in"):
        analyze(series / "checkpoint-100", text="text.txt")


def test_a_loss_that_is_not_a_number(series: Path) -> None:
    """Weights that are finite, and too large to compute with."""
    Path("text.txt").write_text(sample_text(100))
    edit(series / "checkpoint-60", lambda name, tensor: 1e18 * tensor if "mlp" in name else tensor)
    analysis = analyze(series, text="text.txt")
    assert not analysis.complete
    assert [fault.kind for fault in analysis.faults] == ["not a number"]


def test_a_model_with_a_missing_tensor_does_not_run_with_a_random_one(series: Path) -> None:
    Path("text.txt").write_text(sample_text(100))
    place = series / "checkpoint-100"
    set_config(place, n_layer=3)
    with pytest.raises(InputError, match="lacks 12 tensors that the model needs"):
        analyze(place, text="text.txt")


def test_a_model_without_attention(tmp_path: Path) -> None:
    torch.save(nn.Sequential(nn.Linear(20, 30), nn.Linear(30, 2)).state_dict(), tmp_path / "model.pt")
    with pytest.raises(InputError, match="has no attention: none of its 4 tensors"):
        analyze(tmp_path / "model.pt", heads=2, runs=tmp_path)


def test_a_number_of_heads_that_does_not_fit(tmp_path: Path) -> None:
    torch.save(gpt2().state_dict(), tmp_path / "model.pt")
    with pytest.raises(InputError, match="can be cut into --heads 7 heads; give another number, or leave out --heads"):
        analyze(tmp_path / "model.pt", heads=7, runs=tmp_path)
    assert analyze(tmp_path / "model.pt", runs=tmp_path).complete


@pytest.mark.parametrize("make", [t5, vit])
def test_other_families(make: Any, tmp_path: Path) -> None:
    make().save_pretrained(tmp_path / "model")
    analysis = analyze(tmp_path / "model", runs=tmp_path)
    assert analysis.dataset.sizes["layer"] >= 2
    assert {fault.kind for fault in analysis.faults} <= {"like initialisation"}


def test_what_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(InputError, match="is not a checkpoint, nor a folder of checkpoints"):
        analyze(tmp_path, runs=tmp_path)
    with pytest.raises(InputError, match=r"files of weights end in \.safetensors"):
        analyze(tmp_path / "notes.txt", runs=tmp_path)
    with pytest.raises(InputError, match="There is no file or folder"):
        analyze(tmp_path / "absent", runs=tmp_path)


def test_a_series_none_of_which_can_be_read(series: Path) -> None:
    for place in series.iterdir():
        shards(place)[0].unlink()
    with pytest.raises(InputError, match="None of 6 checkpoints could be measured; checkpoint-0 could not"):
        analyze(series)


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", None])
def test_an_unreachable_hub(endpoint: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    if endpoint is None:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    else:
        monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    with pytest.raises(InputError) as error:
        analyze("someone/model", runs=tmp_path)
    assert str(error.value) == (
        "There is no file or folder someone/model here, and someone/model, revision main, could not be downloaded from "
        "the hub: the hub cannot be reached; check the network and the name."
    )


def test_a_mistyped_checkpoint_is_not_looked_for_on_the_hub(series: Path) -> None:
    with pytest.raises(InputError, match=r"^out has no checkpoint-101; it has checkpoint-0, checkpoint-20, .*-100\.$"):
        analyze("out/checkpoint-101")
    with pytest.raises(InputError, match=r"checkpoint-20 has no model\.pt; it has model-00001-of"):
        compare("out/checkpoint-20/model.pt", "out/checkpoint-20")


@pytest.mark.parametrize(
    ("path", "title"),
    [("run/checkpoints", "run/checkpoints"), ("run/checkpoints/step-5", "run/checkpoints/step-5"), ("gpt2", "gpt2"),
     ("run/last", "last"), ("a/b/model.pt", "b/model.pt")],
)  # fmt: skip
def test_titles_tell_folders_of_the_same_name_apart(path: str, title: str, tmp_path: Path) -> None:
    assert _title(tmp_path / path) == title


def test_identity_shares_have_the_scale_of_chance(tmp_path: Path) -> None:
    """At initialisation, shares of single heads spread as the chance level says, and so do their means."""
    torch.manual_seed(0)
    size = {"n_embd": 64, "n_layer": 8, "n_head": 4, "vocab_size": 32, "n_positions": 8} | NO_SPECIAL
    hf.GPT2LMHeadModel(hf.GPT2Config(**size)).save_pretrained(tmp_path / "model")
    analysis = analyze(tmp_path / "model", runs=tmp_path)
    chances = identity_chances(analysis.records[0])
    assert all(pair == (4, pytest.approx(1 / np.sqrt(64 * 16))) for pair in chances.values())
    shares = np.concatenate([analysis.dataset[f"identity_{name}"].values for name in ("query_key", "value_output")])
    assert shares.std() == pytest.approx(1 / np.sqrt(64 * 16), rel=0.25)
    assert chance_of_mean(chances.values()) == pytest.approx(1 / np.sqrt(64 * 16 * 4 * 8))
    assert "(chance ±0.0055), averaged over all heads" in analysis.summary


@pytest.mark.parametrize(
    ("name", "step"),
    [("checkpoint-500", 500), ("step_1000", 1000), ("step32000", 32000), ("iter_0000500", 500), ("ckpt_12.pt", 12),
     ("epoch=3-step=750.ckpt", 750), ("model_40.pth", 40), ("143000", 143000), ("main", None)],
)  # fmt: skip
def test_steps_in_names(name: str, step: int | None) -> None:
    assert step_in(name) == step


def test_revisions() -> None:
    source = find("owner/name", revisions=["step1000", "main=143000", "step0"])
    assert [(c.label, c.step) for c in source.checkpoints] == [("step0", 0), ("step1000", 1000), ("main", 143000)]
    with pytest.raises(InputError, match="write main=STEP"):
        find("owner/name", revisions=["main"])


def test_two_checkpoints_of_one_step(series: Path) -> None:
    (series / "step_60").mkdir()
    copy_weights(series / "step_60", series / "checkpoint-60")
    with pytest.raises(InputError, match="checkpoint-60 and step_60 both name step 60"):
        analyze(series)
