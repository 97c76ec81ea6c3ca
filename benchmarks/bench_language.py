"""Training a small language model here against a plain loop on the same model and data, and what scalings cost."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch import nn

from benchmarks import Measured
from foretrain.core.streams import stream
from foretrain.core.workers import single_threaded
from foretrain.language.batches import training_batch
from foretrain.language.models import build, next_token_loss
from foretrain.language.setting import LanguageSetting
from foretrain.language.text import TokenText, byte_pair_tokenizer
from foretrain.language.training import train_language_model
from foretrain.patches.identity import add_identity_scaling

SETTING = LanguageSetting(vocabulary=8192)
STEPS = 10, 40
ROUNDS = 3


def measure() -> Iterator[Measured]:
    with single_threaded():
        yield _training()
        yield _scalings()


def _text() -> TokenText:
    """Random tokens: what they are does not matter here."""
    tokens = stream("bench/language").integers(0, SETTING.vocabulary, 100_000)
    tokenizer = byte_pair_tokenizer("a b c\n", 300)
    tokenizer.add_tokens([f"token{k}" for k in range(SETTING.vocabulary - tokenizer.get_vocab_size())])
    return TokenText(tokenizer, tokens, tokens[:5000], "benchmark")


def _training() -> Measured:
    """A step of a training here, with its monitor and its saved states, against one of a loop as in the examples of
    transformers with torch's default AdamW. Each is the difference between a long and a short training, so that what
    is done once (building the model, the evaluations before and after, the first measurement) does not count."""
    text, ours, theirs = _text(), [], []
    for _ in range(ROUNDS):
        ours.append(_per_step(lambda setting: _ours(setting, text)))
        theirs.append(_per_step(lambda setting: _plain_loop(setting, text)))
    detail = f"{1 / median(ours):.2f} steps per CPU second against {1 / median(theirs):.2f}"
    return Measured("training a language model, over a plain loop", median(theirs) / median(ours), 1, detail=detail)


def _per_step(train: Callable[[LanguageSetting], None]) -> float:
    short, long = (_cpu(lambda steps=steps: train(replace(SETTING, steps=steps))) for steps in STEPS)  # type: ignore[misc]
    return (long - short) / (STEPS[1] - STEPS[0])


def _ours(setting: LanguageSetting, text: TokenText) -> None:
    with tempfile.TemporaryDirectory() as folder:
        train_language_model(setting, text, Path(folder) / "run", evaluations=1, checkpoints=False)


def _plain_loop(setting: LanguageSetting, text: TokenText) -> None:
    model = build(setting, text.vocabulary)
    optimizer = torch.optim.AdamW(model.parameters(), lr=setting.rate)
    model.train()
    for step in range(setting.steps):
        tokens = training_batch(text.train, setting, step)[:, :-1].contiguous()
        loss = model(tokens, labels=tokens).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def _scalings() -> Measured:
    """One step of a GPT-2-type model with 256 tokens, with and without scalings, in turn."""
    setting = replace(SETTING, context=256, width=256, layers=4, heads=8, hidden=1024, batch=8, vocabulary=2048)
    plain, scaled = build(setting, 2048), add_identity_scaling(build(setting, 2048))
    tokens = torch.from_numpy(np.asarray(stream("bench/scalings").integers(0, 2048, (8, 257))))
    times: dict[str, list[float]] = {"plain": [], "scaled": []}
    for repeat in range(ROUNDS + 1):
        for name, model in (("plain", plain), ("scaled", scaled)):
            spent = _cpu(lambda model=model: next_token_loss(model, tokens).backward())  # type: ignore[misc]
            if repeat > 0:
                times[name].append(spent)
    ratio = median(times["scaled"]) / median(times["plain"])
    detail = f"{median(times['scaled']):.3f} s against {median(times['plain']):.3f} s for a step, 256 tokens"
    return Measured("identity scalings, over the same model without", ratio, 1.5, at_most=True, detail=detail)


def _cpu(function: Callable[[], object]) -> float:
    began = time.process_time()
    function()
    return time.process_time() - began
