"""Opens a decoder with its tokenizer: a checkpoint of a training here, a Hugging Face folder, or a name on the hub."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from numpy import ndarray
from torch import nn

from foretrain.core.errors import InputError, require
from foretrain.core.files import read_record
from foretrain.core.quiet import quiet_transformers
from foretrain.language.setting import LanguageSetting
from foretrain.language.state import CHECKPOINTS, SETTING, TOKENIZER, load_model
from foretrain.language.text import UNKNOWN, encode, load_tokenizer

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
CONTEXTS = ("max_position_embeddings", "n_positions", "n_ctx")
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tokenizer_config.json")
NO_LIMIT = 1 << 20


@dataclass(frozen=True)
class Decoder:
    """A language model that can read a text."""

    name: str
    model: nn.Module
    encode: Callable[[str], Int[ndarray, "token"]]
    piece: Callable[[int], str]  # the text of one token
    untrained: Callable[[], nn.Module]  # a new model of the same size with random weights
    longest: int  # tokens that it can read at once

    def pieces(self, tokens: Sequence[int]) -> dict[int, str]:
        """The text of each of these tokens."""
        return {token: self.piece(token) for token in sorted({int(token) for token in tokens})}


def open_decoder(name: str) -> Decoder:
    """The decoder in a folder, or on the hub if there is no such folder."""
    folder = Path(name)
    if folder.is_dir():
        folder = _last_checkpoint(folder)
        if (folder / SETTING).is_file():
            return _own(folder, Path(name).resolve().name)
        require(
            (folder / "config.json").is_file(), f"{folder} is not a model: it has neither config.json nor {SETTING}."
        )
        require(
            any((folder / file).is_file() for file in TOKENIZERS),
            f"There is no tokenizer in {folder}, so it cannot read a text; save the model's tokenizer there.",
        )
    else:
        looks_like_a_path = name.startswith((".", "/", "~")) or name.count("/") > 1
        require(
            not looks_like_a_path and HUB_NAME.fullmatch(name) is not None,
            f"There is no folder {name}; a model on the hub has a name like owner/name.",
        )
    return _hugging_face(name if not folder.is_dir() else str(folder), local=folder.is_dir())


def _last_checkpoint(folder: Path) -> Path:
    """The folder of a training here stands for its last checkpoint."""
    saved = list((folder / CHECKPOINTS).glob("step-*"))
    return max(saved, key=lambda place: int(place.name.removeprefix("step-"))) if saved else folder


def _own(folder: Path, name: str) -> Decoder:
    from foretrain.language.models import build

    record = read_record(folder / SETTING)
    setting = LanguageSetting(**record["setting"])
    file = folder / TOKENIZER
    require(file.is_file(), f"{folder} has no {TOKENIZER}; without it, a text cannot be read.")
    tokenizer = load_tokenizer(file)
    by_words = tokenizer.token_to_id(UNKNOWN) is not None

    def piece(token: int) -> str:
        return f" {tokenizer.id_to_token(token)}" if by_words else tokenizer.decode([token], skip_special_tokens=False)

    return Decoder(
        name,
        load_model(folder).eval(),
        lambda text: encode(tokenizer, text),
        piece,
        lambda: build(setting, int(record["vocabulary"])),
        setting.context,
    )


def _hugging_face(name: str, *, local: bool) -> Decoder:
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise InputError(f"Hugging Face models need transformers; pip install 'foretrain[hf]' ({error}).") from error
    with quiet_transformers():
        model, loaded = _loaded(
            f"{name} cannot be loaded as a decoder",
            lambda: AutoModelForCausalLM.from_pretrained(
                name, local_files_only=local, output_loading_info=True, dtype=torch.float32, trust_remote_code=False
            ),
        )
        missing = sorted(loaded["missing_keys"])
        require(
            not missing, f"{name} lacks {len(missing)} tensors, such as {(missing or [''])[0]}; they would be random."
        )
        tokenizer = _loaded(
            f"The tokenizer of {name} cannot be loaded",
            lambda: AutoTokenizer.from_pretrained(name, local_files_only=local, trust_remote_code=False),
        )

    def piece(token: int) -> str:
        written = str(tokenizer.convert_ids_to_tokens(token))
        return written.replace("▁", " ") if "▁" in written else str(tokenizer.decode([token]))

    def tokens(text: str) -> np.ndarray:
        return np.array(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"], dtype=np.int64)

    def untrained() -> nn.Module:
        with quiet_transformers(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            return AutoModelForCausalLM.from_config(model.config, dtype=torch.float32)

    longest = next((v for key in CONTEXTS if isinstance(v := getattr(model.config, key, None), int)), NO_LIMIT)
    return Decoder(Path(name).name or name, model.eval(), tokens, piece, untrained, longest)


def _loaded(what: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except Exception as error:  # transformers raises many kinds
        reason = str(error).strip().split("\n")[0].removesuffix(".")[:200]
        raise InputError(f"{what} ({type(error).__name__}: {reason}).") from error
