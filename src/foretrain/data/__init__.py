"""Makes inputs: tasks that can be sampled, with the exact statistics of the process where they exist."""

from foretrain.data.sequence_classes import SequenceBatch, SequenceClasses
from foretrain.data.templates import Template, TemplateTask

__all__ = ["SequenceBatch", "SequenceClasses", "Template", "TemplateTask"]
