"""One trial: a forecast, the real training, and what a judge of trust could have known beforehand."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpus_forecast.corpora import BOOKS, from_books
from foretrain.data.corpora import labelled_corpus
from foretrain.data.labelled_texts import LabelledTexts
from foretrain.forecast.finetuning.curves import compared, curves, score
from foretrain.forecast.finetuning.dynamics import FinetuneSetting
from foretrain.forecast.finetuning.forecast import forecast_with
from foretrain.forecast.finetuning.prepared import LivePass, WhatIf, prepare_texts
from foretrain.forecast.finetuning.training import train_outputs

PILOT = 4  # real steps that a judge of trust may look at
DROPPED = 13  # training rows of one class that are left out in the trials of row removal


@dataclass(frozen=True)
class Case:
    """A model on a corpus with one draw of rows; all of its rates share one pass."""

    model: str
    corpus: str
    seed: int
    rates: tuple[float, ...]
    drop: bool = False
    n: int = 128
    test: int = 200
    steps: int = 32
    length: int = 32

    @property
    def name(self) -> str:
        return f"{self.model}-{self.corpus}-{self.seed}"


def corpus(name: str, data: Path) -> LabelledTexts:
    """A corpus by its name. ag_news_2 has two of AG News' four classes: Business and Sci/Tech; books has sentences of
    two books of one author."""
    if name == "books":
        return from_books(BOOKS, data, 8, 40, sentences=True)
    if name != "ag_news_2":
        return labelled_corpus(name, data=data)
    whole = labelled_corpus("ag_news", data=data)
    kept = whole.select(np.flatnonzero(whole.labels >= 2))
    return replace(kept, labels=kept.labels - 2, classes=whole.classes[2:])


def run_case(case: Case, folder: str, data: Path) -> list[dict[str, Any]]:
    """The trials of a case, one for each rate."""
    started = time.process_time()
    prepared = prepare_texts(
        folder, corpus(case.corpus, data), rows=case.n, test=case.test, length=case.length, seed=case.seed
    )
    passed = time.process_time() - started
    found = []
    dropped = None
    if case.drop:
        dropped = removal(prepared, FinetuneSetting(rate=case.rates[0], steps=case.steps, seed=case.seed))
    for rate in case.rates:
        setting = FinetuneSetting(rate=rate, steps=case.steps, seed=case.seed)
        found.append({**asdict(case), "rate": rate, "pass_seconds": passed, **trial(prepared, setting)})
    if dropped is not None:
        found[0]["row_removal"] = dropped
    return found


def trial(prepared: LivePass, setting: FinetuneSetting) -> dict[str, Any]:
    started = time.process_time()
    forecast = forecast_with(prepared, setting, orders=1)
    forecast_seconds = time.process_time() - started
    steps = sorted({0, min(PILOT, setting.steps), setting.steps})
    started = time.process_time()
    real = train_outputs(prepared.classifier, prepared.labels[: prepared.train], setting, steps)
    real_seconds = time.process_time() - started
    test = slice(prepared.train, None)
    plain = prepared.from_start(setting, steps)
    measured = curves(prepared.labels, prepared.train, [real[[0, -1]]], [0, setting.steps]).isel(order=0)
    ends = forecast.dataset.isel(step=[0, -1])
    both = ends.assign({f"real_{name}": measured[name] for name in measured})
    change = {name: (z[-1] - z[0])[test].double().numpy() for name, z in (("plain", plain), ("real", real))}
    at = steps.index(min(PILOT, setting.steps))
    early = {name: (z[at] - z[0])[test].double().numpy() for name, z in (("plain", plain), ("real", real))}
    trust = forecast.trust
    end = both.sel(part="test").isel(order=0, step=-1)
    return {
        "score": score(both),
        "from_start": compared(change["plain"], change["real"]),
        "pilot": {
            **compared(early["plain"], early["real"]),
            "error": float(np.linalg.norm(early["plain"] - early["real"]) / np.linalg.norm(early["real"])),
        },
        "trust": {name: getattr(trust, name) for name in ("first_step", "change", "bend", "turn")},
        "accuracy": [
            float(both["accuracy"].sel(part="test")[0, 0]),
            float(end["accuracy"]),
            float(end["real_accuracy"]),
        ],
        "loss": [float(both["loss"].sel(part="test")[0, 0]), float(end["loss"]), float(end["real_loss"])],
        "forecast_seconds": forecast_seconds,
        "real_seconds": real_seconds,
    }


def removal(prepared: LivePass, setting: FinetuneSetting) -> dict[str, float]:
    """Leave out training rows of the first class: forecast and real shift of the test logits."""
    own = np.flatnonzero(prepared.labels[: prepared.train].numpy() == 0)[:DROPPED]
    what = prepared.check(WhatIf(dropped=tuple(own.tolist())))
    whole, fewer = (forecast_with(prepared, setting, orders=1, what_if=each) for each in (WhatIf(), what))
    labels, end = prepared.labels[: prepared.train], [setting.steps]
    real = [
        train_outputs(prepared.classifier, labels, setting, end, keep=prepared.rows_if(w)) for w in (WhatIf(), what)
    ]
    test = slice(prepared.train, None)
    shift = (fewer.dataset["logits"] - whole.dataset["logits"]).isel(order=0).values[test]
    return compared(shift, (real[1] - real[0])[-1][test].double().numpy())
