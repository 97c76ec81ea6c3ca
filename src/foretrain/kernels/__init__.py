"""Kernels: of infinitely wide attention and MLP layers, of any network, and regression with them."""

from foretrain.kernels.activations import ACTIVATIONS, GELU, Activation, Cosine, ReLU
from foretrain.kernels.attention import (
    KernelMatrix,
    attention_kernel,
    attention_matrix,
    transformer_kernel,
    transformer_matrix,
)

__all__ = [
    "ACTIVATIONS",
    "GELU",
    "Activation",
    "Cosine",
    "KernelMatrix",
    "ReLU",
    "attention_kernel",
    "attention_matrix",
    "transformer_kernel",
    "transformer_matrix",
]
