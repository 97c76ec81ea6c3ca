"""The first gradient step of an additive network, exactly: what every token's score gains per unit of learning rate.

An MLP that adds up its tokens has text scores Σ_e n(e)s(e), so a step on all texts is a step on token scores: the
gradient of Σ_e F(e)·s(e), where F is what the loss asks of each token, and then the derivative along it.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray as Array

from foretrain.models.classifiers import Classifier, Parameters


def first_step(net: Classifier, parameters: Parameters, force: Float[Array, "vocab output"]) -> Array:
    """d s(e)/d(rate) of every token and output, when the loss pulls token scores by `force`: J Jᵀ force."""
    tokens = torch.arange(net.vocab)[:, None]
    leaves = {name: value.detach().requires_grad_() for name, value in parameters.items()}
    asked = torch.from_numpy(np.ascontiguousarray(force)).to(parameters["embedding"].dtype).requires_grad_()
    scores = net.scores(leaves, tokens)
    step = torch.autograd.grad(scores, list(leaves.values()), asked, create_graph=True)
    # The step Jᵀ·asked is linear in `asked`: its derivative by it, along the step itself, is J applied to the step.
    (change,) = torch.autograd.grad(step, asked, [part.detach() for part in step])
    return change.double().numpy()
