"""The forecast that a user sees: from a folder with a model and a file of texts to an answer in words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from forecast.finetuning.models import smooth
from foretrain.cli import main
from foretrain.core.errors import InputError
from foretrain.forecast.finetuning.dynamics import FinetuneSetting
from foretrain.forecast.finetuning.forecast import forecast_with, recorded_steps
from foretrain.forecast.finetuning.prepared import Prepared, prepare

SETTING = FinetuneSetting(rate=1e-3, steps=10, batch=8)


def prepared(rows: int = 30) -> Prepared:
    classifier, labels = smooth()
    return prepare(classifier, labels, rows=rows)


def test_the_start_is_the_probe_and_the_forecast_is_near_the_training() -> None:
    forecast = forecast_with(prepared(), SETTING, orders=1).train()
    data = forecast.dataset
    assert data["step"].values.tolist() == recorded_steps(10)
    np.testing.assert_allclose(data["loss"].isel(step=0), data["real_loss"].isel(step=0), rtol=1e-5)
    change = abs(data["real_loss"].isel(step=-1) - data["real_loss"].isel(step=0))
    error = abs(data["loss"].isel(step=-1) - data["real_loss"].isel(step=-1))
    assert (error < 0.2 * change).all()
    assert list(forecast.table.index) == ["linear probe", "forecast", "real training"]


def test_one_midpoint_serves_all_settings() -> None:
    own = prepared()
    first = forecast_with(own, SETTING, orders=1)
    assert len(own._middles) == 1
    slower = first.with_setting(rate=5e-4)
    assert len(own._middles) == 1
    real = slower.train().dataset
    error = abs(real["loss"].isel(step=-1) - real["real_loss"].isel(step=-1))
    assert (error < 0.2 * abs(real["real_loss"].isel(step=-1) - real["real_loss"].isel(step=0))).all()


def test_what_if_rows_were_dropped_or_relabelled() -> None:
    forecast = forecast_with(prepared(), SETTING, orders=1)
    fewer, other = forecast.without([0, 1, 2]), forecast.relabelled({0: 1 - int(forecast.prepared.labels[0])})
    for changed in (fewer, other):
        assert not np.allclose(changed.dataset["logits"], forecast.dataset["logits"])
    same = forecast.relabelled({0: int(forecast.prepared.labels[0])})
    np.testing.assert_allclose(same.dataset["logits"], forecast.dataset["logits"], rtol=1e-5)


def test_a_forecast_that_cannot_be_trusted_says_so_first() -> None:
    wild = forecast_with(prepared(), FinetuneSetting(rate=3.0, steps=5, batch=8), orders=1)
    assert not wild.trust.holds
    assert wild.summary.startswith("Do not trust this forecast: the first step moves the logits by")
    assert forecast_with(prepared(), SETTING, orders=1).summary.startswith("Fine-tuning will")


def test_it_displays_in_a_notebook_and_on_a_page(tmp_path: Path) -> None:
    forecast = forecast_with(prepared(), SETTING, orders=2)
    assert "<table>" in forecast._repr_html_()
    forecast.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Content-Security-Policy" in page
    assert "Fine-tuning will" in page
    assert len(forecast.figure().data) == 8  # a line and a band for two parts in two panels


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A random BERT with a tokenizer of words, saved as a folder."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "good", "bad", "film", "a", "the", "very", "plot", "is"]
    tokenizer = Tokenizer(models.WordLevel({word: k for k, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    folder = tmp_path / "model"
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
        BertModel(BertConfig(vocab_size=10, max_position_embeddings=16, **sizes)).save_pretrained(folder)
    return folder


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    lines = ["text,label"]
    for _ in range(60):
        word = random.choice(["good", "bad"])
        rest = " ".join(random.choice(["film", "a", "the", "very", "plot", "is"], 4))
        lines.append(f"{rest} {word},{'positive' if word == 'good' else 'negative'}")
    file = tmp_path / "texts.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.usefixtures("as_users_run_it")
def test_the_command_answers_in_a_sentence(
    model: Path, texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "forecast.json"
    arguments = [str(model), str(texts), "--n", "30", "--test", "20", "--steps", "4", "--batch", "8", "--orders", "2"]
    with pytest.raises(SystemExit) as left:
        main(["forecast", "finetune", *arguments, "--train", "--json", str(out), "--report", str(tmp_path / "r.html")])
    printed = capsys.readouterr()
    assert left.value.code == 0, printed.err
    assert "Fine-tuning will" in printed.out
    assert "Trust:" in printed.out
    assert "real training" in printed.out
    written = json.loads(out.read_text())
    assert written["step"] == [0, 1, 2, 3, 4]
    assert set(written["curves"]) == {
        f"{kind} {part}" for kind in ("accuracy", "loss", "real_accuracy", "real_loss") for part in ("train", "test")
    }


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--n", "59"], "leave too few to test on"),
        (["--rate", "0"], "rate must be a finite number above 0"),
        (["--optimizer", "adam"], "optimizer must be adamw or sgd"),
        (["--schedule", "steep"], "schedule must be one of constant, linear, cosine"),
        (["--label", "stars"], "no column 'stars'"),
    ],
)
def test_refused_in_one_sentence(
    model: Path, texts: Path, more: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["forecast", "finetune", str(model), str(texts), *more])
    assert left.value.code == 2
    assert words in capsys.readouterr().err


def test_models_and_labels_that_do_not_fit_are_refused(tmp_path: Path, texts: Path) -> None:
    from foretrain.data.labelled_texts import read_labelled

    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="is not a model that can be loaded"):
        prepare(str(tmp_path / "empty"), read_labelled(texts), rows=20)
    classifier, labels = smooth()
    with pytest.raises(InputError, match="All training rows have the same label"):
        prepare(classifier, torch.zeros_like(labels), rows=30)
    with pytest.raises(InputError, match="All 40 rows are for training"):
        prepare(classifier, labels, rows=40)
