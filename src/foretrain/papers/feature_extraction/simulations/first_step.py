"""The first gradient step of an additive network, exactly: how much each token's score gains per unit of learning rate.

An MLP that adds up its tokens scores a text as Σ_e n(e)s(e), so a step on all texts is a step on the token scores: the
tangent kernel between tokens, applied to the pull of the loss on each token.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray as Array

from foretrain.kernels.empirical import ntk_product
from foretrain.models.classifiers import Classifier
from foretrain.models.parameters import Parameters


def first_step(
    net: Classifier,
    parameters: Parameters,
    force: Float[Array, "vocab output"],
    asked: Int[Array, "asked"] | None = None,
) -> Float[Array, "asked output"]:
    """ds(e)/d(rate) of every token (or of those `asked` for) and output, if the loss pulls the scores by `force`."""
    pulled = np.flatnonzero(force.any(axis=1))
    pull = torch.from_numpy(force[pulled]).to(parameters["embedding"].dtype)
    rows, others = (
        torch.from_numpy(tokens)[:, None] for tokens in (np.arange(net.vocab) if asked is None else asked, pulled)
    )
    return ntk_product(net.of_one, rows, pull, others, parameters=parameters).double().numpy()
