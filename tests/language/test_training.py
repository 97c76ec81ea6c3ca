"""A language model learns; a killed training goes on to the bit; foreign and damaged folders are refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from foretrain.core.errors import DamagedFile, InputError
from foretrain.language.batches import validation_windows
from foretrain.language.made_up import made_up_text
from foretrain.language.models import PostNormEncoder, build, next_token_loss
from foretrain.language.setting import LanguageSetting
from foretrain.language.state import TrainingFolder, load_model
from foretrain.language.text import TokenText, tokenize
from foretrain.language.training import LanguageRun, _own_random_state, make_optimizer, train_language_model
from foretrain.patches.identity import identity_parameters
from foretrain.runs.training_log import read_training

SMALL = LanguageSetting(
    tokens="words", vocabulary=60, layers=2, width=16, heads=2, hidden=32, context=8, batch=8, steps=24, warm_up=4,
    dropout=0.1, rate=1e-2,
)  # fmt: skip
POST_NORM = replace(SMALL, model="post-norm", optimizer="adam", order="sequential")


@cache
def text() -> TokenText:
    return tokenize((made_up_text(4000), made_up_text(800, seed=1)), SMALL)


def train(setting: LanguageSetting, folder: Path) -> LanguageRun:
    return train_language_model(setting, text(), folder, every=5, evaluations=4)


@pytest.mark.parametrize("setting", [SMALL, POST_NORM, replace(SMALL, optimizer="sgd", rate=0.5)])
def test_it_learns_and_keeps_what_it_saw(setting: LanguageSetting, tmp_path: Path) -> None:
    run = train(replace(setting, steps=60), tmp_path / "run")
    losses = run.evaluated.loss.values
    assert losses[0] == pytest.approx(np.log(text().vocabulary), rel=0.1)
    assert losses[-1] < losses[0] - 0.2
    assert run.evaluated.step.values.tolist() == [0, 15, 30, 45, 60]
    assert dict(run.evaluated.sizes) | {"step": 0} == {"step": 0, "layer": 2, "head": 2}
    assert run.watched.step.values.tolist() == list(range(0, 60, 5))
    assert [int(folder.name.split("-")[1]) for folder in run.checkpoints] == [0, 1, 2, 4, 8, 16, 32, 60]


@pytest.mark.parametrize("setting", [SMALL, POST_NORM, replace(SMALL, optimizer="sgd", rate=0.5)])
def test_a_training_in_two_parts_equals_one_in_a_row(setting: LanguageSetting, tmp_path: Path) -> None:
    whole = train(setting, tmp_path / "whole")
    train(replace(setting, steps=10), tmp_path / "parts")
    parts = train(setting, tmp_path / "parts")
    for a, b in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        assert torch.equal(a, b)
    np.testing.assert_array_equal(whole.watched.loss, parts.watched.loss)
    np.testing.assert_array_equal(whole.evaluated.loss[-1], parts.evaluated.loss[-1])
    states = [next((tmp_path / name).glob("state-24.safetensors")).read_bytes() for name in ("whole", "parts")]
    assert states[0] == states[1]


KILLED = """
    import sys
    from dataclasses import replace
    from pathlib import Path
    import foretrain.language.training as training
    from language.test_training import SMALL, text
    training.SAVE_EVERY = 0.0
    training.train_language_model(replace(SMALL, steps=3000), text(), Path(sys.argv[1]), every=5, evaluations=4)
