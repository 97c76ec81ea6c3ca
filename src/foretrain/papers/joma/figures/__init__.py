"""One Plotly figure per experiment of JoMA."""

from foretrain.papers.joma.figures import theory, training

FIGURES = {**theory.FIGURES, **training.FIGURES}
