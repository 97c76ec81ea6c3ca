"""Kernel ridge regression on template tasks: the estimator itself, and its idealised version.

A kernel here is any function of two arrays of token numbers, one row per string, that returns the matrix of its values.
It is token-symmetric (Def. C.2) if renaming tokens changes nothing. On a string of unseen tokens the estimator then
depends on the template alone, so one test string per template is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from numpy import ndarray as Array
from scipy.linalg import cho_factor, cho_solve

from foretrain.core.errors import require, require_positive
from foretrain.core.streams import seed_list, stream
from foretrain.core.trajectory import trajectory
from foretrain.data.template_task import TemplateBatch, TemplateTask

Kernel = Callable[[Int[Array, "x position"], Int[Array, "y position"]], Float[Array, "x y"]]


def ridge_coefficients(
    gram: Float[Array, "sample sample"], labels: Float[Array, "sample *output"], ridge: float
) -> Float[Array, "sample *output"]:
    """Prop. 3.1, eq. 5: (K̂ + λI)⁻¹y, by Cholesky, with memory for one copy of K̂."""
    require_positive("ridge", ridge)
    shifted = np.array(gram, order="F")  # the order in which LAPACK works in place
    shifted.flat[:: len(gram) + 1] += ridge
    return cho_solve(cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False), labels)


def ridge_predictions(
    kernel: Kernel, train: TemplateBatch, strings: Int[Array, "string position"], ridge: float
) -> Float[Array, "string output"]:
    """Eq. 5 at each string: f̂(x) = yᵀ(K̂ + λI)⁻¹k(x), one output for numbers, one per label for symbols."""
    coefficients = ridge_coefficients(kernel(train.tokens, train.tokens), sample_targets(train), ridge)
    return kernel(strings, train.tokens) @ coefficients


def ideal_predictions(
    N: Float[Array, "r r"],
    counts: Float[Array, "*draws r"],
    means: Float[Array, "*draws r *output"],
    ridge: float | Float[Array, "r"],
) -> Float[Array, "*draws r *output"]:
    """Eq. 15 at an unseen string of each template: f̂_ideal = N(N + λD⁻¹)⁻¹ȳ, r by r instead of n by n.

    D has the number of samples per template, ȳ their mean labels. It follows from K̂_ideal = B·N·Bᵀ with the n by r
    indicator B and BᵀB = D: N·Bᵀ(BNBᵀ + λI)⁻¹y. It is computed with D^½ on both sides, so that a template may have no
    sample. With `ridge` = λ + K(x, x) − N_jj per template, it is exactly the real estimator for samples that share no
    token.
    """
    root = np.sqrt(counts)
    shrunk = root[..., :, None] * N * root[..., None, :]
    index = np.arange(len(N))
    shrunk[..., index, index] += ridge
    y = means if means.ndim > counts.ndim else means[..., None]
    solved = N @ (root[..., None] * np.linalg.solve(shrunk, root[..., None] * y))
    return solved if means.ndim > counts.ndim else solved[..., 0]


def ideal_weights(N: Float[Array, "r r"], counts: Float[Array, "r"], ridge: float) -> Float[Array, "r a"]:
    """(K̂_ideal + λI)⁻¹v_ideal(x) for a string of template a (column): one number per block of samples (row).

    It is constant on each block: B·u with u = (ND + λI)⁻¹N·e_a.
    """
    return np.linalg.solve(N * counts + ridge * np.eye(len(N)), N)


def answers(task: TemplateTask) -> list[Hashable]:
    """Each template's answer, in a form that templates can share: names of wildcards are local to a template.

    A wildcard label becomes its place in the order of first occurrence (0: the template's first wildcard). A token or
    a number stays as it is.
    """
    return [
        template.wildcards.index(label) if isinstance(label, str) and label in template.wildcards else label
        for template, label in zip(task.templates, task.labels, strict=True)
    ]


def targets(task: TemplateTask) -> Float[Array, "r output"]:
    """What a regression should output on each template: its number, or a column per answer with 1 at its own.

    See `answers`: a wildcard label means "the symbol that fills the k-th wildcard".
    """
    if task.kind == "regression":
        return np.asarray(task.labels, dtype=np.float64)[:, None]
    given = answers(task)
    columns = list(dict.fromkeys(given))
    return np.array([[float(answer == column) for column in columns] for answer in given])


def sample_targets(batch: TemplateBatch) -> Float[Array, "sample output"]:
    """What a regression should output on each sample, label noise included."""
    if batch.task.kind == "regression":
        return np.asarray(batch.labels)[:, None]
    return targets(batch.task)[batch.template]


def unseen_strings(task: TemplateTask, beyond: int) -> Int[Array, "template position"]:
    """One string per template, from tokens that an alphabet of `beyond` tokens does not have."""
    return task.one_per_template(first=beyond)


def measured_errors(
    task: TemplateTask,
    kernel: Kernel,
    *,
    samples: Sequence[int],
    alphabets: Sequence[int] | None = None,
    ridge: float | Callable[[int, float], float],
    seeds: int | Sequence[int] = 5,
    interval: float = 0.9,
) -> xr.Dataset:
    """Errors f̂(x) − f*(z) of kernel ridge regression on unseen symbols, for each number of samples and seed.

    alphabets  sizes of the training alphabet, which get an axis of their own; None: n tokens for n samples
    ridge      λ, or a function of n and ρ that returns it

    Returns `error` per template, the mean square `loss`, and for each n the bounds `loss_low` and `loss_high` between
    which the share `interval` of the seeds' losses lies.
    """
    require(0 < interval < 1, f"interval must lie between 0 and 1; got {interval}.")
    seeds = seed_list(seeds if isinstance(seeds, int) else list(seeds))
    axis = list(alphabets) if alphabets is not None else [0]
    wanted = targets(task)
    errors = np.empty((len(samples), len(axis), len(seeds), *wanted.shape))
    diversity = np.empty((len(samples), len(axis)))
    for i, n in enumerate(samples):
        for j, size in enumerate(axis):
            tokens = size or max(n, task.wildcard_count)
            diversity[i, j] = task.diversity(tokens)
            strength = ridge(n, diversity[i, j]) if callable(ridge) else ridge
            for s, seed in enumerate(seeds):
                train = task.sample(n, stream("kernel regression", seed, n, tokens), alphabet=tokens)
                errors[i, j, s] = ridge_predictions(kernel, train, unseen_strings(task, tokens), strength) - wanted
    loss = np.einsum("nasto,t->nas", errors**2, np.asarray(task.weights))
    low, high = np.quantile(loss, [(1 - interval) / 2, (1 + interval) / 2], axis=2)
    dims = ("n", "alphabet")
    result = trajectory(
        {
            "error": ((*dims, "seed", "template", "output"), errors),
            "loss": ((*dims, "seed"), loss),
            "loss_low": (dims, low),
            "loss_high": (dims, high),
            "diversity": (dims, diversity),
        },
        {"n": list(samples), "alphabet": axis, "seed": seeds, "template": [str(t) for t in task.templates]},
        task=task.name,
        interval=interval,
    )
    return result if alphabets is not None else result.isel(alphabet=0, drop=True)
