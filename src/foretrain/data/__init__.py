"""Makes inputs: tasks that can be sampled, with the exact statistics of the process where they exist."""

from foretrain.data.sequence_classes import SequenceBatch, SequenceClasses

__all__ = ["SequenceBatch", "SequenceClasses"]
