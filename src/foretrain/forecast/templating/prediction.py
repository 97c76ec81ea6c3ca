"""Will this architecture learn these templates on unseen symbols, why, and from how many samples?

The answer comes from the task's matrix N (see `foretrain.kernels.template_matrix`), for kernel regression with the
random features of each architecture. Errors are squared errors on strings of unseen symbols, divided by the error of
the best constant guess. For next-token tasks, the error is that of naming the template's answer.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xarray as xr

from foretrain.core.errors import require, require_positive
from foretrain.core.progress import Progress, tell
from foretrain.core.trajectory import trajectory
from foretrain.data.template_task import CLS, TemplateTask
from foretrain.kernels.architectures import (
    ARCHITECTURES,
    IDENTITY,
    TRANSFORMER,
    TRANSFORMER_AI,
    architecture_kernel,
    kernel_accuracy,
    sampling_error,
)
from foretrain.kernels.attention import expected_seconds
from foretrain.kernels.learning_curve import LearningCurve, learning_curve
from foretrain.kernels.regression import Kernel, answers, measured_errors, targets
from foretrain.kernels.sharing import RATIOS
from foretrain.kernels.template_matrix import TemplateMatrix, strings_apart, template_matrix

SAMPLES = (16, 64, 256, 1024, 4096, 16384, 65536)
CURVES = ("error", "error_low", "error_high")
MOST_SIMULATED = 4000  # samples that kernel regression is run for, at most
MOST_PATTERNS = 200  # most ways to share one token for which kernels are computed
PATIENCE = 120.0  # seconds for N of one architecture; if it would take longer, the slowest values are sampled
ESTIMATED = 24  # templates from which the time is estimated: looking at all pairs takes long itself
SLOW = 0.5  # seconds for one kernel value; if it takes longer, the hundreds that shared tokens need are too many
LEARNT = 1e-6  # a task is learned if its error in the limit is at most this share of the trivial error
LAST_LAYER = (
    "These are errors of kernel regression: features are random, as at initialisation, and only the last layer is "
    "trained. A network trained in all its layers may need fewer samples, but an MLP never learns to tell apart "
    "templates that look the same to it at initialisation (Theorem I.2)."
)
COPYING = (
    "Labels are wildcards: a network that tells the templates apart must still output a symbol it has never seen. "
    "Attention does not learn that at large embedding dimension (Theorem 4.1) unless b·I is added to W_V·W_Oᵀ "
    "(Theorem 4.2), and an MLP has the same output on all unseen symbols (Lemma I.7). The errors are those of telling "
    "the answers apart."
)


LARGEST = 100.0  # of beta, gamma and identity: attention is one-hot well before, and the kernels are exact up to here


@dataclass(frozen=True)
class ForecastSetting:
    """Constants of the kernels; the defaults are those of a network at initialisation."""

    beta: float = 1.0  # inverse temperature of the plain transformer's attention
    gamma: float = 1.0  # size of positions relative to tokens
    activation: str = "cosine"  # Lemma 3.6 is proved for this one
    identity: float = IDENTITY  # a of a·XXᵀ in the attention logits
    relations: float = 1.0  # multiple of XXᵀ that the MLP gets
    ridge: float = 0.01  # small and fixed: regression with one that grows with n does not generalise

    def kernel(self, architecture: str, seconds: float | None = None) -> Kernel:
        """The kernel of an architecture with these constants."""
        return architecture_kernel(architecture, seconds=seconds, **self._constants)

    def sampling_error(self, architecture: str, task: TemplateTask, seconds: float | None) -> float:
        """A bound on the error of N's entries that are computed by sampling; 0 if there are none."""
        X, Y = strings_apart(task)
        constants: dict[str, Any] = {"beta": self.beta, "gamma": self.gamma, "activation": self.activation}
        return sampling_error(architecture, X, Y, seconds=seconds, **constants)

    def expected_seconds(self, architecture: str, task: TemplateTask) -> list[float]:
        """Roughly how long each kernel value takes that N of a plain transformer needs; nothing for the others."""
        if architecture != TRANSFORMER:
            return [0.0]
        X, Y = (strings[:ESTIMATED].tolist() for strings in strings_apart(task))
        seconds = expected_seconds(X, Y, beta=self.beta, gamma=self.gamma)
        return seconds * math.ceil((len(task.templates) / len(X)) ** 2)

    def sees_all(self, architecture: str) -> bool:
        """Whether attention sees tokens and positions. If so, templates that look the same may only be similar."""
        looks = {TRANSFORMER: self.beta, TRANSFORMER_AI: self.identity}
        return looks.get(architecture, 0) > 0 and self.gamma > 0

    def proved_nonsingular(self, architecture: str) -> bool:
        """Whether Lemmas 3.6 and 3.7 apply to N: they cover the plain transformer with cosine activation."""
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

    alphabet  number of tokens in the training alphabet; by default as many as samples, so that few are shared
    error     the error that `samples_needed` is for, as a share of the trivial error
    simulate  also run kernel regression for the numbers of samples up to this one
    """
    setting = setting or ForecastSetting()
    require(0 < error < 1, f"error must lie between 0 and 1, as a share of the error of a constant guess; got {error}.")
    require_positive("ridge", setting.ridge)
    for name in ("beta", "gamma", "identity", "relations"):
        value = getattr(setting, name)
        require(0 <= value <= LARGEST, f"{name} must lie between 0 and {LARGEST:g}; got {value:g}.")
    require(len(samples) >= 1 and min(samples) >= 1, f"samples must be whole numbers of at least 1; got {samples}.")
    require(
        0 <= simulate <= MOST_SIMULATED,
        f"simulate must lie between 0 and {MOST_SIMULATED} samples, to fit in memory; got {simulate}.",
    )
    trivial = trivial_loss(task)
    with_cls = task if all(t.symbols[-1] == CLS for t in task.templates) else task.with_cls()
    rows, measured, slow = [], [], too_many_patterns(task)
    inexact: dict[str, float] = {}
    for place, name in enumerate(architectures):
        tell(Progress(place, len(architectures), name))
        expected = setting.expected_seconds(name, with_cls)
        longest = PATIENCE / len(expected) if sum(expected) > PATIENCE else None
        kernel = setting.kernel(name, longest)
        sampling_error = setting.sampling_error(name, with_cls, longest)
        inexact |= {name: sampling_error} if sampling_error else {}
        accuracy = kernel_accuracy(name, beta=setting.beta) + sampling_error
        matrix = template_matrix(with_cls, kernel, accuracy=accuracy)
        slow |= max(expected) > SLOW
        curve = _curve(matrix, kernel, setting.ridge, alphabet, max(expected) > SLOW)
        row = _row(curve, trivial, error, samples, setting, name)
        if copies(task):  # telling answers apart is not enough if the answer is an unseen symbol
            why = f"it cannot output a symbol it has never seen; apart from that, {row['why']}"
            row |= {"learnable": False, "undecided": False, "why": why, "samples_needed": np.inf}
        rows.append(row)
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
        notes=notes(task, alphabet, max(samples), inexact, slow),
    )
    if measured:
        result["simulated"] = xr.concat(measured, "architecture").reindex(n=list(samples))
    return result


def trivial_loss(task: TemplateTask) -> float:
    """Squared error of the best constant guess; if that is always right, of the guess 0."""
    wanted, weights = targets(task), np.asarray(task.weights)
    variance = float(weights @ ((wanted - weights @ wanted) ** 2).sum(axis=1))
    return variance if variance > 1e-12 else max(float(weights @ (wanted**2).sum(axis=1)), 1e-12)


def _curve(matrix: TemplateMatrix, kernel: Kernel, ridge: float, alphabet: int | None, slow: bool) -> LearningCurve:
    """The learning curve. It accounts for tokens that samples share if that takes only seconds to compute."""
    if slow or too_many_patterns(matrix.task):
        return LearningCurve(matrix, ridge)
    return learning_curve(matrix, kernel, ridge=ridge, alphabet=alphabet)


def too_many_patterns(task: TemplateTask) -> bool:
    """Whether pairs of samples can share a token in so many ways that computing all kernels takes too long."""
    widths = [len(template.wildcards) for template in task.templates]
    return sum(w * v for w, v in itertools.combinations_with_replacement(widths, 2)) > MOST_PATTERNS


def _row(
    curve: LearningCurve, trivial: float, error: float, samples: Sequence[int], setting: ForecastSetting, name: str
) -> dict[str, object]:
    """The results for one architecture."""
    matrix = curve.matrix
    proved = setting.proved_nonsingular(name)  # even if rounding errors hide it
    merged = [] if setting.sees_all(name) else [group for group in matrix.groups if len(group) > 1]
    limit = 0.0 if proved else matrix.limit_loss() / trivial
    learnable = limit <= LEARNT
    # For more samples, the eigenvalues of N that matter are smaller than the errors of its entries.
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
    """Whether an answer is a wildcard, so that the network must output a symbol it has never seen."""
    wild = {name for template in task.templates for name in template.wildcard_names}
    return task.kind == "next-token" and any(label in wild for label in task.labels)


def _differing(matrix: TemplateMatrix, merged: list[list[int]]) -> list[list[int]]:
    """The groups of templates that look the same but have different labels."""
    labels = answers(matrix.task)
    return [group for group in merged if len({labels[i] for i in group}) > 1]


def _why(matrix: TemplateMatrix, learnable: bool, proved: bool, merged: list[list[int]]) -> str:
    """Why the task is learnable or not. Templates in one group of `merged` certainly look the same to the network."""
    faint = f"what it sees least is {matrix.faint_direction()}"
    if matrix.blind_count == 0:
        if len(matrix.N) == 1:
            return "N is one number, and it is not 0"
        return f"N is nonsingular; {faint} (eigenvalue {matrix.eigenvalues[0]:.2g})"
    if proved:
        return (
            f"N is nonsingular for almost all β and γ (Lemmas 3.6 and 3.7), but {matrix.blind_count} of its "
            f"{len(matrix.N)} eigenvalues cannot be distinguished from 0; {faint}"
        )
    if not merged:
        return (
            f"{matrix.blind_count} of the {len(matrix.N)} eigenvalues of N cannot be distinguished from 0 at this "
            f"accuracy; {faint}"
        )
    differing = _differing(matrix, merged)
    example = differing[0] if differing else merged[0]
    names = ", ".join(matrix.names[i] for i in example[:4]) + (", …" if len(example) > 4 else "")
    among = f"N is singular: {names} look the same to it"
    if learnable:
        return f"{among}, but their labels agree"
    rest = f" (and {len(differing) - 1} more such groups)" if len(differing) > 1 else ""
    return (
        f"{among}, and their labels differ{rest}"
        if differing
        else f"{among}; it does not see {matrix.faint_direction()}"
    )


def notes(task: TemplateTask, alphabet: int | None, most: int, inexact: dict[str, float], slow: bool) -> list[str]:
    """What a reader of the table needs to know.

    most     the largest number of samples in the table
    inexact  a bound on the error of N, for each architecture with sampled entries
    slow     whether tokens that samples share are left out for some architecture
    """
    notes = [LAST_LAYER]
    if copies(task):
        notes.append(COPYING)
    nowhere = too_many_patterns(task)
    if slow:
        whose = "" if nowhere else f" for the {TRANSFORMER}"
        notes.append(
            f"Tokens that samples share are ignored{whose}: these templates share them in too many ways to compute."
        )
    if alphabet is not None and not nowhere:
        notes.append(
            f"The training alphabet has {alphabet} tokens (diversity ρ = {task.diversity(alphabet):g}). Some error "
            "remains however many samples there are; only more tokens reduce it."
        )
        if most > RATIOS[-1] * alphabet:
            notes.append(
                f"Beyond {RATIOS[-1]:g} samples per token ({RATIOS[-1] * alphabet:,.0f} samples) the error is "
                "assumed to stay the same, which overstates it by up to 15 %."
            )
    if alphabet is None and not nowhere:
        notes.append("Assumed: the training alphabet has as many tokens as there are samples.")
    if task.noise:
        notes.append(
            f"Training labels have noise of standard deviation {task.noise:g}; the error is measured without it."
        )
    for name, bound in inexact.items():
        notes.append(
            f"{name}: part of N is too entangled to compute exactly and is sampled, with errors up to {bound:.1g}; "
            "this limits the accuracy of its smallest eigenvalues and of forecasts for many samples."
        )
    return notes
