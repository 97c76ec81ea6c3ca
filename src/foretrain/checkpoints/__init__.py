"""Reads checkpoints one tensor at a time, and says what their weights show and whether the series is sound."""

from foretrain.checkpoints.analysis import Analysis, analyze
from foretrain.checkpoints.comparison import Comparison, compare
from foretrain.checkpoints.fault import Fault

__all__ = ["Analysis", "Comparison", "Fault", "analyze", "compare"]
