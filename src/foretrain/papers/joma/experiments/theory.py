from __future__ import annotations

from foretrain.experiment import Experiment

EXPERIMENTS: list[Experiment] = []
