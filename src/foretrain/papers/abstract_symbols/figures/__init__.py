"""One Plotly figure per experiment."""

from foretrain.papers.abstract_symbols.figures import kernel, language, layers, needs, tasks, trained

FIGURES = {**tasks.FIGURES, **kernel.FIGURES, **layers.FIGURES, **trained.FIGURES, **needs.FIGURES, **language.FIGURES}
