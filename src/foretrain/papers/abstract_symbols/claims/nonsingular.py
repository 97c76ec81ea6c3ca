"""Lemmas 3.6 and 3.7, Remark I.6: the matrix N of the templates is nonsingular for transformers, not for MLPs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from foretrain.core.trajectory import trajectory
from foretrain.data.template_examples import random_templates
from foretrain.data.template_task import TemplateTask
from foretrain.kernels.activations import Cosine
from foretrain.kernels.architectures import MLP, TRANSFORMER, architecture_kernel
from foretrain.kernels.attention import attention_matrix
from foretrain.kernels.template_matrix import template_matrix
from foretrain.ledger.claim import Assumption, Claim, Control
from foretrain.ledger.comparators import close, every, positive
from foretrain.ledger.tolerances import ALGEBRA
from foretrain.papers.abstract_symbols.setting import REGRESSION_TASKS

SMALL_BETA_ACCURACY = 1e-9  # of K_attn at β ≤ 2; the error of K_trans is at most 3b1² times as large (three arguments)
Array = NDArray[np.float64]


def permutation_gaps(N: Array) -> Array:
    """Condition (10) of Lemma 3.6: Σ N_ii − Σ N_iτ(i) for every permutation τ but the identity."""
    r = len(N)
    orders = np.array(list(itertools.permutations(range(r))))[1:]
    return np.trace(N) - N[np.arange(r), orders].sum(axis=1)


def pair_gap(N: Array) -> float:
    """The smallest gap over all permutations without trying them: the smallest N_ii + N_jj − 2N_ij.

    N is the Gram matrix of mean embeddings φ_i, so the gap of τ is ½Σ‖φ_i − φ_τ(i)‖², and no permutation has a
    smaller gap than the best exchange of two templates.
    """
    gaps = np.diag(N)[:, None] + np.diag(N) - 2 * N
    return float(gaps[~np.eye(len(N), dtype=bool)].min())


def _settings(
    tasks: Sequence[str], betas: Sequence[float], gammas: Sequence[float]
) -> Iterator[tuple[str, float, float]]:
    return itertools.product(tasks, betas, gammas)


def _names(tasks: Sequence[str]) -> list[str]:
    return [REGRESSION_TASKS[task]().name for task in tasks]


def _attention_gaps(tasks: Sequence[str], betas: Sequence[float], gammas: Sequence[float]) -> xr.Dataset:
    """The smallest gap of condition (10) over all permutations, less what errors of the kernel could account for."""
    gaps, by_pairs = [], []
    for name, beta, gamma in _settings(tasks, betas, gammas):
        task = REGRESSION_TASKS[name]().with_cls()
        others = task.one_per_template(first=len(task.templates) * task.wildcard_count)
        kernel = attention_matrix(task.one_per_template().tolist(), others.tolist(), beta=beta, gamma=gamma)
        uncertain = 2 * len(task.templates) * float(kernel.errors.max())
        gaps.append(permutation_gaps(kernel.values).min() - uncertain)
        by_pairs.append(pair_gap(kernel.values) - uncertain)
    shape = (len(tasks), len(betas), len(gammas))
    dims = ("task", "beta", "gamma")
    return trajectory(
        {"gap": (dims, np.reshape(gaps, shape)), "pair_gap": (dims, np.reshape(by_pairs, shape))},
        {"task": _names(tasks), "beta": list(betas), "gamma": list(gammas)},
    )


ALL_TASKS = tuple(REGRESSION_TASKS)

lemma3_7 = Claim(
    id="abstract_symbols/lemma3_7",
    source="Lemma 3.7, condition (10)",
    whose="the paper's statement",
    says=(
        "For almost all β and γ no permutation of the templates but the identity has the same sum of K_attn. (Tried on "
        "all permutations. As N is a Gram matrix, it is enough to try exchanges of two templates.)"
    ),
    observe=_attention_gaps,
    compare=every(positive("gap"), positive("pair_gap")),
    settings={
        "fast": {"tasks": ALL_TASKS, "betas": (1.0,), "gammas": (0.5, 1.0)},
        "full": {"tasks": ALL_TASKS, "betas": (0.5, 1.0, 1.5, 2.0), "gammas": (0.25, 0.5, 1.0, 2.0)},
    },
    control=Control("γ = 0: without positions αβα and αββ are one bag of symbols", {"gammas": (0.0,)}),
)


def _singular_values(
    tasks: Sequence[str],
    betas: Sequence[float],
    gammas: Sequence[float],
    activations: Sequence[tuple[float, float]],
    architecture: str = TRANSFORMER,
) -> xr.Dataset:
    """The smallest eigenvalue of N_trans, less what errors of the kernel could account for (Weyl)."""
    margins = []
    for name, beta, gamma in _settings(tasks, betas, gammas):
        task = REGRESSION_TASKS[name]().with_cls()
        for b1, b2 in activations:
            kernel = architecture_kernel(architecture, beta=beta, gamma=gamma, activation=Cosine(b1, b2))
            values = template_matrix(task, kernel).eigenvalues
            margins.append(values[0] - len(values) * 3 * b1**2 * SMALL_BETA_ACCURACY)
    shape = (len(tasks), len(betas), len(gammas), len(activations))
    names = [f"cos({b1:g}t + {b2:.3g})" for b1, b2 in activations]
    return trajectory(
        {"eigenvalue": (("task", "beta", "gamma", "activation"), np.reshape(margins, shape))},
        {"task": _names(tasks), "beta": list(betas), "gamma": list(gammas), "activation": names},
    )


def _condition_10(tasks: Sequence[str], betas: Sequence[float], gammas: Sequence[float]) -> tuple[bool, str]:
    least = float(_attention_gaps(tasks, betas, gammas).gap.min())
    return least > 0, f"the least gap over all permutations is {least:.2g}"


lemma3_6 = Claim(
    id="abstract_symbols/lemma3_6",
    source="Lemma 3.6",
    whose="the paper's statement",
    says="With φ(t) = cos(b1·t + b2) the matrix N of K_trans is nonsingular for almost all b1 and b2 (and β and γ).",
    observe=_singular_values,
    compare=positive("eigenvalue"),
    assumes=(Assumption("condition (10) holds for every permutation", _condition_10),),
    settings={
        "fast": {
            "tasks": ALL_TASKS,
            "betas": (1.0, 2.0),
            "gammas": (1.0,),
            "activations": ((1.0, np.pi / 4), (0.7, 0.3), (2.0, 1.0)),
        },
        "full": {
            "tasks": ALL_TASKS,
            "betas": (1.0, 1.5, 2.0),
            "gammas": (0.5, 1.0, 2.0),
            "activations": ((1.0, np.pi / 4), (0.7, 0.3), (2.0, 1.0), (1.5, 0.0), (3.0, 0.1)),
        },
    },
    control=Control("an MLP: its kernel counts equal positions only", {"architecture": MLP}),
)


def _remark_tasks(random_tasks: int, tokens: int) -> list[TemplateTask]:
    """Named tasks of wildcards only, and random templates over three wildcards and so many tokens."""
    listed = [make() for make in REGRESSION_TASKS.values()]
    drawn = [random_templates(4, 4, tokens=tokens, seed=seed) for seed in range(1, random_tasks + 1)]
    return [task for task in listed if not task.vocabulary] + drawn


def _all_equal(random_tasks: int, b1: float, b2: float) -> xr.Dataset:
    """Remark I.6: every entry of N is κ(0)."""
    size = sum(len(task.templates) ** 2 for task in _remark_tasks(random_tasks, 0))
    ones = np.ones(size)
    return _entries(Cosine(b1, b2).expectation(ones, ones, 0 * ones))


def _mlp_entries(random_tasks: int, b1: float, b2: float, tokens: int = 0, architecture: str = MLP) -> xr.Dataset:
    kernel = architecture_kernel(architecture, activation=Cosine(b1, b2))
    entries = [template_matrix(task, kernel).N.ravel() for task in _remark_tasks(random_tasks, tokens)]
    return _entries(np.concatenate(entries))


def _entries(values: np.ndarray) -> xr.Dataset:
    return trajectory({"N": ("entry", values)})


remarkI6 = Claim(
    id="abstract_symbols/remarkI6",
    source="Remark I.6",
    whose="the paper's statement",
    says=(
        "The kernel of an MLP depends only on the number of equal positions, so for templates of wildcards only (those "
        "of Theorem I.2) all entries of N are κ(0), and N is singular."
    ),
    predict=_all_equal,
    observe=_mlp_entries,
    compare=close("N", ALGEBRA, by="by the remark", seen="by the kernel"),
    settings={"fast": {"random_tasks": 3, "b1": 1.0, "b2": 1.0}, "full": {"random_tasks": 20, "b1": 1.0, "b2": 1.0}},
    control=Control("the kernel of a transformer", {"architecture": TRANSFORMER}),
)


def _by_common_tokens(random_tasks: int, b1: float, b2: float, tokens: int) -> xr.Dataset:
    """N_ij = κ(c_ij/k), where c_ij counts the positions with the same regular token in both templates."""
    shares = []
    for task in _remark_tasks(random_tasks, tokens):
        for one, two in itertools.product(task.templates, repeat=2):
            shares.append(np.mean([x == y and x in one.tokens for x, y in zip(one.symbols, two.symbols, strict=True)]))
    ones = np.ones(len(shares))
    return _entries(Cosine(b1, b2).expectation(ones, ones, np.array(shares)))


remarkI6_tokens = Claim(
    id="abstract_symbols/remarkI6_tokens",
    source="Remark I.6, for templates with regular tokens",
    whose="our own expectation",
    says="For an MLP N_ij = κ(c_ij/k), where c_ij counts the positions that hold the same regular token in both "
    "templates.",
    finding=(
        "Remark I.6 is about templates of wildcards only. With regular tokens an MLP's N may be nonsingular: it tells "
        "apart aα from bα on unseen symbols, though never αα from αβ."
    ),
    predict=_by_common_tokens,
    observe=_mlp_entries,
    compare=close("N", ALGEBRA, by="by formula", seen="by the kernel"),
    settings={
        "fast": {"random_tasks": 3, "b1": 1.0, "b2": 1.0, "tokens": 3},
        "full": {"random_tasks": 20, "b1": 1.0, "b2": 1.0, "tokens": 3},
    },
    control=Control("the kernel of a transformer", {"architecture": TRANSFORMER}),
)

CLAIMS = [lemma3_6, lemma3_7, remarkI6, remarkI6_tokens]
