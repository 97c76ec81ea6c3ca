"""foretrain analyze and foretrain compare, as they are typed."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import transformers as hf

from checkpoints.series import NO_SPECIAL, SIZES, copy_weights, edit, gpt2, sample_text, shards, train
from foretrain.checkpoints import Comparison, analyze, compare
from foretrain.checkpoints.figures import curves
from foretrain.cli import main
from foretrain.core.errors import InputError
from foretrain.monitor.monitor import Monitor


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


def foretrain(capsys: pytest.CaptureFixture[str], *arguments: object) -> Said:
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert isinstance(left.value.code, int)
    return Said(left.value.code, said.out, said.err)


pytestmark = pytest.mark.usefixtures("as_users_run_it")


def test_a_sound_series(series: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("text.txt").write_text(sample_text(100))
    said = foretrain(capsys, "analyze", series, "--text", "text.txt", "--report", "page.html")
    assert said.code == 0, said.err
    assert said.out.startswith("6 checkpoints from step 0 to 100")
    assert "entropy (nats)" in said.out
    page = Path("page.html").read_text()
    assert all(title in page for title in ("Loss on the text", "Stable rank", "Entropy of attention", "By layer"))
    assert "<li>" not in page
    assert "https://" not in page.replace("https://plot", "").split("<script", 1)[0]


def test_faults_are_exit_code_1(series: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy_weights(series / "checkpoint-40", series / "checkpoint-100")
    said = foretrain(capsys, "analyze", series, "--report", "page.html")
    assert said.code == 1
    found = "One fault in 6 checkpoints (steps 0 to 100): checkpoint-40 has the same weights as checkpoint-100, to the"
    assert " ".join(said.out.split()).startswith(found)
    sentence = "checkpoint-40 has the same weights as checkpoint-100, to the last bit."
    assert f"identical weights: {sentence}" in said.out
    page = Path("page.html").read_text()
    assert page.index(sentence) < page.index("<h2>")


def test_what_cannot_be_read_is_exit_code_2(series: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shards(series / "checkpoint-40")[0].unlink()
    said = foretrain(capsys, "analyze", series, "--json")
    assert said.code == 2
    content = json.loads(said.out)
    assert content["complete"] is False
    assert content["summary"].startswith("Incomplete: 1 of 6")
    assert [fault["kind"] for fault in content["faults"]] == ["missing shards"]
    assert len(content["records"]) == 5
    said = foretrain(capsys, "analyze", series / "checkpoint-40")
    assert (said.code, said.out) == (2, "")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["absent/folder/model"], "There is no file or folder absent/folder/model"),
        (["out", "--context", "5"], "--context is for --text"),
        (["out", "--text", "absent.txt"], "--text absent.txt cannot be read"),
        (["out", "--revisions", "step5"], "--revisions is for models on the hub"),
        (["out", "--heads", "0"], "--heads must be a whole number of at least 1"),
        (["out", "--report", "page.pdf"], "--report writes HTML"),
        (["out", "--checkpoints", "absent"], "--checkpoints absent is not a folder"),
    ],
)
def test_bad_input(series: Path, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = foretrain(capsys, "analyze", *arguments)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert says in said.err


def test_undefined_weights_of_one_model(series: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(series / "checkpoint-60", lambda name, tensor: tensor * torch.inf if "h.1.attn.c_proj.w" in name else tensor)
    said = foretrain(capsys, "analyze", series / "checkpoint-60")
    assert (said.code, said.out) == (2, "")
    assert "checkpoint-60 could not be measured: transformer.h.1.attn.c_proj.weight has" in said.err


def test_two_models(series: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(series / "checkpoint-60", "other")
    name = "transformer.h.1.mlp.c_fc.weight"
    edit(Path("other"), lambda n, tensor: 1.1 * tensor if n == name else tensor)
    said = foretrain(capsys, "compare", series / "checkpoint-60", "other")
    assert said.code == 0, said.err
    assert said.out.startswith("1 of 28 tensors differ, 27 are identical.")
    comparison = compare(series / "checkpoint-60", "other")
    assert isinstance(comparison, Comparison)
    assert comparison.distances[name] == pytest.approx(0.1, rel=1e-4)
    ranks = comparison.stable_ranks[name]
    assert ranks[0] == pytest.approx(ranks[1], rel=1e-4)
    both = json.loads(foretrain(capsys, "compare", series / "checkpoint-60", series / "checkpoint-60", "--json").out)
    assert both["summary"].endswith("have the same weights in all 28 tensors.")
    said = foretrain(capsys, "compare", series / "checkpoint-60", series / "checkpoint-60")
    assert "┃" not in said.out


def test_matrices_come_before_biases(series: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Biases begin at 0, so that their relative distances are huge and say nothing."""
    said = foretrain(capsys, "compare", series / "checkpoint-20", series / "checkpoint-100")
    words = " ".join(said.out.split())
    assert "Of 18 vectors (biases and norms) 18 differ, by" in words
    assert "can differ by more than 100 %" in words
    table = said.out[said.out.index("Distances of matrices") :]
    assert "bias" not in table
    assert "of at most" in table
    assert "The identity's share, mean over heads (chance ±0.016)" in table


