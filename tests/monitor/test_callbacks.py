"""The callbacks for other trainers: the training is the same to the bit, and steps and losses are the trainer's own."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import pytest
import torch
import transformers as hf
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn import functional as F
from torch.overrides import _get_current_function_mode_stack
from torch.utils.data import DataLoader, Dataset

import foretrain.callbacks
from foretrain.callbacks import HuggingFace, Lightning
from foretrain.core.errors import InputError
from foretrain.runs.training_log import ending_of, read_lines
from monitor.models import DECODERS, NanoGPT

pytestmark = [
    # torch's compiler looks at this attribute itself, and hides the warning unless warnings are errors
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf Tensor:UserWarning"),
    # Lightning makes an object that this torch deprecates
    pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning"),
]
GPT2_LAYERS = ["transformer.h.0.attn", "transformer.h.1.attn"]
OWN_LAYERS = ["net.blocks.0.attention", "net.blocks.1.attention"]


class Texts(Dataset[dict[str, Tensor]]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        tokens = torch.randint(1, 50, (10,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


def nothing_left(model: nn.Module) -> bool:
    hooks = [h for m in model.modules() for h in (*m._forward_hooks.values(), *m._forward_pre_hooks.values())]
    return (
        not hooks
        and not _get_current_function_mode_stack()
        and not any(p._post_accumulate_grad_hooks for p in model.parameters())
    )


class OwnLoss(nn.Module):
    """A model that knows nothing of transformers, and that cannot be told how many tokens a step has."""

    def __init__(self, fails_at: int = -1) -> None:
        super().__init__()
        self.net, self.calls, self.fails_at = NanoGPT(fused=True), 0, fails_at

    def forward(self, input_ids: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        if self.training:
            self.calls += 1
        if self.calls == self.fails_at:
            raise ArithmeticError("as planned")
        logits = self.net(input_ids)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()), logits


def trainer_of(model: nn.Module, folder: Path, callback: HuggingFace | None, **options: Any) -> hf.Trainer:
    settings: dict[str, Any] = {
        "per_device_train_batch_size": 4,
        "max_steps": 7,
        "logging_steps": 1,
        "eval_strategy": "steps",
        "eval_steps": 2,
        "save_strategy": "no",
        "learning_rate": 1e-2,
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
        **options,
    }
    arguments = hf.TrainingArguments(str(folder), **settings)
    callbacks = [] if callback is None else [callback]
    return hf.Trainer(model, arguments, train_dataset=Texts(), eval_dataset=Texts(), callbacks=callbacks)


def losses_of(trainer: hf.Trainer, name: str = "loss") -> list[float]:
    return [line[name] for line in trainer.state.log_history if name in line]


COMPILED = {"torch_compile": True, "torch_compile_backend": "eager"}
TRAININGS: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": (DECODERS["GPT-2"], {}),
    "accumulation": (DECODERS["GPT-2"], {"gradient_accumulation_steps": 2}),
    "accumulation, own loss": (OwnLoss, {"gradient_accumulation_steps": 2}),
    "compiled, accumulation": (DECODERS["GPT-2"], {**COMPILED, "gradient_accumulation_steps": 2}),
}


@pytest.mark.parametrize("case", TRAININGS)
def test_hugging_face(case: str, tmp_path: Path) -> None:
    make, options = TRAININGS[case]
    callback = HuggingFace(every=3, file=tmp_path / "run.jsonl")
    trainers = []
    for watching in (None, callback):
        torch.manual_seed(0)
        trainer = trainer_of(make(), tmp_path, watching, **options)
        trainer.train()
        trainers.append(trainer)
    plain, watched = trainers
    assert losses_of(plain) == losses_of(watched)
    assert losses_of(plain, "eval_loss") == losses_of(watched, "eval_loss")
    parameters = zip(plain.model.parameters(), watched.model.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in parameters)
    assert callback.monitor is not None
    dataset = callback.monitor.dataset()
    assert dataset.step.values.tolist() == [0, 3, 6]
    assert dataset.layer_name.values.tolist() == (OWN_LAYERS if make is OwnLoss else GPT2_LAYERS)
    np.testing.assert_allclose(dataset.loss, np.array(losses_of(watched))[[0, 3, 6]], rtol=1e-6)
    assert bool((dataset.update_ratio > 0).all())
    assert [record["total"] for record in read_lines(tmp_path / "run.jsonl")] == [7, 7, 7]
    assert nothing_left(watched.model)


def test_a_resumed_trainer_goes_on_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    options = {"eval_strategy": "no", "save_strategy": "steps", "save_steps": 4}
    trainer_of(OwnLoss(), tmp_path, HuggingFace(every=2, file=file), **options).train()
    callback = HuggingFace(every=2, file=file)
    trainer_of(OwnLoss(), tmp_path, callback, **options, max_steps=9).train(
        resume_from_checkpoint=str(tmp_path / "checkpoint-4")
    )
    written = [json.loads(line).get("step", "finished") for line in file.read_text().splitlines()]
    assert written == [0, 2, 4, 6, "finished", 4, 6, 8, "finished"]
    assert [record["step"] for record in read_lines(file)] == [0, 2, 4, 6, 8]  # the later ones count
    assert callback.monitor is not None
    assert callback.monitor.dataset().step.values.tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("call", [1, 4])
def test_a_trainer_that_raises_leaves_nothing_that_reads(call: int, tmp_path: Path) -> None:
    model = OwnLoss(fails_at=call)  # in a forward pass that is measured, and in one that is not
    callback = HuggingFace(every=2)
    trainer = trainer_of(model, tmp_path, callback)
    with pytest.raises(ArithmeticError, match="as planned"):
        trainer.train()
    assert not _get_current_function_mode_stack()
    counter = CompileCounterWithBackend("eager")
    torch.compile(lambda x: x + 1, backend=counter)(torch.ones(1))
    assert counter.frame_count == 1, "the compiler is still switched off"
    with callback:
        pass
    assert nothing_left(model)
    trainer.train()  # does not raise at a later call
    assert callback.monitor is not None
    assert len(callback.monitor.records) == 4
    assert nothing_left(model)


class Module(lightning.LightningModule):
    """Calls a part of itself, and never itself: hooks on the module would see nothing."""

    def __init__(self, fails_at: int = -1) -> None:
        super().__init__()
        self.net, self.drop, self.fails_at = NanoGPT(fused=True), nn.Dropout(0.1), fails_at
        self.losses: list[float] = []

    def training_step(self, batch: dict[str, Tensor], index: int) -> Tensor:
        if index == self.fails_at:
            raise ArithmeticError("as planned")
        tokens = batch["input_ids"]
        loss = F.cross_entropy(self.drop(self.net(tokens[:, :-1])).flatten(0, 1), tokens[:, 1:].flatten())
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch: dict[str, Tensor], index: int) -> None:
        self.net(batch["input_ids"])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


class ByHand(Module):
    """Two updates of the weights for every batch."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: dict[str, Tensor], index: int) -> Tensor:
        optimizer, loss = self.optimizers(), super().training_step(batch, index)
        self.manual_backward(loss)
        optimizer.step()  # type: ignore[union-attr]
        optimizer.step()  # type: ignore[union-attr]
        optimizer.zero_grad()  # type: ignore[union-attr]
        return loss


