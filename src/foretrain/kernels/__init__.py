"""Kernels: of infinitely wide attention and MLP layers."""

from foretrain.kernels.activations import ACTIVATIONS, GELU, Activation, Cosine, ReLU
from foretrain.kernels.attention import attention_kernel, attention_matrix, transformer_kernel

__all__ = [
    "ACTIVATIONS",
    "GELU",
    "Activation",
    "Cosine",
    "ReLU",
    "attention_kernel",
    "attention_matrix",
    "transformer_kernel",
]
