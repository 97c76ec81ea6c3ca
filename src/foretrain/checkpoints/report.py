"""The analysis of a series as one HTML page that opens offline: faults first, then curves over training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import xarray as xr

from foretrain.checkpoints.figures import curves, heads, losses, mark_steps
from foretrain.checkpoints.measured import Measured
from foretrain.checkpoints.sentences import GROUPS, by_group, layer_table, shown, summary
from foretrain.show.pages import figure_html, render

if TYPE_CHECKING:
    import plotly.graph_objects as go

MEASURES = {
    "stable_rank": ("Stable rank", "‖W‖²/σ²: how many directions carry a matrix. Low means that few do."),
    "effective_rank": ("Effective rank", "From the entropy of all singular values; it counts small ones too."),
    "norm": ("Norm", "Frobenius norm of each matrix."),
    "kurtosis": ("Kurtosis", "Excess kurtosis of the entries: 0 if they are normal, large if a few entries stand out."),
}
ORDER = "dark for the first layers and light for the last"
IDENTITY = {"identity_query_key": "W_Q·W_Kᵀ", "identity_value_output": "W_V·W_O"}


def page(analysis: Measured) -> str:
    """One self-contained HTML file."""
    head, rows = layer_table(analysis)
    misplaced = {label for fault in analysis.faults if fault.kind == "out of order" for label in fault.others}
    faulty = {fault.checkpoint for fault in analysis.faults} | misplaced
    marked = [record["step"] for record in analysis.records if record["checkpoint"] in faulty] + analysis.unmeasured
    sections: list[dict[str, Any]] = []
    for title, says, figure in _figures(analysis):
        drawn = figure_html(mark_steps(figure, _with_gaps(analysis), marked), with_plotly=not sections)
        sections.append({"title": title, "says": says, "figure": drawn})
    return render(
        "checkpoints.html",
        title=f"Analysis of {analysis.name}",
        summary=summary(analysis),
        faults=[(fault.kind, fault.checkpoint, fault.sentence) for fault in analysis.faults],
        marked=bool(marked),
        head=head,
        rows=rows,
        sections=sections,
        matrices=_matrices(analysis),
        notes=analysis.notes,
    )


def _figures(analysis: Measured) -> list[tuple[str, str, go.Figure]]:
    dataset, found = _with_gaps(analysis), []
    if dataset.sizes["step"] < 2:
        return []
    if dataset["loss"].notnull().any():
        found.append(("Loss on the text", "Mean over the windows of the text, in nats per token.", losses(dataset)))
    for measure, (title, says) in MEASURES.items():
        panels = {f"{group} matrices": by_group(dataset, measure, group) for group in GROUPS}
        panels = {name: values for name, values in panels.items() if values.sizes["matrix"]}
        if panels:
            found.append((title, f"{says} One line per matrix, {ORDER}.", curves(panels, "matrix", title.lower())))
    shares = {title: dataset[name].mean("head") for name, title in IDENTITY.items() if name in dataset}
    if shares:
        says = "How close the product is to a multiple of the identity, from −1 to 1; mean over heads. Random: 0."
        found.append(("The identity's share", says, curves(shares, "layer", "identity's share")))
    if "attention_entropy" in dataset:
        says = "In nats, one panel per layer and one line per head. Low: a head looks at few tokens."
        found.append(("Entropy of attention", says, heads(dataset["attention_entropy"])))
    return found


def _with_gaps(analysis: Measured) -> xr.Dataset:
    """The dataset with nan at the steps that could not be measured, so that no line is drawn across them."""
    steps = {*analysis.dataset["step"].values.tolist(), *analysis.unmeasured}
    return analysis.dataset.reindex(step=sorted(steps))


def _matrices(analysis: Measured) -> list[tuple[Any, ...]]:
    """A row per matrix, at the last step."""
    last = analysis.records[-1]
    return [
        (name, " × ".join(map(str, last["tensors"][name]["shape"])),
         *(shown(float(measures[key])) for key in ("norm", "stable_rank", "effective_rank", "deviation", "kurtosis")))
        for name, measures in last["weights"].items()
    ]  # fmt: skip