def fit(
    module: lightning.LightningModule,
    callback: Lightning | None,
    folder: Path,
    *,
    checkpoint: Path | None = None,
    batch: int = 4,
    **options: Any,
) -> lightning.Trainer:
    settings: dict[str, Any] = {"max_steps": 7, "val_check_interval": 3, "limit_val_batches": 1, **options}
    trainer = lightning.Trainer(
        accelerator="cpu",
        callbacks=callback,
        default_root_dir=folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        **settings,
    )
    data, validation = DataLoader(Texts(), batch_size=batch), DataLoader(Texts(), batch_size=batch)
    trainer.fit(module, data, validation, ckpt_path=checkpoint)
    return trainer


@pytest.mark.parametrize("accumulate", [1, 2])
def test_lightning(accumulate: int, tmp_path: Path) -> None:
    callback = Lightning(every=3, file=tmp_path / "run.jsonl")
    modules = []
    for watching in (None, callback):
        torch.manual_seed(0)
        modules.append(module := Module())
        fit(module, watching, tmp_path, accumulate_grad_batches=accumulate)
    plain, watched = modules
    assert plain.losses == watched.losses
    parameters = zip(plain.parameters(), watched.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in parameters)
    assert callback.monitor is not None
    dataset = callback.monitor.dataset()
    assert dataset.step.values.tolist() == [0, 3, 6]
    assert dataset.layer_name.values.tolist() == OWN_LAYERS
    losses = np.array(watched.losses).reshape(7, accumulate).mean(1)
    np.testing.assert_allclose(dataset.loss, losses[[0, 3, 6]], rtol=1e-6)
    assert bool((dataset.update_ratio > 0).all())
    assert [record["total"] for record in read_lines(tmp_path / "run.jsonl")] == [7, 7, 7]
    assert nothing_left(watched)


def test_lightning_with_updates_by_hand_counts_as_lightning_does(tmp_path: Path) -> None:
    callback = Lightning(every=3)
    trainer = fit(module := ByHand(), callback, tmp_path)
    assert callback.monitor is not None
    assert callback.monitor.steps == trainer.global_step == 8
    dataset = callback.monitor.dataset()
    assert dataset.step.values.tolist() == [0, 6]
    np.testing.assert_allclose(dataset.loss, np.array(module.losses)[[0, 3]], rtol=1e-6)


def test_a_resumed_lightning_training_goes_on_with_the_file(tmp_path: Path) -> None:
    file, checkpoint = tmp_path / "run.jsonl", tmp_path / "step4.ckpt"
    epoch = {"batch": 16, "max_steps": 4}
    fit(Module(), Lightning(every=2, file=file), tmp_path, **epoch).save_checkpoint(checkpoint)
    callback = Lightning(every=2, file=file)
    fit(Module(), callback, tmp_path, checkpoint=checkpoint, batch=16, max_steps=7)
    assert [record["step"] for record in read_lines(file)] == [0, 2, 4, 6]


