"""Reads a state: how concentrated, of what rank, how aligned. numpy or torch in, the same kind out."""

from foretrain.measures.correlation import normalized_correlation
from foretrain.measures.entropy import entropy
from foretrain.measures.rank import effective_rank, stable_rank

__all__ = ["effective_rank", "entropy", "normalized_correlation", "stable_rank"]
