"""Training of decoder and attention together by the gradient of the loss (Lemma 1, eq. 7 and 94), in the model itself.

With `length` the sequences are drawn, as in any training. Without it every step takes one sequence of each class with
its tokens exactly in proportion to P(l|n), which is the gradient for infinitely long sequences averaged over the
classes. With `drawn_classes` such sequences are infinitely long, too, and the classes of a step are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy import ndarray as Array

from foretrain.core.errors import require
from foretrain.data import SequenceClasses
from foretrain.data.sequence_classes import SequenceBatch

if TYPE_CHECKING:
    from torch import Tensor

    from foretrain.models.parameters import Parameters

PARTS = 10**12  # counts are P in these parts, so that whole numbers stand for probabilities


def shared_token_classes(
    classes: int, vocab: int, *, common: float, shares: Sequence[float] = (0.7, 0.3), first: float | None = None
) -> Array:
    """P(token | class) with one common token and distinct tokens in given shares of the rest: [class, token].

    Token 0 is common; class n has the next len(shares) tokens after those of class n − 1. With `first`, class 0 has
    this much of the common token instead.
    """
    width = len(shares)
    require(
        vocab >= 1 + classes * width, f"{classes} classes with {width} distinct tokens need more than {vocab} tokens."
    )
    require(0 < common < 1, f"common must be a probability above 0 and below 1; got {common}.")
    share = np.full(classes, common)
    share[0] = common if first is None else first
    P = np.zeros((classes, vocab))
    P[:, 0] = share
    for n in range(classes):
        P[n, 1 + n * width : 1 + (n + 1) * width] = (1 - share[n]) * np.asarray(shares) / np.sum(shares)
    return P


def common_for_overlap(overlap: float, shares: Sequence[float] = (0.7, 0.3)) -> float:
    """The probability of the common token for which two classes overlap by f_n·f_n' = `overlap` at the start."""
    even = np.asarray(shares) / np.sum(shares)
    odds = np.sqrt(overlap / (1 - overlap) * (even @ even))
    return float(odds / (1 + odds))


@dataclass(frozen=True)
class EveryClass:
    """A task that gives one sequence per class, with tokens exactly in proportion to P: nothing is drawn."""

    task: SequenceClasses

    def sample(self, n: int, generator: np.random.Generator | int) -> SequenceBatch:
        classes = np.resize(np.arange(self.task.classes), n)
        table = np.take_along_axis(self.task.probabilities, self.task.support, axis=1)
        return SequenceBatch(self.task, classes, np.rint(PARTS * table).astype(np.int64)[classes])


@dataclass(frozen=True)
class DrawnClasses:
    """A task that draws the class of each sample, and gives its tokens exactly in proportion to P."""

    task: SequenceClasses

    def sample(self, n: int, generator: np.random.Generator | int) -> SequenceBatch:
        every = EveryClass(self.task).sample(self.task.classes, 0)
        drawn = np.random.default_rng(generator).integers(0, self.task.classes, n)
        return SequenceBatch(self.task, drawn, every.support_counts[drawn])


def trained_logits(
    probabilities: Array,
    *,
    eta_y: float | xr.DataArray,
    eta_z: float | xr.DataArray,
    save_at: Sequence[int] | Array,
    query: Array | None = None,
    length: int | None = None,
    batch: int = 1,
    seeds: int = 1,
    decoder: bool = False,
    drawn_classes: bool = False,
) -> xr.Dataset:
    """z[n] = Z[ψ(n)] of every class after so many steps of SGD: [axes of the rates, seed, time, class, token].

    By default all classes share one query. `batch` counts only where sequences or classes are drawn; there are then as
    many samples per step, of classes drawn at random. With `decoder`, also the outputs Yᵀf_n of every class,
    [class, label].
    """
    import torch  # loading torch takes seconds, which listing claims can do without

    from foretrain.dynamics.optimizers import SGD
    from foretrain.dynamics.train import train
    from foretrain.models import Bilinear

    classes = len(probabilities)
    task = SequenceClasses(
        probabilities, np.zeros(classes, dtype=int) if query is None else query, length=2 if length is None else length
    )
    model = Bilinear(task, dtype=torch.float64)
    infinite = DrawnClasses(task) if drawn_classes else EveryClass(task)
    P = torch.from_numpy(task.probabilities)

    def logits(parameters: Parameters) -> tuple[tuple[str, ...], Tensor]:
        return ("class", "token"), model.attention_logits(parameters)[..., model.query_of, :]

    def outputs(parameters: Parameters) -> tuple[tuple[str, ...], Tensor]:
        c = P * torch.exp(logits(parameters)[1])
        return ("class", "label"), (c / c.norm(dim=-1, keepdim=True)) @ model.full(parameters)[0]

    return train(
        model,
        infinite if length is None else task,
        optimizer=SGD({"Y": eta_y, "Z": eta_z}),
        steps=int(max(save_at)),
        batch=classes if length is None and not drawn_classes else batch,
        seeds=seeds,
        record={"z": logits, "outputs": outputs} if decoder else {"z": logits},
        save_at=[int(t) for t in save_at],
        experiment="scan_snap/full_gradient",
    )
