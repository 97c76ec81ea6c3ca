"""Kernels: what can be known without training. Infinitely wide layers, tangent kernels, and kernel regression."""

from foretrain.kernels.activations import ACTIVATIONS, GELU, Cosine, KernelActivation, ReLU
from foretrain.kernels.architectures import ARCHITECTURES, architecture_kernel
from foretrain.kernels.attention import (
    KernelMatrix,
    attention_kernel,
    attention_matrix,
    transformer_kernel,
    transformer_matrix,
)
from foretrain.kernels.regression import measured_errors, ridge_predictions
from foretrain.kernels.template_matrix import TemplateMatrix, template_matrix

__all__ = [
    "ACTIVATIONS",
    "ARCHITECTURES",
    "GELU",
    "Cosine",
    "KernelActivation",
    "KernelMatrix",
    "ReLU",
    "TemplateMatrix",
    "architecture_kernel",
    "attention_kernel",
    "attention_matrix",
    "measured_errors",
    "ridge_predictions",
    "template_matrix",
    "transformer_kernel",
    "transformer_matrix",
]
