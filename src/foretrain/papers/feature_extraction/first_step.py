"""The first gradient step of an additive network, exactly: what every token's score gains per unit of learning rate.

An MLP that adds up its tokens has text scores Σ_e n(e)s(e), so a step on all texts is a step on token scores: the
tangent kernel between tokens, applied to what the loss asks of each token.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray as Array

from foretrain.kernels.empirical import ntk_product
from foretrain.models.classifiers import Classifier, Parameters


def first_step(net: Classifier, parameters: Parameters, force: Float[Array, "vocab output"]) -> Array:
    """d s(e)/d(rate) of every token and output, when the loss pulls token scores by `force`."""
    asked = torch.from_numpy(np.ascontiguousarray(force)).to(parameters["embedding"].dtype)
    return ntk_product(net.of_one, torch.arange(net.vocab)[:, None], asked, parameters=parameters).double().numpy()
