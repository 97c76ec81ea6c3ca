"""Trains one small model, measured by the monitor, and keeps what the benchmark needs in one small file."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.early_warnings.model import SmallGPT
from benchmarks.early_warnings.settings import EVERY, STEPS, Setting
from foretrain.core.files import write_text
from foretrain.core.streams import stream
from foretrain.monitor.monitor import Monitor

CONTEXT, BATCH = 64, 8
Run = dict[str, Any]


def read_text(path: Path | None) -> bytes:
    return made_up_text() if path is None else path.read_bytes()


def made_up_text(words: int = 200_000) -> bytes:
    """Sentences over 500 made-up words with Zipf's frequencies; each word is followed most often by one of three."""
    random = stream("benchmarks/early_warnings", "text")
    letters = random.choice(list("eeettaaooinnshrdlu"), (500, 9))
    lengths = random.integers(2, 9, 500)
    vocabulary = ["".join(row[:length]) for row, length in zip(letters, lengths, strict=True)]
    weights = 1 / (1 + random.permutation(500))
    drawn = random.choice(500, words, p=weights / weights.sum())
    followers, follow, which = (
        random.integers(0, 500, (500, 3)),
        random.random(words) < 0.6,
        random.integers(0, 3, words),
    )
    for i in range(1, words):
        if follow[i]:
            drawn[i] = followers[drawn[i - 1], which[i]]
    return " ".join(vocabulary[word] for word in drawn).encode()


def digest(setting: Setting, text_sha256: str) -> str:
    """Of everything that the run is made from but the code: the same on every machine."""
    inputs = json.dumps([setting.as_json(), STEPS, EVERY, CONTEXT, BATCH], sort_keys=True).encode()
    return hashlib.sha256(inputs + bytes.fromhex(text_sha256)).hexdigest()


def load_or_train(setting: Setting, text: bytes, folder: Path) -> tuple[Run, bool]:
    """A finished run of these settings and this text is read; else it is trained and stored. Whether it was trained."""
    file = folder / f"{setting.name.replace(', ', '_').replace(' ', '-')}.json"
    inputs = digest(setting, hashlib.sha256(text).hexdigest())
    if file.is_file():
        run = json.loads(file.read_text(encoding="utf-8"))
        if run["digest"] == inputs:
            return run, False
    run = {"digest": inputs, **train(setting, text)}
    write_text(file, json.dumps(_short(run), separators=(",", ":")) + "\n")
    return run, True


def train(setting: Setting, text: bytes, steps: int = STEPS) -> Run:
    """The loss and the norm of the whole gradient at every step, and the monitor's records. A loss that is not finite
    ends the run."""
    torch.manual_seed(setting.seed)
    random = torch.Generator().manual_seed(1000 + setting.seed)
    symbols, tokens = torch.frombuffer(bytearray(text), dtype=torch.uint8).long().unique(return_inverse=True)
    model = SmallGPT(
        len(symbols),
        layers=setting.layers,
        context=CONTEXT,
        normed=setting.normed,
        logit_scale=setting.logit_scale,
        bf16_softmax=setting.bf16_softmax,
    )
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, setting.beta2), weight_decay=setting.decay)
    losses, gradients = [], []
    with Monitor(model, every=EVERY) as monitor:
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = setting.rate_at(step)
            loss = _loss(model, tokens, random)
            loss.backward()
            gradients.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), math.inf)))
            optimizer.step()
            optimizer.zero_grad()
            monitor.step(loss=loss)
            losses.append(float(loss.detach()))
            if not math.isfinite(losses[-1]):
                break
    parts = ("step", "loss", "attention", "weights")
    records = [{part: record[part] for part in parts if part in record} for record in monitor.records]
    return {"setting": setting.as_json(), "losses": losses, "gradients": gradients, "records": records}


def _loss(model: SmallGPT, tokens: Tensor, random: torch.Generator) -> Tensor:
    starts = torch.randint(0, len(tokens) - CONTEXT, (BATCH, 1), generator=random)
    batch = tokens[starts + torch.arange(CONTEXT + 1)]
    return F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())


def _short(value: Any) -> Any:
    """With numbers of five digits: a run is then about 200 kB. Infinite numbers and nan stay, as Python writes them."""
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_short(item) for item in value]
    return float(f"{value:.5g}") if isinstance(value, float) and math.isfinite(value) else value
