"""Will this architecture learn these templates on unseen symbols, why, and from how many samples?

The answer comes from the matrix N of the task (see `foretrain.kernels.template_matrix`) for kernel regression
with the random features of each architecture. Errors are squared errors on strings of unseen symbols, as a
share of the error of the best constant guess; for next-token tasks, of naming the template's answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xarray as xr

from foretrain.core.errors import require, require_positive
from foretrain.core.trajectory import trajectory
from foretrain.data.templates import CLS, TemplateTask
from foretrain.kernels.architectures import (
    ARCHITECTURES,
    TRANSFORMER,
    TRANSFORMER_AI,
    architecture_kernel,
    kernel_accuracy,
    sampling_error,
)
from foretrain.kernels.learning_curve import LearningCurve, learning_curve
from foretrain.kernels.regression import Kernel, answers, measured_errors, targets
from foretrain.kernels.sharing import RATIOS
from foretrain.kernels.template_matrix import TemplateMatrix, strings_apart, template_matrix

SAMPLES = (16, 64, 256, 1024, 4096, 16384, 65536)
CURVES = ("error", "error_low", "error_high")
MOST_SIMULATED = 4000
MOST_PATTERNS = 200  # ways to share one token
LEARNT = 1e-6  # of the trivial error: what is left in the limit of a task that is learned
LAST_LAYER = (
    "These are errors of kernel regression: random features at initialisation, only the last layer trained. A network "
    "trained in all its layers may need fewer samples; what it cannot tell apart at initialisation, an MLP never can "
    "(Theorem I.2)."
)
COPYING = (
    "Labels are wildcards: whoever tells the templates apart still has to output a symbol it never saw. Attention does "
    "not learn that at large embedding dimension (Theorem 4.1) unless b·I is added to W_V·W_Oᵀ (Theorem 4.2), and an "
    "MLP has the same output on all unseen symbols (Lemma I.7). The errors are those of telling the answers apart."
)


@dataclass(frozen=True)
class ForecastSetting:
    """Constants of the kernels; the defaults are those of a network as it is initialised."""

    beta: float = 1.0  # inverse temperature of attention
    gamma: float = 1.0  # size of positions relative to tokens
    activation: str = "cosine"  # the one that Lemma 3.6 is proved for
    identity: float = 1.0  # the a of a·I, and the multiple of XXᵀ that the MLP is given
    ridge: float = 0.01  # small and fixed: one that grows with n does not generalise

    def kernel(self, architecture: str) -> Kernel:
        return architecture_kernel(architecture, **self._constants)

    def sampling_error(self, architecture: str, task: TemplateTask) -> float:
        """A bound on the error of entries of N that are sampled; 0 if none is."""
        return sampling_error(architecture, *strings_apart(task), **self._constants)

    def sees_all(self, architecture: str) -> bool:
        """Whether attention sees tokens and positions: then templates that look the same may only be very similar."""
        return architecture in (TRANSFORMER, TRANSFORMER_AI) and self.beta > 0 and self.gamma > 0

    def proved_nonsingular(self, architecture: str) -> bool:
        """Whether Lemmas 3.6 and 3.7 speak of N: of the plain transformer, with cosine."""
        return architecture == TRANSFORMER and self.activation == "cosine" and self.sees_all(architecture)

    @property
    def _constants(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key != "ridge"}


def forecast_templates(
    task: TemplateTask,
    setting: ForecastSetting | None = None,
    *,
    alphabet: int | None = None,
    error: float = 0.1,
    samples: Sequence[int] = SAMPLES,
    simulate: int = 0,
    seeds: int = 3,
    architectures: Sequence[str] = ARCHITECTURES,
) -> xr.Dataset:
    """The forecast for each architecture.

    alphabet  tokens of the training alphabet; None: as many as samples, so that they rarely meet
    error     for `samples_needed`, as a share of the trivial error
    simulate  also run kernel regression for those samples that do not exceed this number
    """
    setting = setting or ForecastSetting()
    require(0 < error < 1, f"error must lie between 0 and 1, a share of the error of a constant guess; got {error}.")
    require_positive("ridge", setting.ridge)
    require(len(samples) >= 1 and min(samples) >= 1, f"samples must be whole numbers of at least 1; got {samples}.")
    require(
        0 <= simulate <= MOST_SIMULATED,
        f"simulate must lie between 0 and {MOST_SIMULATED} samples (memory); got {simulate}.",
    )
    trivial = trivial_loss(task)
    ending = task if all(t.symbols[-1] == CLS for t in task.templates) else task.with_cls()
    rows, measured = [], []
    inexact: dict[str, float] = {}
    for name in architectures:
        kernel = setting.kernel(name)
        sampled = setting.sampling_error(name, ending)
        inexact |= {name: sampled} if sampled else {}
        accuracy = kernel_accuracy(name, beta=setting.beta) + sampled
        matrix = template_matrix(ending, kernel, accuracy=accuracy)
        curve = _curve(matrix, kernel, setting.ridge, alphabet)
        row = _one(curve, trivial, error, samples, setting, name)
        rows.append(_must_copy(row) if copies(task) else row)
        few = [n for n in samples if n <= simulate]
        if few:
            sizes = None if alphabet is None else [alphabet]
            errors = measured_errors(
                matrix.task, kernel, samples=few, alphabets=sizes, ridge=setting.ridge, seeds=seeds
            ).loss
            measured.append((errors if alphabet is None else errors.isel(alphabet=0, drop=True)) / trivial)
    result = trajectory(
        {
            key: (("architecture", "n") if key in CURVES else "architecture", [row[key] for row in rows])
            for key in rows[0]
        },
        {"architecture": list(architectures), "n": list(samples)},
        task=task.name,
        kind=task.kind,
        templates=[str(template) for template in task.templates],
        labels=list(task.labels),
        weights=list(task.weights),
        noise=task.noise,
        alphabet=alphabet,
        error=error,
        setting=asdict(setting),
        notes=notes(task, alphabet, max(samples), inexact),
    )
    if measured:
        result["simulated"] = xr.concat(measured, "architecture").reindex(n=list(samples))
    return result


def trivial_loss(task: TemplateTask) -> float:
    """Squared error of the best constant guess; of the guess 0 if a constant is right."""
    wanted, weights = targets(task), np.asarray(task.weights)
    variance = float(weights @ ((wanted - weights @ wanted) ** 2).sum(axis=1))
    return variance if variance > 1e-12 else max(float(weights @ (wanted**2).sum(axis=1)), 1e-12)


def _curve(matrix: TemplateMatrix, kernel: Kernel, ridge: float, alphabet: int | None) -> LearningCurve:
    """With shared tokens where their patterns are few enough to compute in seconds."""
    if too_many_patterns(matrix.task):
        return LearningCurve(matrix, ridge)
    return learning_curve(matrix, kernel, ridge=ridge, alphabet=alphabet)


def too_many_patterns(task: TemplateTask) -> bool:
    """Whether pairs of samples can share a token in more ways than kernels are computed for here."""
    widths = [len(template.wildcards) for template in task.templates]
    return sum(w * v for w, v in itertools.combinations_with_replacement(widths, 2)) > MOST_PATTERNS


def _one(
    curve: LearningCurve, trivial: float, error: float, samples: Sequence[int], setting: ForecastSetting, name: str
) -> dict[str, object]:
    """What is said of one architecture."""
    matrix = curve.matrix
    proved = setting.proved_nonsingular(name)  # even where its numbers cannot show it
    merged = [] if setting.sees_all(name) else [group for group in matrix.groups if len(group) > 1]
    limit = 0.0 if proved else matrix.limit_loss() / trivial
    learnable = limit <= LEARNT
    # Beyond this n the eigenvalues of N that matter are smaller than the errors of its entries.
    most = 0.1 / matrix.resolution
    needed = curve.samples_needed(error * trivial, most=most)
    low, middle, high = np.array([np.quantile(curve.draws(n), [0.05, 0.5, 0.95]) for n in samples]).T / trivial
    return {
        "learnable": learnable,
        "tells_apart": learnable,
        "undecided": not learnable and not _differing(matrix, merged),
        "why": _why(matrix, learnable, proved, merged),
        "condition": matrix.condition,
        "inverse_norm": matrix.inverse_norm,
        "resolution": matrix.resolution,
        "nonsingular": proved or matrix.blind_count == 0,
        "singular": matrix.blind_count > 0 and len(merged) > 0,
        "condition_at_least": float(matrix.eigenvalues[-1] / max(matrix.eigenvalues[0], matrix.resolution)),
        "limit_error": 0.0 if learnable else limit,
        "samples_needed": needed,
        "samples_limit": most,
        "too_few_tokens": not np.isfinite(needed) and curve.saturates(most),
        "error": middle,
        "error_low": low,
        "error_high": high,
    }


def copies(task: TemplateTask) -> bool:
    """Whether an answer is a wildcard, so that on unseen symbols it is a symbol never seen."""
    wild = {name for template in task.templates for name in template.wildcard_names}
    return task.kind == "next-token" and any(label in wild for label in task.labels)


def _must_copy(row: dict[str, object]) -> dict[str, object]:
    """To tell the answers apart is not enough where the answer is an unseen symbol."""
    why = f"it cannot output a symbol it never saw; otherwise {row['why']}"
    return {**row, "learnable": False, "undecided": False, "why": why, "samples_needed": np.inf}


def _differing(matrix: TemplateMatrix, merged: list[list[int]]) -> list[list[int]]:
    """The groups of templates that look the same and have different labels."""
    given = answers(matrix.task)
    return [group for group in merged if len({given[i] for i in group}) > 1]


def _why(matrix: TemplateMatrix, learnable: bool, proved: bool, merged: list[list[int]]) -> str:
    """The directions of N, named by templates; `merged` groups of them look the same for sure."""
    faint = f"it sees least along {matrix.faint_direction()}"
    if matrix.blind_count == 0:
        if len(matrix.N) == 1:
            return "N is one number, and it is not 0"
        return f"N is nonsingular; {faint} (eigenvalue {matrix.eigenvalues[0]:.2g})"
    if proved:
        return (
            f"N is nonsingular for almost all β and γ (Lemmas 3.6 and 3.7), but {matrix.blind_count} of its "
            f"{len(matrix.N)} eigenvalues cannot be told from 0; {faint}"
        )
    if not merged:
        unseen = f"{matrix.blind_count} of the {len(matrix.N)} eigenvalues of N cannot be told from 0 at this accuracy"
        return f"{unseen}; {faint}"
    differing = _differing(matrix, merged)
    shown = differing[0] if differing else merged[0]
    names = ", ".join(matrix.names[i] for i in shown[:4]) + (", …" if len(shown) > 4 else "")
    among = f"N is singular: {names} look the same to it"
    if learnable:
        return f"{among}, but their labels agree"
    rest = f" (and {len(differing) - 1} more such groups)" if len(differing) > 1 else ""
    return (
        f"{among}, and their labels differ{rest}"
        if differing
        else f"{among}; it is blind along {matrix.faint_direction()}"
    )


def notes(task: TemplateTask, alphabet: int | None, most: int, inexact: dict[str, float]) -> list[str]:
    """What a reader of the table has to know.

    most     the largest number of samples forecast
    inexact  the architectures with sampled entries of N, and a bound on their error
    """
    said = [LAST_LAYER]
    if copies(task):
        said.append(COPYING)
    if too_many_patterns(task):
        said.append("Tokens that samples share are left out: these templates can share them in too many ways.")
    elif alphabet is not None:
        said.append(
            f"The training alphabet has {alphabet} tokens (diversity ρ = {task.diversity(alphabet):g}); some error is "
            "left however many samples there are, which only more tokens take away."
        )
        if most > RATIOS[-1] * alphabet:
            said.append(
                f"Beyond {RATIOS[-1]:g} samples per token ({RATIOS[-1] * alphabet:,.0f} samples) the error is taken to "
                "stay as it is, which overstates it by up to 15 %."
            )
    else:
        said.append("The training alphabet has as many tokens as there are samples.")
    if task.noise:
        said.append(f"Label noise of standard deviation {task.noise:g} is part of the samples, not of the error.")
    for name, bound in inexact.items():
        said.append(
            f"{name}: part of N is sampled, too entangled to compute, with errors up to {bound:.1g}; its smallest "
            "eigenvalues and large numbers of samples are known no better."
        )
    return said
