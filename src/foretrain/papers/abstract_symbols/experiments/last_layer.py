"""Proposition 3.1: a transformer whose last layer alone is trained, against kernel ridge regression."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from foretrain.core.streams import stream, torch_stream
from foretrain.data.template_examples import same_different
from foretrain.kernels.regression import ridge_coefficients, unseen_strings
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, NotNegative, Positive, WholeNumber, about
from foretrain.models.finite_transformer import FiniteTransformer, Widths
from foretrain.papers.abstract_symbols.experiments.parameters import NetworkWidth

BETA, GAMMA = 2.0, 1.0


def last_layer(
    samples: Annotated[Count, about("Number of training samples.", unit="samples")] = 40,
    width: NetworkWidth = 32,
    ridge: Annotated[Positive, about("λ, the weight decay of the prediction.")] = 2.0,
    decay: Annotated[NotNegative | None, about("Weight decay of the training; none takes λ.")] = None,
    time: Annotated[Positive, about("How long the flow runs, in units of 1/λ.")] = 30.0,
    seed: Annotated[WholeNumber, about("Seed of the network and of its data.")] = 1,
) -> xr.Dataset:
    """Proposition 3.1: outputs on unseen strings while w_U is trained, and those of eq. 5 with the same features.

    The last layer starts at 0 and is trained by plain gradient descent on ½Σ(f − y)² + ½λ‖w_U‖², with steps so short
    that the largest direction of the kernel does not overshoot.
    """
    task = same_different().with_cls()
    train = task.sample(samples, stream("abstract_symbols/last_layer", seed), alphabet=samples)
    strings = unseen_strings(task, samples)
    generator = torch_stream("abstract_symbols/last_layer", width, seed)
    net = FiniteTransformer(
        int(strings.max()) + 1, task.length, Widths.all(width), beta=BETA, gamma=GAMMA, generator=generator
    )
    with torch.no_grad():
        features, asked = (net.features(torch.from_numpy(s)) for s in (train.tokens, strings))
    labels = torch.from_numpy(np.asarray(train.labels, dtype=np.float64))
    gram = (features @ features.T).numpy()
    closed = (asked @ features.T).numpy() @ ridge_coefficients(gram, labels.numpy(), ridge)
    step = 0.5 / (float(np.linalg.eigvalsh(gram)[-1]) + ridge)
    moments = np.linspace(0, 1, 31) * time
    saved = np.rint(moments / ridge / step).astype(int)
    outputs = _descended(features, asked, labels, ridge if decay is None else decay, step, saved)
    return xr.Dataset(
        {"output": (("time", "string"), outputs), "eq5": ("string", closed)},
        {"time": ("time", moments, {"units": "of 1/λ"}), "string": [str(t) for t in task.templates]},
    )


def _descended(
    features: Tensor, asked: Tensor, labels: Tensor, decay: float, step: float, saved: np.ndarray
) -> np.ndarray:
    """Outputs at the saved steps of gradient descent on the last layer."""
    readout, outputs = torch.zeros(features.shape[1], dtype=torch.float64), []
    for done in range(int(saved[-1]) + 1):
        outputs += [(asked @ readout).numpy()] * int((saved == done).sum())
        readout -= step * (features.T @ (features @ readout - labels) + decay * readout)
    return np.array(outputs)


EXPERIMENTS = [
    Experiment(
        "abstract_symbols/last_layer",
        "A transformer's last layer trained by gradient descent, against kernel ridge regression",
        last_layer,
        {"seed": 3},
        settings={"fast": {"samples": 12, "width": 12, "time": 5.0, "seeds": 1}, "full": {}},
    )
]
