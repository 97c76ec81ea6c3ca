"""Section 4 and appendix D: the dynamics of the decoder Y."""

from __future__ import annotations

import numpy as np
import xarray as xr

from foretrain.claim import Claim, Control
from foretrain.comparators import close
from foretrain.dynamics import integrate
from foretrain.papers.scan_snap import theory
from foretrain.tolerances import CLOSED_FORM
from foretrain.trajectory import trajectory


def _growth_closed_form(eta_y: float, vocab: int, until: float) -> xr.Dataset:
    t = np.linspace(0, until, 201)
    return trajectory({"h": ("time", theory.decoder_growth(t, eta_y=eta_y, vocab=vocab))}, {"time": t})


def _growth_integrated(eta_y: float, vocab: int, until: float, ode_rate: float | None = None) -> xr.Dataset:
    """ODE (44), at `ode_rate` in place of eta_y for the control."""
    rate = ode_rate or eta_y
    return integrate(
        lambda t, s: {"h": rate / (vocab - 1 + np.exp(vocab * s["h"]))},
        {"h": 0.0},
        until=until,
        save_at=np.linspace(0, until, 201),
        rtol=1e-13,
        atol=1e-18,
    )


lemma6 = Claim(
    id="scan_snap/lemma6",
    source="Lemma 6, eq. 44 and 45",
    says="The continuous decoder growth h solves e^{Mh} + (M−1)Mh = Mη_Y·t + 1.",
    predict=_growth_closed_form,
    observe=_growth_integrated,
    compare=close("h", CLOSED_FORM),
    settings={
        "fast": {"eta_y": 0.5, "vocab": 1000, "until": 1e3},
        "paper": {"eta_y": 0.5, "vocab": 1000, "until": 1e5},
    },
    control=Control("the ODE runs at another learning rate than the formula", {"ode_rate": 0.55}),
)

CLAIMS = [lemma6]
