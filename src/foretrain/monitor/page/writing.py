"""Puts the page together. It opens offline: a few sentences, warnings, and curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import plotly.graph_objects as go
import xarray as xr

from foretrain.core.files import write_text
from foretrain.monitor.alarms import alarms_of, evidence_of, in_words
from foretrain.monitor.page.curves import LayerCurve, curves_of
from foretrain.monitor.page.ending import Ending
from foretrain.monitor.page.figures import (
    ACTIVATIONS,
    EXPERTS,
    by_layer_figure,
    by_name_figure,
    entropy_figure,
    every_step_figure,
    heads_figure,
    matrices_figure,
    thinned,
)
from foretrain.monitor.page.story import short_names, story
from foretrain.monitor.page.trouble import trouble
from foretrain.runs.training_log import Record, as_dataset, every_step
from foretrain.show.pages import FIT, figure_html, render


def write_page(
    records: Sequence[Record], out: Path, *, title: str = "A training, watched", end: Ending | None = None
) -> None:
    """Write the page on these records, and on how the training ended if that is known."""
    write_text(out, page(records, title, end))


def page(records: Sequence[Record], title: str, end: Ending | None = None) -> str:
    """The page as HTML."""
    dataset = as_dataset(records)
    total = records[-1].get("total") if records else None
    curves, alarms, short = curves_of(dataset), alarms_of(records), short_names(dataset)
    wrong = trouble(records, alarms)
    sentences = story(dataset, curves, total)
    answer = [*wrong, sentences[0]] if wrong else sentences
    answer += [end.sentence] if end is not None and end.over else []
    drawn = [
        figure_html(figure, with_plotly=index == 0, post_script=FIT)
        for index, figure in enumerate(figures(dataset, every_step(records, end.pending if end else None), curves))
    ]
    return render(
        "monitor.html",
        title=title,
        sentences=answer,
        warnings=in_words(alarm for alarm in alarms if alarm.serious),
        notices=in_words(alarm for alarm in alarms if not alarm.serious),
        evidence=evidence_of(alarms),
        layers=[(short[curve.layer], curve.layer, curve.shape, str(curve)) for curve in curves],
        figures=drawn,
    )


def figures(dataset: xr.Dataset, steps: xr.Dataset, curves: Sequence[LayerCurve]) -> Iterator[go.Figure]:
    """Everything that was recorded, the most telling figure first."""
    if dataset.sizes.get("step", 0) < 2:
        return
    if steps.loss.notnull().any() or steps.total_gradient_norm.notnull().any():
        yield every_step_figure(steps)
    dataset = thinned(dataset)
    if "attention_entropy" in dataset:
        yield entropy_figure(dataset, curves)
        yield by_layer_figure(
            dataset,
            {
                "attention_largest_logit": ("largest logit of any head", "max"),
                "attention_first_token": ("attention on the first token", "mean"),
                "attention_self_attention": ("attention on the token itself", "mean"),
            },
        )
    if "block" in dataset.coords:
        yield by_name_figure(dataset, "block", ACTIVATIONS)
    if "router" in dataset.coords:
        yield by_name_figure(dataset, "router", EXPERTS)
    if "attention_entropy" in dataset:
        yield heads_figure(dataset, "attention_entropy", "Entropy of every head", "nats")
    if "stable_rank" in dataset:
        yield matrices_figure(dataset, "stable_rank", "Stable rank of every matrix")
    if "update_ratio" in dataset:
        yield matrices_figure(dataset, "update_ratio", "Size of an update relative to the weights", log=True)
    if "identity_query_key" in dataset:
        yield heads_figure(dataset, "identity_query_key", "The identity's share of W_Q·W_Kᵀ", "share")
    if "identity_value_output" in dataset:
        yield heads_figure(dataset, "identity_value_output", "The identity's share of W_V·W_O", "share")
