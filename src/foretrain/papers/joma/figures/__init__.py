"""One Plotly figure per experiment of JoMA."""

from foretrain.papers.joma.figures import language, theory, training

FIGURES = {**theory.FIGURES, **training.FIGURES, **language.FIGURES}
