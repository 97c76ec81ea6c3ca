"""The matrix N of a template task (Abstract symbols, eq. 11): what a kernel sees of the templates alone.

N_ij is the kernel between a string of template i and a string of template j that share no substituted token.
A kernel method generalises to unseen symbols if N is nonsingular (Lemma C.3). If it is singular, it still
learns labels that vanish on the directions N cannot see.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array

from foretrain.data.templates import CLS, TemplateTask, spelled
from foretrain.errors import require, require_at_least, require_positive
from foretrain.kernels.regression import Kernel, ideal_predictions, targets
from foretrain.streams import stream

EQUAL_ROWS = 1e-6  # relative to the largest entry: far above the accuracy of a kernel, far below what helps to learn


@dataclass(frozen=True)
class TemplateMatrix:
    """N with what else the forecast needs; `accuracy` bounds the absolute error of its entries."""

    task: TemplateTask
    N: Float[Array, "r r"]
    own: Float[Array, "r"]  # K(x, x) for a string of each template
    accuracy: float

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The templates as text, without the [CLS] that all of them share."""
        rows = (t.symbols for t in self.task.templates)
        return tuple(spelled(row[:-1] if row[-1] == CLS and len(row) > 1 else row) for row in rows)

    @cached_property
    def eigenvalues(self) -> Float[Array, "r"]:
        """Rising. N is the Gram matrix of mean embeddings over fresh substitutions, so none is negative."""
        return np.linalg.eigvalsh(self.N)

    @property
    def condition(self) -> float:
        """Condition number; infinite if the smallest eigenvalue cannot be told from 0 at this accuracy."""
        return float(self.eigenvalues[-1] * self.inverse_norm)

    @property
    def inverse_norm(self) -> float:
        """‖N⁻¹‖; infinite if N is singular at this accuracy."""
        return float(1 / self.eigenvalues[0]) if self.blind_count == 0 else float("inf")

    @cached_property
    def blind_count(self) -> int:
        """How many directions N does not see: eigenvalues within the error that its entries allow (Weyl)."""
        return int((self.eigenvalues <= self.accuracy * len(self.N)).sum())

    @cached_property
    def groups(self) -> list[list[int]]:
        """Templates with equal rows of N: the kernel cannot tell them apart on unseen symbols."""
        found: list[list[int]] = []
        near = max(EQUAL_ROWS * float(abs(self.N).max()), 2 * self.accuracy)
        for i, row in enumerate(self.N):
            for group in found:
                if abs(row - self.N[group[0]]).max() <= near:
                    group.append(i)
                    break
            else:
                found.append([i])
        return found

    def faint_direction(self) -> str:
        """The combination of templates that N sees least, in words, such as "1.0 αα − 1.0 αβ"."""
        vector = np.linalg.eigh(self.N)[1][:, 0]
        vector = vector / vector[np.argmax(abs(vector))]
        order = np.argsort(-abs(vector), kind="stable")
        shown = [i for i in order if abs(vector[i]) > 0.05]
        terms = [f"{'−' if vector[i] < 0 else '+'} {abs(vector[i]):.2g} {self.names[i]}" for i in shown[:4]]
        return " ".join(terms).removeprefix("+ ") + (" …" if len(shown) > 4 else "")

    def limit_loss(self) -> float:
        """Mean squared error on unseen symbols with endlessly many samples and tokens.

        N(N + εD⁻¹)⁻¹f* for ε → 0: what is left of the labels outside the range of D^½·N·D^½.
        """
        root = np.sqrt(np.asarray(self.task.weights))
        values, vectors = np.linalg.eigh(root[:, None] * self.N * root)
        unseen = vectors[:, values <= self.accuracy * len(self.N)]
        return float(((unseen.T @ (root[:, None] * targets(self.task))) ** 2).sum())

    def loss(self, n: Float[Array, "n"], *, ridge: float) -> Float[Array, "n"]:
        """Expected squared error on unseen symbols from n samples that share no token, for each n.

        The estimator is N(N + R/(nμ))⁻¹ȳ with R = λ + K(x,x) − N_jj per template, that is
        Q⁻¹·nA(nA + I)⁻¹·Qȳ with Q = (μ/R)^½ and A = Q·N·Q, whose eigenvectors serve every n. Counts at their
        means; label noise σ adds its variance σ²/(nμ) through the same matrix.
        """
        n, weights = np.asarray(n, dtype=np.float64), np.asarray(self.task.weights)
        q = np.sqrt(weights / self._shift(ridge))
        values, vectors = np.linalg.eigh(q[:, None] * self.N * q)
        left = 1 / (1 + np.maximum(values, 0) * n[:, None])  # what the estimator leaves out, per n and direction
        bias = np.einsum("re,ne,eo->nro", vectors / q[:, None], left, vectors.T @ (q[:, None] * targets(self.task)))
        loss = np.einsum("nro,r->n", bias**2, weights)
        if self.task.noise:
            smoother = np.einsum("re,ne,es->nrs", vectors / q[:, None], 1 - left, vectors.T * q)
            loss += np.einsum("nrs,r,s->n", smoother**2, weights, 1 / weights) * self.task.noise**2 / n
        return loss

    def loss_draws(self, n: int, *, ridge: float, draws: int = 200, seed: int = 1) -> Float[Array, "draws"]:
        """Squared errors over `draws` samples of n: how many fall to each template, and their label noise."""
        require_at_least("draws", draws, 1)
        weights = np.asarray(self.task.weights)
        draw = stream("template matrix", seed, n)
        counts = draw.multinomial(n, weights, size=draws).astype(np.float64)
        wanted = targets(self.task)
        noise = self.task.noise / np.sqrt(np.maximum(counts, 1)) * draw.standard_normal(counts.shape)
        errors = self.predictions(counts, wanted + noise[..., None], ridge=ridge) - wanted
        return np.einsum("dro,r->d", errors**2, weights)

    def predictions(
        self, counts: Float[Array, "*draws r"], means: Float[Array, "*draws r output"], *, ridge: float
    ) -> Float[Array, "*draws r output"]:
        """The estimator at an unseen string of each template, for samples that share no token."""
        return ideal_predictions(self.N, counts, means, self._shift(ridge))

    def samples_needed(self, loss: float, *, ridge: float, most: float = 1e12) -> float:
        """The n (to 1 %) from which on the expected squared error stays within `loss`; infinite if beyond `most`."""
        require_positive("error", loss)
        low, high = 1.0, most
        while high > 1.01 * low:
            grid = np.geomspace(low, high, 30)
            above = np.flatnonzero(self.loss(grid, ridge=ridge) > loss)
            if len(above) == 0:
                return float(np.ceil(low))
            if above[-1] == len(grid) - 1:
                return float("inf")
            low, high = float(grid[above[-1]]), float(grid[above[-1] + 1])
        return float(np.ceil(high))

    def _shift(self, ridge: float) -> Float[Array, "r"]:
        """λ and what a sample's kernel with itself has beyond N, which acts as a ridge of its own."""
        require_positive("ridge", ridge)
        return ridge + np.maximum(self.own - np.diag(self.N), 0)


def template_matrix(task: TemplateTask, kernel: Kernel, *, accuracy: float = 1e-8) -> TemplateMatrix:
    """N of eq. 11 with its condition number and ‖N⁻¹‖; the task ends with [CLS] if the kernel wants one."""
    require(accuracy > 0, f"accuracy must be above 0; got {accuracy}.")
    strings = task.one_per_template()
    others = task.one_per_template(first=len(strings) * max(1, task.wildcard_count))
    N = kernel(strings, others)
    own = np.array([kernel(row[None], row[None])[0, 0] for row in strings])
    return TemplateMatrix(task, (N + N.T) / 2, own, accuracy)
