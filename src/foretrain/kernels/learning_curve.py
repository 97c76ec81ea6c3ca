"""The learning curve of kernel regression on a template task (error against samples), from r by r matrices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array

from foretrain.core.errors import require_at_least, require_positive
from foretrain.core.streams import stream
from foretrain.kernels.regression import Kernel, targets
from foretrain.kernels.sharing import Precision, Sharing, apart, measure_sharing
from foretrain.kernels.template_matrix import TemplateMatrix


@dataclass(frozen=True)
class LearningCurve:
    """Squared error on unseen symbols against the number of samples n.

    ridge     λ
    sharing   how samples share tokens; None: no two do, and the curve is exact
    alphabet  number of tokens in the training alphabet; None: as many as samples
    """

    matrix: TemplateMatrix
    ridge: float
    sharing: Sharing | None = None
    alphabet: int | None = None

    def __post_init__(self) -> None:
        require_positive("ridge", self.ridge)

    def precision(self, n: Float[Array, "n"]) -> Precision:
        """P and Q of n samples (see `foretrain.kernels.sharing`)."""
        size = np.asarray(n, dtype=np.float64)[:, None, None]
        if self.sharing is None:
            extra = np.maximum(self.matrix.own - np.diag(self.matrix.N), 0)
            one = apart(np.asarray(self.matrix.task.weights), self.ridge + extra)
        else:
            tokens = n if self.alphabet is None else np.full(len(n), float(self.alphabet))
            one = self.sharing.at(n / tokens)
        return Precision(size * one.P, size * one.Q)

    def loss(self, n: Float[Array, "n"]) -> Float[Array, "n"]:
        """Expected squared error from n samples, for each n, if every template has exactly its share of them.

        Without noise f̂ − f* = −(I + NP)⁻¹f*; label noise σ adds σ²·diag(G·N·Q·N·Gᵀ), G = (I + NP)⁻¹.
        """
        of = self.precision(np.asarray(n, dtype=np.float64))
        through = self._through(of.P)
        spread = np.einsum("nrs,nst,nrt->nr", through, of.Q, through)
        return self._mean_square(self._bias(of.P)) + self.matrix.task.noise**2 * spread @ self._weights

    def draws(self, n: int, *, draws: int = 200, seed: int = 1) -> Float[Array, "draws"]:
        """Squared errors of random samples of size n, which differ in their counts per template and label noise.

        P of a draw is S·P·S with S = √(count/(nμ)), and likewise Q, which is exact if no token is shared.
        """
        require_at_least("draws", draws, 1)
        draw = stream("learning curve", seed, n)
        scale = np.sqrt(draw.multinomial(n, self._weights, size=draws) / (n * self._weights))
        of = self.precision(np.array([float(n)]))
        P = scale[:, :, None] * of.P * scale[:, None, :]
        errors = self._bias(P)
        if self.matrix.task.noise:
            values, vectors = np.linalg.eigh(of.Q)  # Q is singular if a rare template was never sampled
            root = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
            noise = scale[:, :, None] * (root @ draw.standard_normal((draws, len(scale[0]), 1)))
            errors = errors + self.matrix.task.noise * self._through(P) @ noise
        return self._mean_square(errors)

    def samples_needed(self, loss: float, *, most: float = 1e12) -> float:
        """The n (to 1 %) from which the expected squared error stays below `loss`; infinite if larger than `most`."""
        require_positive("error", loss)
        low, high = 1.0, most
        while high > 1.01 * low:
            grid = np.geomspace(low, high, 30)
            above = np.flatnonzero(self.loss(grid) > loss)
            if len(above) == 0:
                return float(np.ceil(low))
            if above[-1] == len(grid) - 1:
                return float("inf")
            low, high = float(grid[above[-1]]), float(grid[above[-1] + 1])
        return float(np.ceil(high))

    def saturates(self, n: float) -> bool:
        """Whether n samples have used up what the alphabet can tell, so that more samples do not help."""
        if self.sharing is None or self.alphabet is None:
            return False
        return bool(n >= self.sharing.ratios[-1] * self.alphabet)

    @property
    def _weights(self) -> Float[Array, "r"]:
        return np.asarray(self.matrix.task.weights)

    def _bias(self, P: Float[Array, "n r r"]) -> Float[Array, "n r output"]:
        return -np.linalg.solve(np.eye(len(self.matrix.N)) + self.matrix.N @ P, targets(self.matrix.task))

    def _through(self, P: Float[Array, "n r r"]) -> Float[Array, "n r r"]:
        """GN, which maps BᵀA⁻¹ times the label noise to its effect on f̂."""
        N = self.matrix.N
        return np.linalg.solve(np.eye(len(N)) + N @ P, np.broadcast_to(N, P.shape))

    def _mean_square(self, errors: Float[Array, "n r output"]) -> Float[Array, "n"]:
        return np.einsum("nro,r->n", errors**2, self._weights)


def learning_curve(
    matrix: TemplateMatrix, kernel: Kernel, *, ridge: float, alphabet: int | None = None, draws: int = 4
) -> LearningCurve:
    """The curve for samples whose wildcards are filled from `alphabet` tokens (None: from as many as samples)."""
    if alphabet is None:
        shared = measure_sharing(matrix.task, kernel, matrix.N, ridge=ridge, ratios=(1.0,), draws=draws)
    else:
        matrix.task.alphabet(alphabet)
        shared = measure_sharing(matrix.task, kernel, matrix.N, ridge=ridge, draws=draws)
    return LearningCurve(matrix, ridge, shared, alphabet)
