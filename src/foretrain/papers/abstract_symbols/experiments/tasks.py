"""What kernels say before training: the blocks of K̂ (Fig 4), the error against n and ρ, the data each task needs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from foretrain.core.streams import seed_list, stream
from foretrain.core.trajectory import trajectory
from foretrain.data.template_task import TemplateBatch
from foretrain.kernels.architectures import ARCHITECTURES, MLP, MLP_XX, TRANSFORMER
from foretrain.kernels.learning_curve import LearningCurve
from foretrain.kernels.regression import measured_errors
from foretrain.kernels.template_matrix import template_matrix
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, Positive, Seeds, about
from foretrain.papers.abstract_symbols.experiments.parameters import (
    NOT_EMPTY,
    Beta,
    Gamma,
    KernelName,
    Kernels,
    KernelSamples,
    RegressionTask,
)
from foretrain.papers.abstract_symbols.setting import REGRESSION_TASKS, KernelSetting
from foretrain.papers.abstract_symbols.theory import generalisation as theory

Array = NDArray[np.float64]
KERNEL_ACCURACY = 1e-6  # of N at β = 4, where K_attn is computed to 1e-7 and three errors add up


def block_sample(task: str, n: int, per_sample: float, seed: int) -> TemplateBatch:
    """n samples whose wildcards are filled from `per_sample`·n tokens."""
    made = REGRESSION_TASKS[task]().with_cls()
    alphabet = max(int(per_sample * n), made.wildcard_count)
    return made.sample(n, stream("abstract_symbols/fig4", seed, n, alphabet), alphabet=alphabet)


def indicators(template: NDArray[np.int64], count: int) -> Array:
    """Orthonormal indicators: column j marks the samples of template j."""
    B = np.eye(count)[template]
    return B / np.sqrt(B.sum(axis=0))


def fig4(
    samples: KernelSamples = (64, 128, 256, 512, 1024, 2048),
    per_sample: Annotated[Positive, about("Tokens of the training alphabet for every sample.")] = 4.0,
    architectures: Kernels = (TRANSFORMER, MLP_XX, MLP),
    task: RegressionTask = "same_different",
    seeds: Seeds = 3,
    shown: Annotated[Count, about("Samples whose kernel matrix is shown.", unit="samples")] = 60,
) -> xr.Dataset:
    """Fig 4: the angle between the top eigenspace of K̂ and the templates' indicators, and K̂ itself for `shown` samples.

    `gram` is the kernel matrix of the first seed, sorted by template; `blocks` is the idealised one made of N.
    """
    listed = seed_list(seeds if isinstance(seeds, int) else list(seeds))
    r = len(REGRESSION_TASKS[task]().templates)
    angles = np.empty((len(architectures), len(samples), len(listed)))
    grams, blocks = [], []
    for a, name in enumerate(architectures):
        kernel = KernelSetting(name).kernel
        for (i, n), (s, seed) in itertools.product(enumerate(samples), enumerate(listed)):
            train = block_sample(task, n, per_sample, seed)
            top = np.linalg.eigh(kernel(train.tokens, train.tokens))[1][:, -r:]
            angles[a, i, s] = theory.principal_angle(top, indicators(train.template, r))
        few = block_sample(task, shown, per_sample, listed[0])
        order = np.argsort(few.template, kind="stable")
        grams.append(kernel(few.tokens[order], few.tokens[order]))
        N = template_matrix(few.task, kernel, accuracy=KERNEL_ACCURACY).N
        blocks.append(N[np.ix_(few.template[order], few.template[order])])
    return trajectory(
        {
            "angle": (("architecture", "n", "seed"), angles),
            "gram": (("architecture", "row", "column"), np.array(grams)),
            "blocks": (("architecture", "row", "column"), np.array(blocks)),
        },
        {"architecture": list(architectures), "n": list(samples), "seed": listed},
        units={"angle": "degrees"},
        task=task,
        per_sample=per_sample,
    )


def kernel_regression(
    samples: KernelSamples = (32, 128, 512, 2048),
    alphabets: Annotated[
        Sequence[Count], NOT_EMPTY, about("Sizes of the alphabet that fills the wildcards.", unit="tokens")
    ] = (16, 128, 1024, 8192),
    ridges: Annotated[Sequence[Positive], about("Ridges λ that stay the same whatever n.")] = (0.01, 0.1),
    ratios: Annotated[Sequence[Positive], about("Ratios λ/n of ridges that grow with n.")] = (0.001, 0.01),
    architecture: Annotated[KernelName, about("The architecture whose kernel is used.")] = TRANSFORMER,
    task: RegressionTask = "same_different",
    seeds: Seeds = 5,
) -> xr.Dataset:
    """Squared error on unseen symbols against n and the alphabet, for each fixed λ and for each λ = ratio·n.

    Theorem 3.4 and Lemma D.1. `ideal` is the error of the estimator of eq. 15, `apart` the exact error of the real one
    when no two samples share a token.
    """
    made, kernel = REGRESSION_TASKS[task]().with_cls(), KernelSetting(architecture).kernel
    matrix = template_matrix(made, kernel, accuracy=KERNEL_ACCURACY)
    weights, labels = np.asarray(made.weights), np.asarray(made.labels, dtype=np.float64)
    rules = {f"λ = {ridge:g}": partial(_fixed, ridge) for ridge in ridges}
    rules |= {f"λ = {ratio:g}n": partial(_growing, ratio) for ratio in ratios}
    measured, ideal, apart = [], [], []
    for rule in rules.values():
        errors = measured_errors(made, kernel, samples=samples, alphabets=alphabets, ridge=rule, seeds=seeds)
        measured.append(errors.loss)
        limits = [theory.proportional_ridge_limit(matrix.N, weights, labels, rule(n, 0) / n) for n in samples]
        ideal.append([float(weights @ (limit - labels) ** 2) for limit in limits])
        apart.append([float(LearningCurve(matrix, rule(n, 0)).loss(np.array([float(n)]))[0]) for n in samples])
    return trajectory(
        {
            "loss": (("rule", "n", "alphabet", "seed"), np.stack([loss.values for loss in measured])),
            "ideal": (("rule", "n"), np.array(ideal)),
            "apart": (("rule", "n"), np.array(apart)),
        },
        {"rule": list(rules), "n": list(samples), "alphabet": list(alphabets), "seed": measured[0].seed.values},
        task=task,
        architecture=architecture,
    )


def _fixed(ridge: float, n: int, diversity: float) -> float:
    return ridge


def _growing(ratio: float, n: int, diversity: float) -> float:
    return ratio * n


def data_efficiency(
    task: RegressionTask = "same_different",
    architecture: Annotated[KernelName, about("The architecture whose kernel is used.")] = TRANSFORMER,
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
        batched={"architectures": "architecture"},
        settings={"fast": {"samples": (64, 256), "seeds": 1, "shown": 40}, "full": {}},
    ),
    Experiment(
        "abstract_symbols/kernel_regression",
        "Kernel ridge regression on unseen symbols against n, the alphabet and the ridge, beside eq. 15",
        kernel_regression,
        batched={"seeds": "seed"},
        settings={
            "fast": {"samples": (32, 128), "alphabets": (16, 1024), "seeds": 2, "ridges": (0.01,), "ratios": (0.001,)},
            "full": {},
        },
    ),
    Experiment(
        "abstract_symbols/data_efficiency",
        "Samples needed by each architecture on each task, from the matrix N alone",
        data_efficiency,
        {"task": tuple(REGRESSION_TASKS), "architecture": ARCHITECTURES},
        settings={"fast": {"task": ("same_different", "aba_abb")}, "full": {}},
    ),
]
