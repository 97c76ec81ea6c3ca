"""One Plotly figure per experiment."""

from foretrain.papers.abstract_symbols.figures import kernel, needs, tasks, trained

FIGURES = {**tasks.FIGURES, **kernel.FIGURES, **trained.FIGURES, **needs.FIGURES}
