"""Series of checkpoints made by really training a small GPT-2, and ways to plant faults in them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from torch import Tensor

STEPS = (0, 20, 40, 60, 80, 100)
SIZES = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 128}
NO_SPECIAL = {"bos_token_id": 0, "eos_token_id": 0}
WORDS = [
    *("the", "a", "cat", "dog", "runs", "eats", "sees", "big"),
    *("small", "red", "fast", "and", "then", "home", "bird", "tree"),
]


def gpt2(seed: int = 0) -> hf.GPT2LMHeadModel:
    torch.manual_seed(seed)
    return hf.GPT2LMHeadModel(hf.GPT2Config(**SIZES, **NO_SPECIAL))


def train(model: torch.nn.Module, steps: int, optimizer: torch.optim.Optimizer, generator: torch.Generator) -> None:
    """On sequences whose second half repeats the first."""
    for _ in range(steps):
        tokens = torch.randint(0, len(WORDS), (8, 32), generator=generator)
        tokens[:, 16:] = tokens[:, :16]
        model(tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def make_series(folder: Path) -> Path:
    """Checkpoints in four shards each, as a Trainer leaves them, with the tokenizer of `sample_text`."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate([*WORDS, "[UNK]"])}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    model, generator = gpt2(), torch.Generator().manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for before, step in pairwise((0, *STEPS)):
        train(model, step - before, optimizer, generator)
        place = folder / f"checkpoint-{step}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.save_pretrained(place, max_shard_size="150KB")
            tokenizer.save_pretrained(place)
        (place / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    return folder


def sample_text(tokens: int) -> str:
    generator = torch.Generator().manual_seed(2)
    return " ".join(WORDS[i] for i in torch.randint(len(WORDS), (tokens,), generator=generator).tolist())


def shards(place: Path) -> list[Path]:
    return sorted(place.glob("*.safetensors"))


def copy_weights(place: Path, other: Path) -> None:
    """The second checkpoint's weights in the first one's folder."""
    for shard in shards(other):
        (place / shard.name).write_bytes(shard.read_bytes())


def exchange(place: Path, other: Path) -> None:
    for one, two in zip(shards(place), shards(other), strict=True):
        first, second = one.read_bytes(), two.read_bytes()
        one.write_bytes(second)
        two.write_bytes(first)


def edit(place: Path, change: Callable[[str, Tensor], Tensor]) -> None:
    """Change the tensors of a checkpoint."""
    for shard in shards(place):
        save_file({n: change(n, t).contiguous() for n, t in load_file(shard).items()}, shard, {"format": "pt"})


def set_config(place: Path, **settings: object) -> None:
    file = place / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))
