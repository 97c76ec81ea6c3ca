"""What kernels say before training: the blocks of K̂ (Fig 4), the error against n and ρ, the data each task needs."""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Annotated

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from pydantic import Field

from foretrain.core.streams import seed_list, stream
from foretrain.data.template_task import TemplateBatch
from foretrain.kernels.architectures import ARCHITECTURES, MLP, MLP_XX, TRANSFORMER
from foretrain.kernels.learning_curve import LearningCurve
from foretrain.kernels.regression import measured_errors
from foretrain.kernels.template_matrix import TemplateMatrix, template_matrix
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, Positive, Seeds, about
from foretrain.papers.abstract_symbols.experiments.parameters import (
    Beta,
    Gamma,
    KernelArchitecture,
    KernelSamples,
    RegressionTask,
)
from foretrain.papers.abstract_symbols.setting import REGRESSION_TASKS, KernelSetting
from foretrain.papers.abstract_symbols.theory import generalisation as theory

Array = NDArray[np.float64]
KERNEL_ACCURACY = 1e-6  # of N at β = 4, where K_attn is computed to 1e-7 and three errors add up


def block_sample(task: str, n: int, per_sample: float, seed: int) -> TemplateBatch:
    """n samples whose wildcards are filled from `per_sample`·n tokens."""
    with_cls = REGRESSION_TASKS[task]().with_cls()
    alphabet = max(int(per_sample * n), with_cls.wildcard_count)
    return with_cls.sample(n, stream("abstract_symbols/fig4", seed, n, alphabet), alphabet=alphabet)


def indicators(template: NDArray[np.int64], count: int) -> Array:
    """Orthonormal indicators: column j marks the samples of template j."""
    B = np.eye(count)[template]
    return B / np.sqrt(B.sum(axis=0))


def fig4(
    samples: KernelSamples = (64, 128, 256, 512, 1024, 2048),
    per_sample: Annotated[Positive, about("Tokens of the training alphabet for every sample.")] = 4.0,
    architecture: KernelArchitecture = TRANSFORMER,
    task: RegressionTask = "same_different",
    seeds: Seeds = 3,
    shown: Annotated[Count, about("Samples whose kernel matrix is shown.", unit="samples")] = 60,
) -> xr.Dataset:
    """Fig 4: the angle between the top eigenspace of K̂ and the templates' indicators, and K̂ itself for `shown` samples.

    `gram` is the kernel matrix of the first seed, sorted by template; `blocks` is the idealised one made of N.
    """
    listed, kernel = seed_list(seeds), KernelSetting(architecture).kernel
    r = len(REGRESSION_TASKS[task]().templates)
    angles = np.empty((len(samples), len(listed)))
    for (i, n), (s, seed) in itertools.product(enumerate(samples), enumerate(listed)):
        train = block_sample(task, n, per_sample, seed)
        top = np.linalg.eigh(kernel(train.tokens, train.tokens))[1][:, -r:]
        angles[i, s] = theory.principal_angle(top, indicators(train.template, r))
    few = block_sample(task, shown, per_sample, listed[0])
    order = np.argsort(few.template, kind="stable")
    N = template_matrix(few.task, kernel, accuracy=KERNEL_ACCURACY).N
    return xr.Dataset(
        {
            "angle": (("n", "seed"), angles, {"units": "degrees"}),
            "gram": (("row", "column"), kernel(few.tokens[order], few.tokens[order])),
            "blocks": (("row", "column"), N[np.ix_(few.template[order], few.template[order])]),
        },
        {"n": list(samples), "seed": listed},
    )


