"""The state of a training on disk: what it needs to go on to the bit after being killed, and its checkpoints.

setting.json             what is trained, sealed; a folder belongs to one setting and one text
tokenizer.json           the vocabulary
state.json               which step the training has reached, sealed, with the digest of the file beside it
state-STEP.safetensors   weights, optimizer, losses
checkpoints/step-STEP/   weights for analysis, in the format of the Hugging Face hub
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from torch import Tensor, nn

from foretrain.core.errors import DamagedFile, InputError, require
from foretrain.core.files import read_record, remove_abandoned, sha256_of, write_bytes, write_record, write_text
from foretrain.language.setting import LanguageSetting

SETTING, STATE, TOKENIZER, CHECKPOINTS = "setting.json", "state.json", "tokenizer.json", "checkpoints"
LOCK = ".lock"
FORMAT = "foretrain-language-1"


@dataclass(frozen=True)
class TrainingFolder:
    """The folder of one training."""

    path: Path

    @contextmanager
    def locked(self, wanted: bool) -> Iterator[None]:
        """Keep other trainings out of the folder; only the first of several processes asks."""
        if not wanted:
            yield
            return
        was_there = self.path.is_dir()
        lock = FileLock(self.path / LOCK, timeout=0)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout as error:  # whoever finds it taken leaves the folder, and the lock, alone
            message = f"Another process is training in {self.path}; wait for it, or give another folder."
            raise InputError(message) from error
        except OSError as error:
            raise InputError(f"Cannot lock {self.path}: {error.strerror}; choose another place.") from error
        try:
            yield
        finally:
            (self.path / LOCK).unlink(missing_ok=True)  # while it is held: the next one makes a lock of its own
            lock.release()
            if not was_there and self.path.is_dir() and not any(self.path.iterdir()):
                self.path.rmdir()  # refused before anything was written

    def require_own(self, setting: LanguageSetting, text_digest: str) -> None:
        """Refuse a folder that has other files in it, or a training with another setting or text."""
        file = self.path / SETTING
        remove_abandoned(self.path, SETTING)  # by a process that was killed when it had just begun
        if file.exists():
            _require_same(read_record(file), _identity(setting, text_digest), self.path)
        elif self.path.exists() and any(path.name != LOCK for path in self.path.iterdir()):
            raise InputError(
                f"{self.path} has other files in it; give an empty folder, or one of a training to go on with."
            )

    def begin(self, setting: LanguageSetting, text_digest: str, tokenizer: str) -> None:
        """Write down what is trained here, and clear up after a killed process."""
        remove_abandoned(self.path)
        for part in (self.path / CHECKPOINTS).glob(".*.part"):
            shutil.rmtree(part, ignore_errors=True)
        write_record(self.path / SETTING, _identity(setting, text_digest))
        write_text(self.path / TOKENIZER, tokenizer)

    def save(self, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, losses: Tensor) -> None:
        """Everything the training needs to go on from here. The previous state is deleted last."""
        from safetensors.torch import save

        name = f"state-{step}.safetensors"
        tensors: dict[str, Tensor] = {f"model/{key}": value.detach() for key, value in model.named_parameters()}
        tensors |= {f"optimizer/{key}": value for key, value in _optimizer_tensors(model, optimizer).items()}
        tensors["losses"] = losses
        content = save({key: value.detach().cpu().contiguous() for key, value in tensors.items()})
        write_bytes(self.path / name, content)
        digest = hashlib.sha256(content).hexdigest()
        write_record(self.path / STATE, {"format": FORMAT, "step": step, "file": name, "file_sha256": digest})
        self._remove_states(but=name)

    def _remove_states(self, but: str) -> None:
        for old in self.path.glob("state-*.safetensors"):
            if old.name != but:
                old.unlink(missing_ok=True)

    def tidy(self, step: int) -> None:
        """Clear up after a process that was killed when it had just reached its last step."""
        remove_abandoned(self.path)
        self._remove_states(but=f"state-{step}.safetensors")

    def restore(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[int, Tensor]:
        """The step the training has reached and the losses so far, after putting its state back; 0 for a new one."""
        from safetensors.torch import load_file

        if not (self.path / STATE).exists():
            return 0, torch.zeros(0, dtype=torch.float64)
        record = read_record(self.path / STATE)
        file = self.path / str(record["file"])
        whole = file.parent == self.path and file.is_file() and sha256_of(file) == record["file_sha256"]
        if not whole:
            raise DamagedFile(
                f"{file} is damaged or missing, so the training cannot go on; give another folder to start again."
            )
        tensors = load_file(file)
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                parameter.copy_(tensors[f"model/{key}"])
        _restore_optimizer(model, optimizer, tensors)
        return int(record["step"]), tensors["losses"]

    def save_checkpoint(self, step: int, model: nn.Module, setting: LanguageSetting) -> Path:
        """Weights for analysis, whole or not at all."""
        folder = self.path / CHECKPOINTS / f"step-{step}"
        if folder.is_dir():
            return folder
        part = folder.with_name(f".{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        if (self.path / TOKENIZER).is_file():
            shutil.copy(self.path / TOKENIZER, part / TOKENIZER)
        _save_model(part, model, setting)
        part.rename(folder)
        return folder


def reached(folder: Path) -> int:
    """The step that the training in a folder has reached; 0 if there is none."""
    file = folder / STATE
    return int(read_record(file)["step"]) if file.is_file() else 0


def load_model(folder: Path) -> nn.Module:
    """The model of a checkpoint that a training here has saved."""
    from safetensors.torch import load_file

    file = folder / SETTING
    require(file.is_file(), f"{folder} is not a checkpoint of a training here: it has no {SETTING}.")
    record = read_record(file)
    for name, digest in record.get("files", {}).items():  # earlier versions kept no digests
        if not (folder / name).is_file() or sha256_of(folder / name) != digest:
            raise DamagedFile(f"{folder / name} is damaged or missing; train again, or use another checkpoint.")
    from foretrain.language.models import build

    model = build(LanguageSetting(**record["setting"]), int(record["vocabulary"]))
    tensors = load_file(folder / "model.safetensors")
    missing = model.load_state_dict(tensors, strict=False).missing_keys
    absent = [name for name in missing if not name.endswith("lm_head.weight")]  # tied to the embedding
    require(not absent, f"{folder} has no weights for {', '.join(absent[:3])}.")
    return model


def _save_model(folder: Path, model: nn.Module, setting: LanguageSetting) -> None:
    """Weights, configuration and setting, so that transformers can open a model of its own, and `load_model` any.

    The setting holds the digests of all files that are in the folder by then.
    """
    from safetensors.torch import save

    tensors = {name: value.detach().cpu().contiguous() for name, value in model.named_parameters()}  # tied ones once
    write_bytes(folder / "model.safetensors", save(tensors, metadata={"format": "pt"}))
    vocabulary = int(next(value for name, value in tensors.items() if "wte" in name or "tokens" in name).shape[0])
    config: Any = getattr(model, "config", None)
    if config is not None:
        config.save_pretrained(folder)
    else:
        own = {"model_type": "foretrain-post-norm", "vocab_size": vocabulary, "num_attention_heads": setting.heads,
               "num_hidden_layers": setting.layers, "hidden_size": setting.width,
               "intermediate_size": setting.hidden, "max_position_embeddings": setting.context}  # fmt: skip
        write_bytes(folder / "config.json", json.dumps(own, indent=1).encode())
    digests = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
    record = {"format": FORMAT, "setting": setting.as_dict(), "vocabulary": vocabulary, "files": digests}
    write_record(folder / SETTING, record)


def _identity(setting: LanguageSetting, text_digest: str) -> dict[str, Any]:
    return {"format": FORMAT, "setting": setting.as_dict(), "text": text_digest}


def _require_same(old: dict[str, Any], new: dict[str, Any], path: Path) -> None:
    if old.get("format") != FORMAT:
        raise InputError(f"{path} is not a training of this version; give another folder.")
    if old["text"] != new["text"]:
        raise InputError(f"{path} was trained on another text or vocabulary; give another folder, or the same text.")
    changed = [k for k, v in new["setting"].items() if k != "steps" and old["setting"].get(k) != v]
    if changed:
        differences = ", ".join(f"{key} {old['setting'].get(key)} there, {new['setting'][key]} now" for key in changed)
        raise InputError(f"{path} is a training with another setting ({differences}); give another folder.")
    if old["setting"].get("steps") != new["setting"]["steps"] and new["setting"]["schedule"] != "constant":
        raise InputError(f"{path} has a cosine schedule of {old['setting']['steps']} steps, which cannot be extended.")


def _optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Every tensor of the optimizer's state, by the parameter's name."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {
        f"{names[id(parameter)]}/{key}": value
        for parameter, state in optimizer.state.items()
        for key, value in state.items()
        if isinstance(value, Tensor)
    }


def _restore_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    for key, value in tensors.items():
        if key.startswith("optimizer/"):
            name, _, field = key.removeprefix("optimizer/").rpartition("/")
            place = parameters[name]  # a step keeps its number type; a fused optimizer wants it beside the parameter
            kept = value.to(place.device).clone() if field == "step" else value.to(place).clone()
            optimizer.state[parameters[name]][field] = kept
