"""The forecast that a user gets: what was found, as a sentence, a dataset, a figure, a page, and in a notebook."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import xarray as xr

from foretrain.forecast.corpora.result import CorpusResult
from foretrain.forecast.corpora.words import answer, as_dataset

if TYPE_CHECKING:
    import plotly.graph_objects as go


class CorpusForecast(CorpusResult):
    """What classifiers will learn from a corpus. Scores are [item, output]; `outputs` has the outputs' names."""

    def __repr__(self) -> str:
        return self.summary

    @property
    def summary(self) -> str:
        """One paragraph: will it be learned, how well, and how much of that is a shortcut?"""
        return answer(self)

    @cached_property
    def dataset(self) -> xr.Dataset:
        """Learning curves [architecture, time] (NaN after a flow has stopped) and scores by order of the n-grams."""
        return as_dataset(self)

    def figure(self) -> go.Figure:
        """The predicted learning curves on held-out rows, with the baselines beside them."""
        from foretrain.forecast.corpora.figures import learning_curves

        return learning_curves(self)

    def report(self, path: str | Path) -> None:
        """Write a page with the answer, what to fix, and all details."""
        from foretrain.core.files import write_text
        from foretrain.forecast.corpora.page import page

        write_text(Path(path), page(self))

    def _repr_html_(self) -> str:
        from foretrain.forecast.corpora.page import fragment

        return fragment(self)
