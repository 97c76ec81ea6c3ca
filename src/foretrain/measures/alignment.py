"""How well hidden nodes align with latent variables (JoMA, section 6: NCorr)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def best_alignment(
    latents: Float[Tensor, "*run sample latent"], nodes: Float[Tensor, "*run sample node"]
) -> Float[Tensor, "*run latent"]:
    """The largest correlation over samples of each latent with any node, from one matrix product.

    It is nan for a latent that does not vary over the samples. A node that does not vary has correlation 0.
    """
    first, second = (values.double() - values.double().mean(-2, keepdim=True) for values in (latents, nodes))
    size = second.norm(dim=-2, keepdim=True)
    pairs = (first / first.norm(dim=-2, keepdim=True)).mT @ torch.where(size > 0, second / size, 0.0)
    return pairs.amax(-1)


def mean_alignment(
    latents: Float[Tensor, "*run sample latent"], nodes: Float[Tensor, "*run sample node"]
) -> Float[Tensor, "*run"]:
    """NCorr: the best alignment, averaged over the latents that vary."""
    return best_alignment(latents, nodes).nanmean(-1)
