"""Figures of single claims."""

from __future__ import annotations

from collections.abc import Callable

import xarray as xr


def drawn(name: str) -> Callable[[xr.Dataset, xr.Dataset], object]:
    """The function of figures/claims.py with this name; Plotly is loaded only to draw."""

    def draw(prediction: xr.Dataset, observation: xr.Dataset) -> object:
        from foretrain.papers.joma.figures import claims

        return getattr(claims, name)(prediction, observation)

    return draw
