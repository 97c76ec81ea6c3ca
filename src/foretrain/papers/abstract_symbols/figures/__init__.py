"""One Plotly figure per experiment."""

from foretrain.papers.abstract_symbols.figures import kernel, tasks

FIGURES = {**tasks.FIGURES, **kernel.FIGURES}
