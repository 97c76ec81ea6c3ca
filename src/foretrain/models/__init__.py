"""Models: what has parameters. Their tensors have leading axes of runs."""

from foretrain.models.bilinear import Bilinear

__all__ = ["Bilinear"]
