"""Opens a checkpoint, whatever its format: safetensors, files that torch wrote, GGUF. Nothing is ever unpickled."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from torch import Tensor

from foretrain.checkpoints.safetensors_files import INDEX, SafetensorsWeights, shards_in
from foretrain.checkpoints.torch_files import TorchWeights
from foretrain.checkpoints.weights import Unreadable, Weights
from foretrain.core.errors import InputError

TORCH_ENDINGS = (".pt", ".pth", ".ckpt", ".bin")
ENDINGS = (".safetensors", *TORCH_ENDINGS, ".gguf")
PICKLES = (".pkl", ".pickle")
TORCH_INDEX = "pytorch_model.bin.index.json"
NOT_WEIGHTS = ("optimizer", "scheduler", "scaler", "rng_state", "training_args", "random_states", "tok", "adapter", ".")
STATE = "state-"  # with which the name of a training's state begins: weights, and an optimizer's moments beside them
SECOND = "consolidated"  # the same weights once more, under other names


def open_weights(place: Path) -> Weights:
    """The weights in a file or folder. Raises Unreadable, or MissingShards, with a sentence for the user."""
    if place.is_file():
        return _open([place])
    files = weight_files(place)
    parts = [file for file in files if file.suffix == ".safetensors"]
    if (place / INDEX).is_file() or parts:
        named = [file for file in parts if file.name.startswith("model")]
        return SafetensorsWeights(shards_in(place, place / INDEX, named or parts))
    parts = [file for file in files if file.name.startswith("pytorch_model") and file.suffix == ".bin"]
    if (place / TORCH_INDEX).is_file() or parts:
        return TorchWeights(shards_in(place, place / TORCH_INDEX, parts))
    if not files and list(place.glob("adapter_model.*")):
        raise Unreadable(f"{place} holds only an adapter, not a model; merge it into its model and save that.")
    if not files:
        raise Unreadable(f"{place} is not a checkpoint: it has no file of weights ({', '.join(ENDINGS)}).")
    if len(files) > 1:
        listed = ", ".join(file.name for file in files[:3])
        raise Unreadable(f"{place} has several files of weights ({listed}); give one of them, or give each a step.")
    return _open(files)


def weight_files(folder: Path) -> list[Path]:
    """The files of a folder that look like weights: not those of an optimizer, nor what a killed process left."""
    files = [
        file
        for file in sorted(folder.iterdir())
        if file.is_file() and file.suffix in (*ENDINGS, *PICKLES) and not file.name.startswith(NOT_WEIGHTS)
    ]
    files = [file for file in files if not (file.name.startswith(STATE) and file.suffix == ".safetensors")]
    if any(file.name.startswith("model") and file.suffix == ".safetensors" for file in files):
        files = [file for file in files if not file.name.startswith(SECOND)]
    return files


def has_weights(folder: Path) -> bool:
    """Whether a folder has files of weights, or an index that says which it should have."""
    return any((folder / index).is_file() for index in (INDEX, TORCH_INDEX)) or bool(weight_files(folder))


def _open(files: list[Path]) -> Weights:
    ending = files[0].suffix
    if ending == ".safetensors":
        return SafetensorsWeights(files)
    if ending in TORCH_ENDINGS:
        return TorchWeights(files)
    if ending == ".gguf":
        return GGUFWeights(files[0])
    if ending in PICKLES:
        raise Unreadable(f"{files[0]} is a pickle, and reading it could run code; save the weights as safetensors.")
    raise Unreadable(f"{files[0]} is not a checkpoint; files of weights end in {', '.join(ENDINGS)}.")


class GGUFWeights(Weights):
    """The weights of a GGUF file as transformers makes them: the whole model in memory, in float32."""

    def __init__(self, file: Path) -> None:
        model = gguf_model(file)
        self._tensors: dict[str, Tensor] = {name: value.detach() for name, value in model.state_dict().items()}
        self.config = model.config.to_dict()
        super().__init__(dict.fromkeys(self._tensors, file.name))

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]


def gguf_model(file: Path) -> Any:
    """The model in a GGUF file, if transformers can load it."""
    try:
        import gguf  # noqa: F401
        from transformers import AutoModelForCausalLM
    except ImportError as error:
        raise InputError(f"GGUF files need transformers and gguf; install foretrain[hf] ({error}).") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return AutoModelForCausalLM.from_pretrained(
                file.parent, gguf_file=file.name, local_files_only=True, trust_remote_code=False
            )
    except Exception as error:  # whatever transformers raises: the file is not one it can load
        reason = str(error).split("\n")[0][:200]
        raise Unreadable(f"{file} cannot be loaded by transformers ({type(error).__name__}: {reason}).") from error