def kernel_regression(
    rule: Annotated[
        str,
        Field(pattern=r"^(\d+\.?\d*|\.\d+)(e-?\d+)?n?$"),
        about("Ridge λ: a number such as 0.01, or one that grows with n, such as 0.001n."),
    ] = "0.01",
    n: Annotated[Count, about("Number of training samples.", unit="samples")] = 512,
    alphabet: Annotated[Count, about("Size of the alphabet that fills the wildcards.", unit="tokens")] = 1024,
    architecture: KernelArchitecture = TRANSFORMER,
    task: RegressionTask = "same_different",
    seeds: Seeds = 5,
) -> xr.Dataset:
    """Squared error on unseen symbols for one ridge, number of samples and alphabet.

    Theorem 3.4 and Lemma D.1. `ideal` is the error of the estimator of eq. 15, `apart` the exact error of the real one
    when no two samples share a token.
    """
    kernel, matrix = KernelSetting(architecture).kernel, _matrix(task, architecture)
    weights, labels = np.asarray(matrix.task.weights), np.asarray(matrix.task.labels, dtype=np.float64)
    ridge = float(rule.removesuffix("n")) * (n if rule.endswith("n") else 1)
    errors = measured_errors(matrix.task, kernel, samples=[n], alphabets=[alphabet], ridge=ridge, seeds=seeds)
    limit = theory.proportional_ridge_limit(matrix.N, weights, labels, ridge / n)
    return xr.Dataset(
        {
            "loss": errors.loss.isel(n=0, alphabet=0, drop=True),
            "ideal": float(weights @ (limit - labels) ** 2),
            "apart": float(LearningCurve(matrix, ridge).loss(np.array([float(n)]))[0]),
        }
    )


@lru_cache(maxsize=4)
def _matrix(task: str, architecture: str) -> TemplateMatrix:
    return template_matrix(
        REGRESSION_TASKS[task]().with_cls(), KernelSetting(architecture).kernel, accuracy=KERNEL_ACCURACY
    )


def data_efficiency(
    task: RegressionTask = "same_different",
    architecture: KernelArchitecture = TRANSFORMER,
    beta: Beta = 1.0,
    gamma: Gamma = 1.0,
    ridge: Annotated[Positive, about("Ridge λ of the regression.")] = 0.01,
    loss: Annotated[Positive, about("Squared error to reach, as a share of the variance of the labels.")] = 0.1,
) -> dict[str, float]:
    """The samples after which the squared error is below `loss` times the labels' variance."""
    kernel = KernelSetting(architecture, beta=beta, gamma=gamma).kernel
    matrix = template_matrix(REGRESSION_TASKS[task]().with_cls(), kernel)
    labels, weights = np.asarray(matrix.task.labels, dtype=np.float64), np.asarray(matrix.task.weights)
    variance = float(weights @ (labels - weights @ labels) ** 2)
    needed = LearningCurve(matrix, ridge).samples_needed(loss * variance)
    return {"samples_needed": needed, "condition": matrix.condition}


EXPERIMENTS = [
    Experiment(
        "abstract_symbols/fig4",
        "The kernel matrix becomes blocks: angle of its top eigenspace to the template indicators against n",
        fig4,
        {"architecture": (TRANSFORMER, MLP_XX, MLP)},
        settings={"fast": {"samples": (64, 256), "seeds": 1, "shown": 40}, "full": {}},
    ),
    Experiment(
        "abstract_symbols/kernel_regression",
        "Kernel ridge regression on unseen symbols against n, the alphabet and the ridge, beside eq. 15",
        kernel_regression,
        {"rule": ("0.01", "0.1", "0.001n", "0.01n"), "n": (32, 128, 512, 2048), "alphabet": (16, 128, 1024, 8192)},
        batched={"seeds": "seed"},
        settings={"fast": {"rule": ("0.01", "0.001n"), "n": (32, 128), "alphabet": (16, 1024), "seeds": 2}, "full": {}},
    ),
    Experiment(
        "abstract_symbols/data_efficiency",
        "Samples needed by each architecture on each task, from the matrix N alone",
        data_efficiency,
        {"task": tuple(REGRESSION_TASKS), "architecture": ARCHITECTURES},
        settings={"fast": {"task": ("same_different", "aba_abb")}, "full": {}},
    ),
]
