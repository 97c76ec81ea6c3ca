"""Measures: what can be read off a state. NumPy arrays give NumPy arrays, torch tensors give torch tensors."""

from foretrain.measures.alignment import best_alignment, mean_alignment
from foretrain.measures.correlation import normalized_correlation
from foretrain.measures.entropy import entropy
from foretrain.measures.order import half_time, level_time, spearman
from foretrain.measures.rank import effective_rank, stable_rank
from foretrain.measures.spectra import Spectrum, SpectrumTracker

__all__ = [
    "Spectrum",
    "SpectrumTracker",
    "best_alignment",
    "effective_rank",
    "entropy",
    "half_time",
    "level_time",
    "mean_alignment",
    "normalized_correlation",
    "spearman",
    "stable_rank",
]
