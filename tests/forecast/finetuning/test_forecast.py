"""The forecast that a user sees: from a folder with a model and a file of texts to an answer in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import foretrain
from forecast.finetuning.models import smooth
from foretrain.cli import main
from foretrain.core.errors import InputError
from foretrain.forecast.finetuning.curves import curves, recorded_steps
from foretrain.forecast.finetuning.dynamics import FinetuneSetting
from foretrain.forecast.finetuning.forecast import FinetuneForecast, forecast_with
from foretrain.forecast.finetuning.kept import load_pass
from foretrain.forecast.finetuning.prepared import LivePass, WhatIf, prepare, prepare_texts
from foretrain.forecast.finetuning.trust import Trust
from foretrain.forecast.finetuning.words import summary

SETTING = FinetuneSetting(rate=1e-3, steps=10, batch=8)


def prepared(rows: int = 30) -> LivePass:
    classifier, labels = smooth()
    return prepare(classifier, labels, rows=rows)


def test_the_start_is_the_probe_and_the_forecast_is_near_the_training() -> None:
    forecast = forecast_with(prepared(), SETTING, orders=1).train()
    data = forecast.dataset
    assert data["step"].values.tolist() == recorded_steps(10)
    np.testing.assert_allclose(data["loss"].isel(step=0, order=0), data["real_loss"].isel(step=0), rtol=1e-5)
    assert forecast.score["correlation"] > 0.99
    assert 0.9 < forecast.score["scale"] < 1.1
    assert list(forecast.table.index) == ["always the largest class", "linear probe", "forecast", "real training"]


def test_one_midpoint_serves_all_settings() -> None:
    own = prepared()
    first = forecast_with(own, SETTING, orders=1)
    assert len(own._middles) == 1
    slower = first.with_setting(rate=5e-4)
    assert len(own._middles) == 1
    score = slower.train().score
    assert score["correlation"] > 0.99
    assert 0.9 < score["scale"] < 1.1


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
    assert wild.summary.startswith("Do not trust this forecast; a smaller rate or fewer steps")
    assert "It says: Fine-tuning will" in wild.summary
    fast = forecast_with(prepared(), FinetuneSetting("sgd", rate=20.0, steps=1, batch=30), orders=1)
    assert not fast.trust.holds
    assert f"one step moves the logits by {fast.trust.first_step:.2g}" in fast.trust.reason
    assert forecast_with(prepared(), SETTING, orders=1).summary.startswith("Fine-tuning will")


def test_a_few_real_steps_confirm_a_forecast_or_end_the_trust() -> None:
    forecast = forecast_with(prepared(), SETTING, orders=1)
    confirmed = forecast.checked(3)
    assert confirmed.trust.holds
    assert "3 real steps moved the outputs 1.0" in confirmed.trust.reason
    own = prepared()
    wrong = replace(own.start, jacobian=own.start.jacobian * 2)  # a forecast that moves twice as far
    misled = forecast_with(replace(own, start=wrong), SETTING, orders=1).checked(3)
    assert not misled.trust.holds
    assert misled.summary.startswith("Do not trust this forecast")
    assert misled.trust.reason.startswith("3 real steps moved the outputs 0.5")


def test_it_displays_in_a_notebook_and_on_a_page(tmp_path: Path) -> None:
    forecast = forecast_with(prepared(), SETTING, orders=2)
    assert "<table>" in forecast._repr_html_()
    forecast.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Content-Security-Policy" in page
    assert "Fine-tuning will" in page
    assert len(forecast.figure().data) == 8  # a line and a band for two parts in two panels


def test_what_ifs_are_kept_by_other_settings_and_by_the_real_training() -> None:
    forecast = forecast_with(prepared(), SETTING, orders=1)
    fewer = forecast.without(range(12))
    slower = fewer.with_setting(rate=5e-4)
    assert slower.what_if == fewer.what_if
    trained = fewer.train()
    real = trained.dataset["real_logits"]
    with_all, with_fewer = (np.abs(real - f.dataset["logits"].isel(order=0)).mean() for f in (forecast, fewer))
    assert float(with_fewer) < float(with_all)
    assert (fewer.rows["part"].values[:12] == "dropped").all()
    both = fewer.relabelled({20: 1})
    assert both.rows["class"][20] == "1"
    assert both.what_if.dropped == tuple(range(12))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.without([30]), "no training row 30; they are numbered 0 to 29"),
        (lambda f: f.relabelled({0: 2}), "no class 2; they are 0 to 1"),
        (lambda f: f.without(range(30)), "training rows that are left all have one label"),
        (lambda f: f.without([3]).relabelled({3: 1}), "row 3 cannot be both dropped and relabelled"),
    ],
)
def test_what_ifs_that_make_no_sense_are_refused(
    change: Callable[[FinetuneForecast], FinetuneForecast], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        change(forecast_with(prepared(), SETTING, orders=1))


def test_leaving_out_a_row_does_not_shuffle_the_others() -> None:
    whole, fewer = SETTING.batches(30), SETTING.batches(30, np.setdiff1d(np.arange(30), [7]))
    first = [row for batch in whole for row in batch if row != 7]
    assert [row for batch in fewer for row in batch][: len(first)] == first[: sum(map(len, fewer))]


def test_a_middle_serves_shorter_paths_and_is_made_anew_for_longer_ones_and_other_optimizers() -> None:
    own = prepared()
    forecast_with(own, SETTING, orders=1)
    key = ("adamw", WhatIf())
    middle = own._middles[key]
    forecast_with(own, replace(SETTING, rate=5e-4), orders=1)
    assert own._middles[key] is middle
    for rate in (1e-4, 1e-2):  # much shorter, much longer
        forecast_with(own, replace(SETTING, rate=rate), orders=1)
        assert own._middles[key] is not middle
        middle = own._middles[key]
    forecast_with(own, FinetuneSetting("sgd", rate=0.05, steps=5), orders=1)
    assert list(own._middles) == [("sgd", WhatIf())]


def test_a_what_if_that_changes_many_rows_has_a_middle_and_a_trust_of_its_own() -> None:
    forecast = forecast_with(prepared(), replace(SETTING, rate=3e-3), orders=1)
    labels = forecast.prepared.labels[:30]
    few = forecast.without([1])
    assert list(few.prepared._middles) == [("adamw", WhatIf())]
    flipped = forecast.relabelled({row: 1 - int(label) for row, label in enumerate(labels)})
    assert list(flipped.prepared._middles) == [("adamw", flipped.what_if)]
    score = flipped.train().score
    assert score["correlation"] > 0.99
    assert 0.9 < score["scale"] < 1.1
    assert flipped.checked(3).trust.reason != forecast.checked(3).trust.reason


def test_nothing_about_the_process_changes() -> None:
    own = prepared()
    state = torch.get_rng_state()
    with torch.no_grad():
        forecast_with(own, SETTING, orders=1).train()
        prepare(own.classifier, own.labels, rows=30)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled()
    with torch.inference_mode():
        assert forecast_with(own, SETTING, orders=1).trust.holds


def test_test_rows_of_tensors_are_as_many_as_asked_or_given() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module, x = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1)), torch.randn(80, 5)
    labels = (x[:, 0] > 0).long()
    some = foretrain.forecast.finetune(module, (x, labels), n=40, test=10, steps=2, orders=1)
    assert len(some.rows) == 50
    others = (x[60:], labels[60:])
    given = foretrain.forecast.finetune(module, (x[:60], labels[:60]), n=40, test=others, steps=2, orders=1)
    assert len(given.rows) == 60
    np.testing.assert_array_equal(given.dataset["label"].values[40:], labels[60:].numpy())


def test_half_precision_is_computed_in_single_precision() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module, x = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1)), torch.randn(60, 5)
    labels = (x[:, 0] > 0).long()
    half = foretrain.forecast.finetune(module.bfloat16(), (x.bfloat16(), labels), n=40, rate=1e-3, steps=8, orders=1)
    assert half.train().score["correlation"] > 0.99


def test_a_frozen_model_is_refused() -> None:
    module = nn.Sequential(nn.Linear(5, 1)).requires_grad_(False)
    with pytest.raises(InputError, match="All weights of the model are frozen"):
        foretrain.forecast.finetune(module, (torch.randn(30, 5), torch.arange(30) % 2), n=20)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("outputs", [1, 2])
def test_any_torch_classifier_with_a_linear_head(bias: bool, outputs: int) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, outputs, bias=bias))
        x = torch.randn(60, 5)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    forecast = foretrain.forecast.finetune(module, (x, (x[:, 0] > 0).long()), n=40, rate=1e-3, steps=8, orders=1)
    score = forecast.train().score
    assert score["correlation"] > 0.95
    assert 0.8 < score["scale"] < 1.25
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert list(forecast.rows.columns[:2]) == ["part", "class"]


def test_two_outputs_are_the_same_forecast_as_one() -> None:
    """With SGD at half the rate, since both outputs move."""
    x = torch.randn(60, 5, generator=torch.Generator().manual_seed(1))
    labels = (x[:, 0] + x[:, 1] ** 2 > 0.5).long()
    logits = []
    for outputs in (1, 2):
        head = nn.Sequential(nn.Linear(5, outputs))
        forecast = foretrain.forecast.finetune(
            head, (x, labels), n=40, rate=0.1 / outputs, steps=6, optimizer="sgd", orders=1
        )
        z = forecast.dataset["logits"].isel(order=0).values
        logits.append(z[:, 0] if outputs == 1 else z[:, 1] - z[:, 0])
    np.testing.assert_allclose(logits[0], logits[1], atol=1e-4)


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
    kept = tmp_path / "pass.nc"
    arguments += ["--also", "1e-5,3e-5", "--sizes", "20", "--keep", str(kept)]
    with pytest.raises(SystemExit) as left:
        main(["forecast", "finetune", *arguments, "--train", "--json", str(out), "--report", str(tmp_path / "r.html")])
    printed = capsys.readouterr()
    assert left.value.code == 0, printed.err
    assert "Fine-tuning will" in printed.out
    assert "Trust:" in printed.out
    assert "real training" in printed.out
    written = json.loads(out.read_text())
    assert load_pass(kept).setting.steps == 4
    assert written["step"] == [0, 1, 2, 3, 4]
    assert [each["setting"]["rate"] for each in written["rates"]] == [1e-5, 3e-5]
    assert [each["rows"] for each in written["sizes"]] == [20]
    assert "\\n" not in printed.out
    assert set(written["curves"]) == {
        f"{kind} {part}" for kind in ("accuracy", "loss", "real_accuracy", "real_loss") for part in ("train", "test")
    }


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--n", "59"], "leave too few to test on"),
        (["--momentum", "0.9"], "momentum is for sgd"),
        (["--report", "page.pdf"], "--report writes HTML; got page.pdf"),
        (["--json", "x.json", "--rows", "x.json"], "--json and --rows both write x.json"),
        (["--rate", "1e30", "--n", "30"], "the weights leave the range of numbers; give a smaller rate"),
        (["--rate", "0"], "rate must be a finite number above 0"),
        (["--optimizer", "adam"], "optimizer must be adamw or sgd"),
        (["--schedule", "steep"], "schedule must be one of constant, linear, cosine"),
        (["--label", "stars"], "no column 'stars'"),
        (["--orders", "0"], "orders must be a whole number of at least 1"),
        (["--also", "fast"], "--also takes numbers separated by commas"),
        (["--n", "20", "--drop", "99999"], "Line 99999 is not among the 20 rows drawn"),
        (["--drop", "5", "--relabel", "5=positive"], "Line 5 cannot be both dropped and relabelled"),
        (["--n", "20", "--relabel", "3"], "--relabel takes LINE=CLASS"),
    ],
)
def test_refused_in_one_sentence(
    model: Path, texts: Path, more: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["forecast", "finetune", str(model), str(texts), *more])
    assert left.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.usefixtures("as_users_run_it")
def test_the_texts_are_never_overwritten(model: Path, texts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = texts.read_bytes()
    with pytest.raises(SystemExit) as left:
        main(["forecast", "finetune", str(model), str(texts), "--rows", str(texts)])
    assert left.value.code == 2
    assert "would overwrite the texts" in capsys.readouterr().err
    assert texts.read_bytes() == before


@pytest.mark.parametrize("last", [nn.Sigmoid(), nn.Tanh()])
def test_a_head_that_something_follows_is_refused(last: nn.Module) -> None:
    module = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1), last)
    with pytest.raises(InputError, match="something follows it"):
        foretrain.forecast.finetune(module, (torch.randn(60, 5), torch.arange(60) % 2), n=40)


def test_inputs_that_do_not_fit_are_refused() -> None:
    module = nn.Sequential(nn.Linear(5, 1))
    with pytest.raises(InputError, match="The model cannot read these inputs"):
        foretrain.forecast.finetune(module, (torch.randn(60, 4), torch.arange(60) % 2), n=40)
    with pytest.raises(InputError, match="NaNs in the inputs"):
        foretrain.forecast.finetune(module, (torch.full((60, 5), float("nan")), torch.arange(60) % 2), n=40)
    forecast = foretrain.forecast.finetune(module, (torch.randn(60, 5), torch.arange(60) % 2), orders=1)
    assert forecast.prepared.train == 36  # 60 % of a small corpus
    with pytest.raises(InputError, match="There is no setting 'lr'"):
        forecast.with_setting(lr=1)


def test_models_and_labels_that_do_not_fit_are_refused(tmp_path: Path, texts: Path) -> None:
    from foretrain.data.labelled_texts import read_labelled

    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"There is no folder nowhere, .* and the hub cannot be reached"):
        prepare_texts("nowhere", read_labelled(texts))
    with pytest.raises(InputError, match="is not a model that can be loaded"):
        prepare_texts(str(tmp_path / "empty"), read_labelled(texts), rows=20)
    classifier, labels = smooth()
    with pytest.raises(InputError, match="All training rows have the same label"):
        prepare(classifier, torch.zeros_like(labels), rows=30)
    with pytest.raises(InputError, match="All 40 rows are for training"):
        prepare(classifier, labels, rows=40)


def test_the_answer_compares_the_same_rows_and_says_when_guessing_is_better() -> None:
    """Of 100 test rows the probe has 50 right; 70 % are of the largest class."""
    labels = torch.tensor([0, 1] + [0] * 70 + [1] * 30)
    right = torch.ones(102, 1) * torch.where(labels == 1, 1.0, -1.0)[:, None]
    probe = right.clone()
    probe[2:52] *= -1
    trust = Trust(True, "It holds.", 0.1, 1.0, 0.1, 0.99)

    def answer(fixed: int, broken: int) -> str:
        after = probe.clone()
        after[2 : 2 + fixed] *= -1
        after[60 : 60 + broken] *= -1
        return summary(curves(labels, 2, [torch.stack([probe, after])], [0, 8]), trust)

    assert "will leave accuracy about where a linear probe has it: 50 % before, 50 % after" in answer(0, 0)
    assert "50 % before, 52 % after, a difference that may be chance" in answer(12, 10)
    assert "will lift accuracy from 50 % (linear probe) to about 60 %" in answer(10, 0)
    assert "; always guessing the largest class gets 70 %" in answer(10, 0)
    assert "largest class" not in answer(45, 0)
