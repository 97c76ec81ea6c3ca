"""Fine-tuning: predicted learning curves for a stored pass, for any learning rate, schedule, batch and label noise."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretrain.core.errors import InputError
from foretrain.core.streams import stream
from foretrain.explore.figure_theme import BELOW
from foretrain.explore.sliders import Slider, State
from foretrain.explore.view import Cell, Formula, Light, Picture, Places, TextTable, View, python_call

if TYPE_CHECKING:
    from foretrain.forecast.finetuning.kept import KeptPass

RATE, STEPS, BATCH = 2e-3, 60, 16  # of the made-up model
ORDERS = 2
FORMULAS = (
    Formula(
        r"f_t = f_0 + J\sum_{s<t}(1-p_s)\Delta_s + J_{1/2}\sum_{s<t}p_s\Delta_s",
        "Outputs move by the real optimizer's steps Δ on the linearised network; p is the place on the path, and J½ "
        "the gradients halfway along it. Kernels that stay what they are at the start are a claim:",
        "feature_extraction/ntk_stability",
    ),
)


def controls(places: Places) -> Sequence[Slider]:
    # the made-up pass is for RATE and STEPS; a stored one says what it is for when it is read
    rate, steps, batch = _made_for(places.kept)
    return (
        Slider("rate", "learning rate", "number", rate, low=rate / 13, high=rate * 6, log=True),
        Slider("schedule", "schedule", "choice", "constant", options=("constant", "linear", "cosine")),
        Slider("warm_up", "warm-up", "number", 0.0, low=0, high=0.5, says="As a share of the steps."),
        Slider("steps", "steps", "whole", steps, low=5, high=max(200, 2 * steps), log=True),
        Slider("batch", "batch size", "whole", batch, low=2, high=64, log=True, unit="rows"),
        Slider("noise", "label noise", "number", 0.0, low=0, high=0.25,
                says="The share of training rows that get a wrong label."),
    )  # fmt: skip


@lru_cache(maxsize=8)
def _made_for(kept: Path | None) -> tuple[float, int, int]:
    """Rate, steps and batch that a pass was made for; read without loading torch."""
    if kept is None:
        return RATE, STEPS, BATCH
    from foretrain.core.trajectory import config_of, load_file

    setting = config_of(load_file(kept)).get("setting")
    if not isinstance(setting, dict):
        raise InputError(f"{kept} is no kept pass; write one with forecast finetune --keep.")
    return float(setting["rate"]), int(setting["steps"]), min(64, int(setting["batch"]))


@lru_cache(maxsize=2)
def pass_of(kept: Path | None) -> KeptPass:
    """The stored pass, or one over a made-up model."""
    from foretrain.forecast.finetuning.kept import load_pass

    return made_up_pass() if kept is None else load_pass(kept)


def made_up_pass() -> KeptPass:
    """A small network with random weights, and labels that need more than a linear probe; it takes a second."""
    import torch
    from torch import nn

    from foretrain.forecast.finetuning.dynamics import FinetuneSetting
    from foretrain.forecast.finetuning.kept import kept_pass
    from foretrain.forecast.finetuning.prepared import prepare_tensors

    draw = stream("explore/finetune", "made up")
    inputs = torch.from_numpy(draw.standard_normal((380, 12))).float()
    labels = ((inputs[:, 0] + inputs[:, 1] * inputs[:, 2] + 0.3 * inputs[:, 3]) > 0).long()
    model = nn.Sequential(nn.Linear(12, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1))
    with torch.no_grad():
        for parameter in model.parameters():
            size = parameter.shape[-1] ** -0.5
            parameter.copy_(torch.from_numpy(draw.standard_normal(tuple(parameter.shape))) * size)
    setting = FinetuneSetting(rate=RATE, steps=STEPS, batch=BATCH)
    return kept_pass(prepare_tensors(model, (inputs, labels), rows=180, test=200), setting)


def wrong_labels(kept: KeptPass, share: float) -> Any:
    """The same rows always get a wrong label first, so that a slider changes one row after the other."""
    from foretrain.forecast.finetuning.prepared import WhatIf

    draw = stream("explore/finetune", "wrong labels")
    order, shift = draw.permutation(kept.train), draw.integers(1, len(kept.classes), kept.train)
    rows = order[: round(share * kept.train)]
    labels = (kept.labels.numpy()[rows] + shift[rows]) % len(kept.classes)
    return WhatIf(relabelled=tuple(zip(rows.tolist(), labels.tolist(), strict=True)))


def work(state: State, places: Places) -> Any:
    from foretrain.forecast.finetuning.dynamics import FinetuneSetting
    from foretrain.forecast.finetuning.forecast import forecast_with

    kept = pass_of(places.kept)
    setting = FinetuneSetting(
        kept.setting.optimizer,
        rate=state["rate"],
        steps=state["steps"],
        batch=state["batch"],
        schedule=state["schedule"],
        warm_up=round(state["warm_up"] * state["steps"]),
    )
    return forecast_with(kept, setting, orders=ORDERS, what_if=wrong_labels(kept, state["noise"]))


def draw(state: State, worked: Any, places: Places) -> Picture:
    if worked is None:
        return Picture("Forecasting this training …", formulas=FORMULAS, waiting="This takes a second.", empty=True)
    from foretrain.forecast.finetuning.words import table_rows

    prepared, trust = worked.prepared, worked.trust
    what = "a made-up model" if places.kept is None else prepared.name
    table = tuple(table_rows(worked.table))
    first, last = (worked.dataset["loss"].sel(part="test").mean("order").values[k] for k in (0, -1))
    figure = worked.figure().update_layout(title="Predicted learning curves", height=440, **BELOW)
    light = Light(
        "good" if trust.holds else "bad", "trust it" if trust.holds else "do not trust it", "Trust", trust.reason
    )
    made_up = (
        "This model is made up. For yours: foretrain forecast finetune MODEL DATA --keep pass.nc, then foretrain "
        "explore --kept pass.nc.",
    )
    return Picture(
        answer=worked.summary,
        sentences=made_up if places.kept is None else (),
        slow_figures={"curves": figure},
        lights=(light,),
        lights_title="How far to trust it",
        tables=(
            TextTable("On the test rows", ("", "accuracy", "test loss"), table, numbers=(1, 2)),
            TextTable(
                "The setting",
                ("", ""),
                (
                    ("model", what),
                    ("rows", f"{prepared.train:,} to train on, {len(prepared.labels) - prepared.train:,} to test on"),
                    ("wrong labels", f"{len(worked.what_if.relabelled):,} rows"),
                    ("test loss", Cell(f"{first:.3f} → {last:.3f}", shade="good" if last < first else "bad")),
                ),
            ),
        ),
        formulas=FORMULAS,
        python=_python(state, worked, places),
    )


def _python(state: State, worked: Any, places: Places) -> str:
    call = "made_up_pass()" if places.kept is None else f"load_pass({str(places.kept)!r})"
    given = {name: value for name, value in worked.setting.as_dict().items() if name not in ("betas", "seed")}
    arguments = ", ".join(f"{name}={value!r}" for name, value in given.items())
    return (
        "from foretrain.explore.views.finetune import made_up_pass, wrong_labels\n"
        "from foretrain.forecast.finetuning.dynamics import FinetuneSetting\n"
        "from foretrain.forecast.finetuning.forecast import forecast_with\n"
        "from foretrain.forecast.finetuning.kept import load_pass\n\n"
        f"kept = {call}\n"
        f"setting = FinetuneSetting({arguments})\n"
        f"forecast = forecast_with(kept, setting, orders={ORDERS}, what_if=wrong_labels(kept, {state['noise']!r}))\n"
        "print(forecast.table)\n\n" + python_call(VIEW.path, controls(places), state, kept=places.kept)
    )


VIEW = View(
    path="fine-tuning",
    title="Fine-tuning",
    question="What will fine-tuning bring, for this learning rate and this much label noise?",
    controls=controls,
    draw=draw,
    work=work,
)
