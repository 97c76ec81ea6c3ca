"""One function per figure or table; each returns a trajectory."""

from __future__ import annotations

from foretrain.experiment import Experiment

EXPERIMENTS: list[Experiment] = []
