"""Functions to sweep over that workers in other processes can import, slow enough to be interrupted."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import numpy as np
import xarray as xr

from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory


def noise(rate: Sequence[float], seeds: Sequence[int], size: int = 3, pause: float = 0.0) -> xr.Dataset:
    """Numbers that depend on their cell only; each call leaves a line in the file that NOISE_CALLS names."""
    if "NOISE_CALLS" in os.environ:
        with open(os.environ["NOISE_CALLS"], "a") as file:
            file.write(f"{os.getpid()} {list(rate)} {list(seeds)}\n")
    time.sleep(pause)
    values = [[r * stream("noise", s, "data").normal(size=size) for s in seeds] for r in rate]
    return trajectory({"v": (("rate", "seed", "i"), np.array(values))}, {"rate": rate, "seed": seeds}, size=size)


AXES = {"rate": "rate", "seeds": "seed"}


def pretend_other_code() -> None:
    """As if another version of foretrain were installed on this worker."""
    from foretrain.runs import sweep as module

    module.installed_digest = lambda function: "0123456789ab"


def pretend_other_claims() -> None:
    """As if claims had other source code on this worker."""
    from foretrain.ledger import verdict_store as module

    module.fingerprint = lambda claim, tier: "0123456789ab"


def breaks(rate: Sequence[float]) -> xr.Dataset:
    """A mistake in a function, as torch reports many of them."""
    raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")