def test_two_sizes(series: Path) -> None:
    hf.GPT2LMHeadModel(hf.GPT2Config(**SIZES | {"n_embd": 32}, **NO_SPECIAL)).save_pretrained("small")
    summary = compare(series / "checkpoint-0", "small").summary
    assert "no tensor of the same name and shape" in summary
    assert "28 tensors have the same name but different shapes, such as" in summary
    assert "in common" not in summary


def test_the_page_of_one_model(series: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = foretrain(capsys, "analyze", series / "checkpoint-100", "--report", "page.html")
    assert "checkpoint-100: no faults found." in " ".join(said.out.split())
    assert "of at most 64" in said.out
    page = Path("page.html").read_text()
    assert "out/checkpoint-100</h1>" in page
    assert page.count("heatmap") > 2
    assert all(word not in page for word in ("first step", "at the last step", "dark for the first layers"))


def test_step_0_is_called_0_on_a_logarithmic_axis(series: Path) -> None:
    (series / "checkpoint-20").rename(series / "checkpoint-1")
    for file in series.rglob("trainer_state.json"):
        file.unlink()
    panels = curves({"a": analyze(series).dataset["norm"]}, "matrix", "norm").layout.xaxis
    assert panels.type == "log"
    assert (panels.tickvals[0], panels.ticktext[0]) == (0.5, "0")


def test_two_models_of_different_shape(series: Path) -> None:
    state = gpt2().state_dict()
    state["transformer.wte.weight"] = torch.ones(200, 64)
    del state["lm_head.weight"], state["transformer.ln_f.bias"]
    torch.save({**state, "new": torch.ones(3)}, "other.pt")
    summary = compare(series / "checkpoint-0", "other.pt").summary
    assert "lacks one tensor that the other has: transformer.ln_f.bias." in summary
    assert "transformer.wte.weight has different shapes: [128, 64] and [200, 64]." in summary
    with pytest.raises(InputError, match="is a folder of 6 checkpoints; give one of them"):
        compare(series, "other.pt")


def _run(file: str, rate: float) -> None:
    model = gpt2()
    optimizer, generator = torch.optim.AdamW(model.parameters(), lr=rate), torch.Generator().manual_seed(0)
    monitor = Monitor(model, every=2, file=file)
    for _ in range(7):
        train(model, 1, optimizer, generator)
        monitor.step(loss=float(sum(p.detach().square().sum() for p in model.parameters())))
    monitor.detach()


def test_two_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for name, rate in (("a", 1e-3), ("b", 1e-3), ("c", 3e-3)):
        _run(f"{name}.jsonl", rate)
    assert "a and b are the same at all 4 steps" in foretrain(capsys, "compare", "a.jsonl", "b.jsonl").out
    said = foretrain(capsys, "compare", "a.jsonl", "c.jsonl")
    assert said.code == 0
    assert "a and c differ from step 0 on" in said.out  # the loss is read after the first update
    assert "Entropy (nats) at step 6" in said.out
    assert foretrain(capsys, "compare", "a.jsonl", "absent.jsonl").code == 2
    assert foretrain(capsys, "compare", "a.jsonl", "model").code == 2