"""


@pytest.mark.slow
def test_kill_9_loses_nothing_but_the_piece_in_hand(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    program = subprocess.Popen([sys.executable, "-c", textwrap.dedent(KILLED), str(folder)], env=environment)
    try:
        ended = time.monotonic() + 60
        while time.monotonic() < ended and not _reached(folder, 20):
            time.sleep(0.05)
    finally:
        program.send_signal(signal.SIGKILL)
        program.wait()
    reached = _reached(folder, 20)
    assert 20 <= reached < 3000
    whole = train(replace(SMALL, steps=reached + 7), tmp_path / "whole")
    continued = train(replace(SMALL, steps=reached + 7), folder)
    for a, b in zip(whole.model.parameters(), continued.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not list(folder.rglob(".*.part"))


def _reached(folder: Path, least: int) -> int:
    try:
        step = int(json.loads((folder / "state.json").read_text())["step"])
    except (OSError, ValueError):
        return 0
    return step if step >= least else 0


def loss_of(model: nn.Module, windows: Tensor) -> float:
    with torch.no_grad():
        return float(next_token_loss(model.eval(), windows))


def test_a_checkpoint_opens_again(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    windows = validation_windows(text().valid, SMALL.context)
    for setting in (SMALL, POST_NORM):
        run = train(replace(setting, steps=4), tmp_path / setting.model)
        expected = loss_of(run.model, windows)
        loaded = load_model(run.checkpoints[-1]).eval()
        assert loss_of(loaded, windows) == expected
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "gpt" / "checkpoints" / "step-4").eval()
    ours = load_model(tmp_path / "gpt" / "checkpoints" / "step-4").eval()
    assert loss_of(theirs, windows) == loss_of(ours, windows)


def test_the_causal_mask_is_on() -> None:
    tokens = torch.randint(0, 60, (1, 8))
    other = tokens.clone()
    other[0, 5] = (other[0, 5] + 1) % 60
    for setting in (SMALL, POST_NORM):
        model = build(setting, 60).eval()
        a, b = (model(t) if isinstance(model, PostNormEncoder) else model(t).logits for t in (tokens, other))
        torch.testing.assert_close(a[:, :5], b[:, :5])
        assert not torch.allclose(a[:, 5:], b[:, 5:])


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def test_foreign_and_damaged_folders_are_refused_and_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(SMALL, folder)
    state = folder / "state-24.safetensors"
    content = bytearray(state.read_bytes())
    content[len(content) // 2] ^= 1
    damaged = tmp_path / "damaged"
    shutil.copytree(folder, damaged)
    (damaged / state.name).write_bytes(bytes(content))
    before = _contents(damaged)
    with pytest.raises(DamagedFile, match="damaged or missing"):
        train(replace(SMALL, steps=30), damaged)
    assert _contents(damaged) == before
    before = _contents(folder)
    with pytest.raises(InputError, match=r"another setting \(rate 0.01 there, 0.02 now\)"):
        train(replace(SMALL, rate=2e-2), folder)
    other = tokenize((made_up_text(4000, seed=5), made_up_text(800)), SMALL)
    with pytest.raises(InputError, match="another text or vocabulary"):
        train_language_model(SMALL, other, folder)
    assert _contents(folder) == before
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match="has other files in it"):
        train(SMALL, tmp_path / "full")
    with pytest.raises(InputError, match="not a checkpoint"):
        load_model(tmp_path)


def test_a_finished_training_is_not_repeated(tmp_path: Path) -> None:
    train(SMALL, tmp_path / "run")
    before = _contents(tmp_path / "run")
    train(SMALL, tmp_path / "run")
    assert _contents(tmp_path / "run") == before


def test_settings_are_checked() -> None:
    for wrong, words in (
        ({"model": "rnn"}, "rnn"), ({"width": 10, "heads": 3}, "multiple of heads"), ({"steps": 0}, "at least 1"),
        ({"dropout": 1.0}, "below 1"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            replace(SMALL, **wrong)


def test_schedules() -> None:
    cosine = LanguageSetting(schedule="cosine", steps=110, warm_up=10, rate=1.0)
    rates = [cosine.learning_rate(step) for step in range(111)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[10] == pytest.approx(1.0)
    assert rates[60] == pytest.approx(0.55)
    assert rates[110] == pytest.approx(0.1)
    assert LanguageSetting(warm_up=0).learning_rate(0) == 3e-3


def test_the_optimizer_s_state_is_complete(tmp_path: Path) -> None:
    run = train(replace(SMALL, steps=3), tmp_path / "run")
    keys = set(load_file(tmp_path / "run" / "state-3.safetensors"))
    names = [name for name, _ in run.model.named_parameters()]
    assert keys == {"losses"} | {f"model/{n}" for n in names} | {
        f"optimizer/{n}/{field}" for n in names for field in ("step", "exp_avg", "exp_avg_sq")
    }


def test_groups_of_the_optimizer() -> None:
    model = build(replace(SMALL, identity_scaling=True), 60)
    groups = make_optimizer(model, replace(SMALL, identity_scaling=True, identity_rate=7.0)).param_groups
    assert [(g["weight_decay"], g["times"]) for g in groups] == [(0.1, 1.0), (0.0, 1.0), (0.0, 7.0)]
    assert all(p.ndim == 2 for p in groups[0]["params"])
    assert all(p.ndim == 1 for p in groups[1]["params"])
    assert sum(len(g["params"]) for g in groups) == len(list(model.parameters()))
    assert len(groups[2]["params"]) == 4


def test_the_rate_of_scalings_and_the_clip_are_used(tmp_path: Path) -> None:
    ends = {}
    for name, more in {
        "slow": {"identity_rate": 1e-9}, "fast": {"identity_rate": 10.0}, "clipped": {"optimizer": "sgd", "clip": 1e-6},
    }.items():  # fmt: skip
        setting = replace(SMALL, identity_scaling=True, steps=4, dropout=0.0, **more)
        start = build(setting, text().vocabulary)
        ends[name] = (start, train(setting, tmp_path / name).model)
    size = {k: max(float(p.detach().abs().max()) for p in identity_parameters(m)) for k, (_, m) in ends.items()}
    assert size["slow"] < 1e-8
    assert size["fast"] > 1e-3
    start, end = ends["clipped"]
    moved = max(float((a - b).detach().abs().max()) for a, b in zip(start.parameters(), end.parameters(), strict=True))
    largest = max(float(p.detach().abs().max()) for p in start.parameters())
    assert moved < 4 * 1e-2 * (
        10 * 1e-6 + 0.1 * largest
    )  # four clipped steps, the scalings' ten times as large, and decay


def test_dropout_differs_from_step_to_step_and_is_repeated_by_a_resumed_training() -> None:
    masks = []
    for step in (3, 4, 3):
        with _own_random_state(SMALL, step, 0):
            masks.append(torch.rand(8))
    assert torch.equal(masks[0], masks[2])
    assert not torch.equal(masks[0], masks[1])


def test_a_training_that_breaks_down_stops_with_a_sentence(tmp_path: Path) -> None:
    broken = replace(SMALL, optimizer="sgd", rate=1e20, warm_up=0, clip=0.0)
    with pytest.raises(InputError, match="no longer a number at step"):
        train(broken, tmp_path / "run")
    assert not read_training(tmp_path / "run" / "run.jsonl")[1]  # not finished


def test_two_trainings_cannot_share_a_folder(tmp_path: Path) -> None:
    with TrainingFolder(tmp_path / "run").locked(True), pytest.raises(InputError, match="Another process is training"):
        train(SMALL, tmp_path / "run")
    train(replace(SMALL, steps=2), tmp_path / "run")
    assert not (tmp_path / "run" / ".lock").exists()
