"""Fig 3 and Fig 9: how the learning rates order the snap and the growth of attention (section 6, points a, b, c)."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy import ndarray as Array

from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import close, close_relative, conserved, every, ranked
from foretrain.ledger.tolerances import FLOW
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.claims.transition import integrated_growth
from foretrain.papers.scan_snap.experiments import curves as experiments
from foretrain.papers.scan_snap.setting import TRANSITION
from foretrain.papers.scan_snap.tolerances import SNAP

Rates = tuple[float, ...]


def _simulated(times: Array, eta_y: Rates, eta_z: Rates) -> tuple[Array, Array]:
    """From the ODEs 44, 118 and 119: B_n [rate, time], and when e^{Mh} overtakes (M−1)Mh for good [rate]."""
    t = TRANSITION
    runs = [integrated_growth(times, y, z, t.vocab, t.classes, t.c0) for y, z in zip(eta_y, eta_z, strict=True)]
    overtaken = (1 + theory.omega1(vocab=t.vocab)) * np.log(t.vocab)
    snap = [np.interp(overtaken, run["u"].values, times) for run in runs]
    return np.stack([run["growth"].values for run in runs]), np.array(snap)


def _fig3_closed_form(eta_y: Rates, until: float) -> xr.Dataset:
    return experiments.fig3(eta_y=eta_y, until=until)


def _fig3_simulated(eta_y: Rates, until: float, late_from: float | None = None) -> xr.Dataset:
    """`late_growth` is B_n after all curves have snapped, or for the control at the single time `late_from`."""
    curves = experiments.fig3(eta_y=eta_y, until=until)
    growth, snap = _simulated(curves["time"].values, eta_y, (TRANSITION.eta_z,) * len(eta_y))
    B = curves["growth"].copy(data=growth)
    late = curves["time"] >= snap.max() if late_from is None else curves["time"] == late_from
    return trajectory(
        {"growth": B, "late_growth": B.where(late, drop=True).rename(time="late"), "snap_time": ("eta_y", snap)}
    )


fig3 = Claim(
    id="scan_snap/fig3",
    source="Fig 3 and section 6, points (a) and (c)",
    says="With η_Z fixed, a larger η_Y snaps attention earlier and leaves B_n, hence χ ≤ e^{2B}, smaller ever after: "
    "faster, but denser. The curves are those of Theorem 4 with its constant of integration.",
    predict=_fig3_closed_form,
    observe=_fig3_simulated,
    compare=every(
        close("growth", FLOW),
        close_relative("snap_time", SNAP),
        ranked("snap_time", "eta_y", rising=False),
        ranked("late_growth", "eta_y", rising=False),
    ),
    settings={"fast": {"eta_y": (0.1, 0.2, 0.5, 1.0, 2.0), "until": 4000.0}},
    control=Control("the order is read while attention still scans, where a larger η_Y is ahead", {"late_from": 40.0}),
)


def _fig9_closed_form(eta_z: Rates, ratio: float, until: float) -> xr.Dataset:
    return experiments.fig9(eta_z=eta_z, ratio=ratio, until=until)


def _fig9_simulated(eta_z: Rates, ratio: float, until: float, eta_y: float | None = None) -> xr.Dataset:
    """With `eta_y`, the decoder's learning rate is held fixed instead of the ratio."""
    decoder = tuple(ratio * z if eta_y is None else eta_y for z in eta_z)
    curves = experiments.fig9(eta_z=eta_z, ratio=ratio, until=until)
    growth, snap = _simulated(curves["time"].values, decoder, eta_z)
    B = curves["growth"].copy(data=growth)
    t0 = theory.snap_time(eta_y=np.array(decoder), vocab=TRANSITION.vocab, classes=TRANSITION.classes)
    at_snap = [_simulated(np.array([0.0, t]), (y,), (z,))[0][0, -1] for t, y, z in zip(t0, decoder, eta_z, strict=True)]
    late = B.where(curves["time"] >= snap.max(), drop=True).rename(time="late")
    return trajectory({"growth": B, "late_growth": late, "growth_at_snap": ("eta_z", np.array(at_snap))})


fig9 = Claim(
    id="scan_snap/fig9",
    source="Fig 9, eq. 131 and section 6, point (b)",
    says="With η_Y/η_Z fixed, B_n at the snap does not depend on η_Z, and after it a larger η_Z gives a larger B_n.",
    predict=_fig9_closed_form,
    observe=_fig9_simulated,
    compare=every(
        close("growth", FLOW),
        conserved("growth_at_snap", FLOW, axis="eta_z"),
        ranked("late_growth", "eta_z", rising=True),
    ),
    settings={"fast": {"eta_z": (0.1, 0.2, 0.5, 1.0, 2.0), "ratio": 1.0, "until": 4000.0}},
    control=Control("η_Y is held fixed instead of η_Y/η_Z", {"eta_y": 0.5}),
)

CLAIMS = [fig3, fig9]
