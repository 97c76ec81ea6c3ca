"""The figure of Theorem 3.4's proof: what its two claims add up to, at the best ridge."""

from __future__ import annotations

import plotly.graph_objects as go
import xarray as xr

from foretrain.show.plotting import measurement_marks, new_figure, power_ticks, prediction_line, typeset


def chain(run: xr.Dataset) -> go.Figure:
    """The best bound over ρ, with the powers that are printed and that are right, both through its first point."""
    figure = new_figure("", x="diversity ρ", y="D.2 and D.4 at the best λ", log_x=True, log_y=True)
    rho, best = run.rho.values, run.best.values
    for color, (power, words) in enumerate(
        ((-0.5, typeset("ρ^(−1/2), as printed")), (-0.25, typeset("ρ^(−1/4), corrected")))
    ):
        figure.add_trace(prediction_line(rho, best[0] * (rho / rho[0]) ** power, words, color))
    figure.add_trace(measurement_marks(rho, best, "the two claims, D.4 corrected", 6))
    figure.update_xaxes(**power_ticks(rho[::2]))
    figure.update_yaxes(**power_ticks([best[0] * (rho[-1] / rho[0]) ** -0.5, best[0]]))
    return figure.update_layout(height=420, margin={"t": 32}, showlegend=True)
