"""Tasks to sample training data from, with exact statistics of the data where those are known."""

from foretrain.data.latent_tree import LatentSample, LatentTree
from foretrain.data.sequence_classes import SequenceBatch, SequenceClasses
from foretrain.data.set_union import SetUnionHierarchy
from foretrain.data.template_files import TaskFile, read_task
from foretrain.data.template_task import Template, TemplateTask

__all__ = [
    "LatentSample",
    "LatentTree",
    "SequenceBatch",
    "SequenceClasses",
    "SetUnionHierarchy",
    "TaskFile",
    "Template",
    "TemplateTask",
    "read_task",
]