@pytest.mark.parametrize("batch", [0, 1])
def test_lightning_leaves_nothing_behind_if_training_raises(batch: int, tmp_path: Path) -> None:
    module, callback = Module(fails_at=batch), Lightning(every=2)
    with pytest.raises(ArithmeticError, match="as planned"):
        fit(module, callback, tmp_path)
    assert nothing_left(module)
    assert callback.monitor is not None
    assert len(callback.monitor.records) == batch


def test_lightning_is_taken_under_the_name_that_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    from foretrain.callbacks.lightning import _library

    other = types.ModuleType("pytorch_lightning")
    other.Callback = type("Callback", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pytorch_lightning", other)
    assert _library().Callback is lightning.Callback
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    assert _library().Callback is other.Callback
    monkeypatch.delitem(sys.modules, "lightning.pytorch")
    assert _library().Callback is other.Callback


def test_the_libraries_are_loaded_on_first_use() -> None:
    program = (
        "import sys, foretrain; foretrain.callbacks; print({'torch', 'transformers', 'lightning'} & set(sys.modules))"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "set()"
    with pytest.raises(AttributeError, match="no attribute 'Keras'"):
        _ = foretrain.callbacks.Keras


@pytest.mark.parametrize(
    ("name", "module", "libraries", "sentence"),
    [
        ("HuggingFace", "hugging_face", ["transformers"], r"needs transformers; pip install 'foretrain\[hf\]'\."),
        (
            "Lightning",
            "lightning",
            ["lightning.pytorch", "pytorch_lightning"],
            r"needs lightning; pip install lightning\.",
        ),
    ],
)
def test_a_missing_library_is_named(
    name: str, module: str, libraries: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, f"foretrain.callbacks.{module}")
    for library in libraries:
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError, match=rf"^foretrain\.callbacks\.{name} {sentence}$"):
        getattr(foretrain.callbacks, name)


@pytest.mark.parametrize("callback", [HuggingFace, Lightning])
def test_a_bad_setting_is_refused_before_training(callback: Any) -> None:
    with pytest.raises(InputError, match="every must be a whole number"):
        callback(every=0)


class Diverging(OwnLoss):
    """Its loss is not a number from the fourth step on."""

    def forward(self, input_ids: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        loss, logits = super().forward(input_ids, labels)
        return loss * (torch.nan if self.calls > 3 else 1.0), logits


def test_the_loss_of_every_step_is_kept(tmp_path: Path) -> None:
    callback = HuggingFace(every=3)
    trainer = trainer_of(OwnLoss(), tmp_path, callback, gradient_accumulation_steps=2)
    trainer.train()
    assert callback.monitor is not None
    steps = callback.monitor.every_step()
    assert steps.step.values.tolist() == list(range(7))
    logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    np.testing.assert_allclose(steps.loss, logged, rtol=1e-3)  # which the Trainer rounds


@pytest.mark.parametrize("make", [HuggingFace, Lightning])
def test_an_option_that_does_not_exist_is_named_before_the_training(make: Any) -> None:
    with pytest.raises(InputError, match="'evry'; the nearest names are every"):
        make(evry=5)


def test_an_alarm_ends_a_training_of_hugging_face(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    callback = HuggingFace(every=1, file=tmp_path / "run.jsonl", stop_on={"not a number"})
    trainer = trainer_of(Diverging(), tmp_path, callback, eval_strategy="no")
    trainer.train()
    assert trainer.state.global_step == 4
    assert "The training ends here, as stop_on asks for: not a number in loss at step 3" in caplog.text
    assert ending_of(tmp_path / "run.jsonl")["error"] == "the alarm 'not a number'"
    going_on = trainer_of(Diverging(), tmp_path, HuggingFace(every=1, stop_on={"entropy"}), eval_strategy="no")
    going_on.train()
    assert going_on.state.global_step == 7


def test_an_alarm_ends_a_training_of_lightning(tmp_path: Path) -> None:
    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = Diverging()

        def training_step(self, batch: dict[str, Tensor], _: int) -> Tensor:
            return self.model(**batch)[0]

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    callback = Lightning(every=1, stop_on={"not"})
    trainer = lightning.Trainer(
        max_steps=7, callbacks=[callback], accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(Module(), DataLoader(Texts(), batch_size=4))
    assert trainer.global_step == 4
    assert callback.monitor is not None
    assert all("gradient_norm" in record for record in callback.monitor.records[:3])


@pytest.mark.parametrize("make", [HuggingFace, Lightning])
def test_an_alarm_that_does_not_exist_is_named(make: Any) -> None:
    with pytest.raises(InputError, match="stop_on has no alarm 'lost'; there are loss above its least, "):
        make(stop_on={"lost"})
