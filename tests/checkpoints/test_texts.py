"""What a text adds to a record, when that is computed again, and which models cannot read one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from checkpoints.series import WORDS, sample_text, set_config
from foretrain.checkpoints import analyze
from foretrain.core.errors import InputError
from monitor.models import ENCODERS, t5, vit

TOKENS = ("tokenizer.json", "tokenizer_config.json")


@pytest.fixture
def last(series: Path) -> Path:
    Path("text.txt").write_text(sample_text(200))
    return series / "checkpoint-100"


def with_tokenizer(model: Any, last: Path, name: str) -> Path:
    place = Path(name)
    model.save_pretrained(place)
    for file in TOKENS:
        shutil.copy(last / file, place / file)
    return place


def test_windows_cover_the_text(last: Path) -> None:
    """Means are over all windows, the largest logit is that of the largest."""
    record = analyze(last, text="text.txt", context=32).records[0]
    tokens = torch.tensor(hf.AutoTokenizer.from_pretrained(last)(sample_text(200))["input_ids"])
    parts, losses = [], []
    for start in (0, 56, 112, 168):
        Path(f"{start}.txt").write_text(" ".join(WORDS[k] for k in tokens[start : start + 32].tolist()))
        single = analyze(last, text=f"{start}.txt", context=32).records[0]
        parts.append(single["attention"]["transformer.h.1.attn"])
        losses.append(single["loss"])
    assert len(set(losses)) == 4
    assert record["loss"] == pytest.approx(sum(losses) / 4, rel=1e-5)
    found = record["attention"]["transformer.h.1.attn"]
    *means, largest = found
    for name in means:
        wanted = torch.tensor([part[name] for part in parts]).mean(0).tolist()
        assert found[name] == pytest.approx(wanted, rel=1e-4, abs=1e-6), name
    assert found[largest] == pytest.approx(torch.tensor([part[largest] for part in parts]).amax(0).tolist(), rel=1e-5)
    assert "logit" in largest


def test_a_changed_text_is_read_again(last: Path) -> None:
    first = analyze(last, text="text.txt", context=32).records[0]
    Path("text.txt").write_text(" ".join(["cat"] * 200))
    second = analyze(last, text="text.txt", context=32)
    assert second.records[0]["loss"] != first["loss"]
    assert second.records[0]["text"] != first["text"]


def test_a_changed_config_is_read_again(last: Path) -> None:
    first = analyze(last, text="text.txt").records[0]
    set_config(last, layer_norm_epsilon=0.5)
    assert analyze(last, text="text.txt").records[0]["loss"] != first["loss"]


def test_a_changed_step_is_noted(last: Path) -> None:
    """The trainer's state is part of a record."""
    assert analyze(last).faults == []
    (last / "trainer_state.json").write_text('{"global_step": 90}')
    assert "written at step 90" in analyze(last).faults[0].sentence


def test_a_masked_language_model(last: Path) -> None:
    record = analyze(with_tokenizer(ENCODERS["BERT"](), last, "bert"), text="text.txt", context=16).records[0]
    assert len(record["attention"]) == 2
    assert "loss" not in record


def clip() -> Any:
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    text = hf.CLIPTextConfig(**sizes, vocab_size=50)
    vision = hf.CLIPVisionConfig(**sizes, image_size=16, patch_size=4)
    return hf.CLIPModel(hf.CLIPConfig(text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=32))


@pytest.mark.parametrize(("make", "kind"), [(t5, "t5"), (vit, "vit"), (clip, "clip")])
def test_models_that_do_not_predict_text(make: Any, kind: str, last: Path) -> None:
    place = with_tokenizer(make(), last, kind)
    with pytest.raises(InputError, match=f"--text needs a language model that predicts text; this is a {kind}; leave"):
        analyze(place, text="text.txt", context=16)
