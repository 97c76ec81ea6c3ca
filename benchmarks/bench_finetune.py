"""The cost of forecasting a fine-tuning against really doing it, on an encoder of MiniLM's size and 456 rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import median

import torch

from benchmarks import Measured, cpu_seconds
from benchmarks.memory import peak_memory, restart_peak
from foretrain.core.workers import single_threaded
from foretrain.forecast.finetuning.dynamics import FinetuneSetting, forecast_outputs
from foretrain.forecast.finetuning.prepared import LivePass, WhatIf, prepare
from foretrain.forecast.finetuning.texts import from_body
from foretrain.forecast.finetuning.training import train_outputs

ROWS, TRAIN, LENGTH, VOCABULARY = 456, 256, 32, 30522
SETTING = FinetuneSetting()  # 48 steps of AdamW


def measure() -> Iterator[Measured]:
    with single_threaded():
        times: list[float] = []
        restart_peak()
        before = peak_memory()
        prepared = _pass(ROWS, times)
        yield Measured("forecast of fine-tuning, the pass", times[0], 16, "CPU s", at_most=True, detail=f"{ROWS} rows")
        memory = prepared.start.jacobian.nbytes / 1e9
        yield Measured(
            "forecast of fine-tuning, memory of the pass", memory, 1.5, "GB", at_most=True,
            detail=f"the process grew by {(peak_memory() - before) / 1e9:.2f} GB",
        )  # fmt: skip
        yield from _settings(prepared)
        _pass(ROWS // 2, times)
        yield Measured(
            "forecast of fine-tuning, twice the rows", times[0] / times[1], 2.4, at_most=True,
            detail=f"{times[1]:.1f} s for {ROWS // 2} rows",
        )  # fmt: skip


def _settings(prepared: LivePass) -> Iterator[Measured]:
    labels = prepared.labels[:TRAIN]
    middle_seconds = cpu_seconds(lambda: prepared.middle_for(SETTING, WhatIf()))
    middle, reach = prepared.middle_for(SETTING, WhatIf())
    rates = [1e-5, 2e-5, 5e-5]
    one = median(
        cpu_seconds(
            lambda rate=rate: forecast_outputs(  # type: ignore[misc]
                prepared.start, labels, replace(SETTING, rate=rate), [0, 24, 48], middle=middle, reach=reach
            )
        )
        for rate in rates
    )
    real = cpu_seconds(lambda: train_outputs(prepared.classifier, labels, SETTING, [0, 48]))
    yield Measured("forecast of fine-tuning, one AdamW setting", one, 1, "CPU s", at_most=True)
    yield Measured(
        "forecast of fine-tuning, one more setting over real training", real / one, 20,
        detail=f"real {real:.1f} s; gradients in the middle of the path, once, {middle_seconds:.1f} s",
    )  # fmt: skip


def _pass(rows: int, times: list[float]) -> LivePass:
    """Probe and gradients of a random encoder on random tokens: what they are does not matter here."""
    import transformers as hf

    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
        body = hf.BertModel(hf.BertConfig(vocab_size=VOCABULARY, **sizes), add_pooling_layer=False)
    common = torch.randint(1, 4000, (rows, LENGTH), generator=generator)
    texts = [" ".join(map(str, row.tolist())) for row in common]
    classifier = from_body(body, lambda text: [int(token) for token in text.split()], texts, 2, length=LENGTH)
    labels = torch.randint(0, 2, (rows,), generator=generator)
    found: list[LivePass] = []
    times.append(cpu_seconds(lambda: found.append(prepare(classifier, labels, rows=min(TRAIN, rows - 100)))))
    return found[0]
