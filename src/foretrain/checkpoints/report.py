"""The analysis as one HTML page that opens offline: faults first, then curves over training, or maps of one model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import xarray as xr

from foretrain.checkpoints.figures import curves, heads, losses, mark_steps
from foretrain.checkpoints.maps import head_map, rank_map
from foretrain.checkpoints.matrix_names import by_kind
from foretrain.checkpoints.scales import chance_of_mean, identity_chances
from foretrain.checkpoints.sentences import PRODUCTS, chance, layer_table, shown, summary
from foretrain.checkpoints.series import Measured
from foretrain.show.pages import FIT, figure_html, render

if TYPE_CHECKING:
    import plotly.graph_objects as go

RANK = "‖W‖²/σ_max²: how many directions hold most of the matrix's norm."
MEASURES = {
    "stable_rank": ("Stable rank", RANK),
    "effective_rank": ("Effective rank", "From the entropy of all singular values; it counts small ones too."),
    "norm": ("Norm", "Frobenius norm of each matrix."),
    "kurtosis": ("Kurtosis", "Excess kurtosis of the entries: 0 if they are normal, large if a few entries stand out."),
}
ORDER = "One panel per kind of matrix and one line per layer, dark for the first layers and light for the last."
IDENTITY = "How close the product is to a multiple of the identity, from −1 to 1."
ENTROPY = "In nats. Low: a head looks at few tokens."


def page(analysis: Measured) -> str:
    """One self-contained HTML file."""
    head, rows = layer_table(analysis)
    misplaced = {label for fault in analysis.faults if fault.kind == "out of order" for label in fault.others}
    faulty = {fault.checkpoint for fault in analysis.faults} | misplaced
    marked = [record["step"] for record in analysis.records if record["checkpoint"] in faulty] + analysis.unmeasured
    series = analysis.total > 1
    sections: list[dict[str, Any]] = []
    for title, says, figure in _curves(analysis) if series else _maps(analysis):
        drawn = mark_steps(figure, _with_gaps(analysis), marked) if series else figure
        html = figure_html(drawn, with_plotly=not sections, post_script=FIT)
        sections.append({"title": title, "says": says, "figure": html})
    return render(
        "checkpoints.html",
        title=analysis.name,
        summary=summary(analysis),
        faults=[(fault.kind, fault.checkpoint, fault.sentence) for fault in analysis.faults],
        marked=bool(marked) and series,
        series=series,
        head=head,
        rows=rows,
        sections=sections,
        matrices=_matrices(analysis),
        notes=analysis.notes,
    )


def _curves(analysis: Measured) -> list[tuple[str, str, go.Figure]]:
    """Of a series: every measure over the steps."""
    dataset, sections = _with_gaps(analysis), []
    if dataset["loss"].notnull().any():
        sections.append(("Loss on the text", "Mean over the windows of the text, in nats per token.", losses(dataset)))
    kinds = by_kind(dataset["matrix"].values.tolist()) if "matrix" in dataset else {}
    if kinds:
        for measure, (title, says) in MEASURES.items():
            panels = {kind: dataset[measure].sel(matrix=names) for kind, names in kinds.items()}
            sections.append((title, f"{says} {ORDER}", curves(panels, "matrix", title.lower())))
    shares = {
        title: dataset[f"identity_{name}"].mean("head")
        for name, title in PRODUCTS.items()
        if f"identity_{name}" in dataset
    }
    if shares:
        chances = identity_chances(analysis.records[-1]).values()
        band = max((chance_of_mean([pair]) for pair in chances), default=math.nan)
        says = f"{IDENTITY} Mean over the heads of a layer; the grey band is what random weights give ({chance(band)})."
        sections.append(("The identity's share", says, curves(shares, "layer", "identity's share", band)))
    if "attention_entropy" in dataset:
        says = f"{ENTROPY} One panel per layer and one line per head."
        sections.append(("Entropy of attention", says, heads(dataset["attention_entropy"])))
    return sections


def _maps(analysis: Measured) -> list[tuple[str, str, go.Figure]]:
    """Of one model: every measure that has a scale, by layer."""
    record, dataset, sections = analysis.records[-1], analysis.by_name.isel(step=-1), []
    ranks = rank_map(record)
    if ranks is not None:
        says = f"{RANK} As a share of the largest it could be: 1 if all directions are equal, near 0 if few stand out. "
        sections.append(("Stable rank", f"{says}A square matrix of random numbers has about 0.25.", ranks))
    shares = {title: dataset[f"identity_{name}"] for name, title in PRODUCTS.items() if f"identity_{name}" in dataset}
    if shares:
        by_chance = max((value for _, value in identity_chances(record).values()), default=math.nan)
        says = f"{IDENTITY} One cell per head; for random weights a head has 0 ({chance(by_chance)})."
        least = 3 * by_chance if math.isfinite(by_chance) else 0.0
        sections.append(("The identity's share", says, head_map(shares, "share", signed=True, least=least)))
    if "attention_entropy" in dataset:
        says = f"{ENTROPY} One cell per head."
        figure = head_map({"": dataset["attention_entropy"]}, "nats", signed=False)
        sections.append(("Entropy of attention", says, figure))
    return sections


def _with_gaps(analysis: Measured) -> xr.Dataset:
    """The dataset with nan at the steps that could not be measured, so that no line is drawn across them."""
    steps = {*analysis.by_name["step"].values.tolist(), *analysis.unmeasured}
    return analysis.by_name.reindex(step=sorted(steps))


def _matrices(analysis: Measured) -> list[tuple[Any, ...]]:
    """A row per matrix, at the last step."""
    last, rows = analysis.records[-1], []
    for name, measures in last["weights"].items():
        shape = last["tensors"][name]["shape"]
        norm, stable, effective, deviation, kurtosis = (
            shown(float(measures[key])) for key in ("norm", "stable_rank", "effective_rank", "deviation", "kurtosis")
        )
        rows.append((name, " × ".join(map(str, shape)), norm, stable, effective, min(shape), deviation, kurtosis))
    return rows
