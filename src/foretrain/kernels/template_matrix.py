"""The matrix N of a template task (Abstract symbols, eq. 11): what a kernel sees of the templates alone.

N_ij is the kernel between a string of template i and a string of template j that share no substituted token.
A kernel method generalises to unseen symbols if N is nonsingular (Lemma C.3). If N is singular, it still learns labels
that vanish on the directions N cannot see.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray as Array

from foretrain.core.errors import require
from foretrain.data.template_task import CLS, TemplateTask, spelled
from foretrain.kernels.regression import Kernel, targets

EQUAL_ROWS = (
    1e-6  # relative to the largest entry: far above a kernel's error, far below a difference that helps learning
)


@dataclass(frozen=True)
class TemplateMatrix:
    """N, and what else the forecast needs; `accuracy` bounds the absolute error of its entries."""

    task: TemplateTask
    N: Float[Array, "r r"]
    own: Float[Array, "r"]  # K(x, x) for a string of each template
    accuracy: float

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The templates as text, without the [CLS] that all of them have; long ones are numbered from 1."""
        rows = (t.symbols for t in self.task.templates)
        texts = [spelled(row[:-1] if row[-1] == CLS and len(row) > 1 else row) for row in rows]
        return tuple(f"template {i}" if len(text) > 24 else text for i, text in enumerate(texts, 1))

    @cached_property
    def eigenvalues(self) -> Float[Array, "r"]:
        """In ascending order. None is negative: N is the Gram matrix of mean embeddings over fresh substitutions."""
        return np.linalg.eigvalsh(self.N)

    @property
    def condition(self) -> float:
        """Condition number; infinite if the smallest eigenvalue cannot be told from 0 at this accuracy."""
        return float(self.eigenvalues[-1] * self.inverse_norm)

    @property
    def inverse_norm(self) -> float:
        """‖N⁻¹‖; infinite if N is singular at this accuracy."""
        return float(1 / self.eigenvalues[0]) if self.blind_count == 0 else float("inf")

    @property
    def resolution(self) -> float:
        """The least eigenvalue that can be told from 0, given the errors of the entries (Weyl)."""
        return self.accuracy * len(self.N)

    @cached_property
    def blind_count(self) -> int:
        """How many directions N does not see."""
        return int((self.eigenvalues <= self.resolution).sum())

    @cached_property
    def groups(self) -> list[list[int]]:
        """Templates with equal rows of N: the kernel cannot tell them apart on unseen symbols."""
        groups: list[list[int]] = []
        near = max(EQUAL_ROWS * float(abs(self.N).max()), 2 * self.accuracy)
        for i, row in enumerate(self.N):
            for group in groups:
                if abs(row - self.N[group[0]]).max() <= near:
                    group.append(i)
                    break
            else:
                groups.append([i])
        return groups

    def faint_direction(self) -> str:
        """The combination of templates that N sees least, in words, such as "αα − αβ" or "αα − 0.5 αβ"."""
        vector = np.linalg.eigh(self.N)[1][:, 0]
        vector = vector / vector[np.argmax(abs(vector))]
        order = np.argsort(-abs(vector), kind="stable")
        shown = [i for i in order if abs(vector[i]) > 0.05]
        sizes = [f"{abs(vector[i]):.2g}" for i in shown[:4]]
        terms = [
            f"{'−' if vector[i] < 0 else '+'} {f'{size} ' * (size != '1')}{self.names[i]}"
            for i, size in zip(shown, sizes, strict=False)
        ]
        return " ".join(terms).removeprefix("+ ") + (" …" if len(shown) > 4 else "")

    def limit_loss(self) -> float:
        """Mean squared error on unseen symbols with infinitely many samples and tokens.

        N(N + εD⁻¹)⁻¹f* for ε → 0: the error is what weighted least squares on the range of N leaves of the labels.
        """
        if self.blind_count == 0:
            return 0.0
        root = np.sqrt(np.asarray(self.task.weights))[:, None]
        values, vectors = np.linalg.eigh(self.N)
        seen = np.linalg.qr(root * vectors[:, values > self.resolution])[0]
        wanted = root * targets(self.task)
        return float(((wanted - seen @ (seen.T @ wanted)) ** 2).sum())


def strings_apart(task: TemplateTask) -> tuple[Int[Array, "r position"], Int[Array, "r position"]]:
    """Two strings of each template that share no substituted token."""
    strings = task.one_per_template()
    return strings, task.one_per_template(first=len(strings) * max(1, task.wildcard_count))


def template_matrix(task: TemplateTask, kernel: Kernel, *, accuracy: float = 1e-8) -> TemplateMatrix:
    """N of eq. 11 with its condition number and ‖N⁻¹‖. If the kernel needs a [CLS], the task must end with it.

    accuracy  a bound on the error of the kernel's values
    """
    require(accuracy > 0, f"accuracy must be above 0; got {accuracy}.")
    strings, others = strings_apart(task)
    N = kernel(strings, others)
    with_itself = np.array([kernel(row[None], row[None])[0, 0] for row in strings])
    return TemplateMatrix(task, (N + N.T) / 2, with_itself, accuracy)
