"""Controls that cannot come out otherwise: a run against itself."""

from __future__ import annotations

import numpy as np
import xarray as xr

from foretrain.ledger.claim import Comparator, Drawn
from foretrain.ledger.margins import sentence
from foretrain.ledger.quantities import Quantities


def against_itself(compare: Comparator, claimed: xr.Dataset, control: xr.Dataset, quantities: Quantities) -> str:
    """Why a control measures nothing, in a sentence; empty if it measures something.

    The difference between a run and itself is exactly 0 at every point. Two different runs, or two ways to compute the
    same number, differ at least by rounding somewhere. So a difference that must be above 0 may not vanish under the
    control. What is compared with a prediction or with a bound may: a network that is frozen has the speed 0. So may
    whole numbers, such as counts.
    """
    differences = {part.measured for part in compare.draws if _is_difference(part)}
    for name in sorted(differences & {str(name) for name in control} & {str(name) for name in claimed}):
        if _vanishes(claimed[name].values, control[name].values):
            words = quantities[name].words
            return sentence(f"{words} is exactly 0 at every point, so the control measures a run against itself")
    return ""


def _is_difference(drawn: Drawn) -> bool:
    return drawn.predicted is None and drawn.low is None and drawn.high is None


def _vanishes(claimed: np.ndarray, control: np.ndarray) -> bool:
    """Whether what was not all whole numbers is 0 everywhere."""
    if claimed.dtype.kind != "f" or control.size == 0:
        return False
    return bool((claimed != np.round(claimed)).any() and (control == 0).all())
