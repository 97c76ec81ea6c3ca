"""Has parameters: models whose tensors carry leading run axes [setting, seed]."""

from foretrain.models.bilinear import Bilinear

__all__ = ["Bilinear"]
