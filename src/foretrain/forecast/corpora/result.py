"""What a corpus forecast found: scores, held-out curves, shortcuts and what to fix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from numpy import ndarray as Array

from foretrain.core.errors import InputError
from foretrain.data.labelled_texts import LabelledTexts
from foretrain.forecast.corpora.baselines import signed_chi2
from foretrain.forecast.corpora.counting import Counted, Items
from foretrain.forecast.corpora.fixes import Fix
from foretrain.forecast.corpora.heldout import HeldOut, LabelSignal, Split
from foretrain.forecast.corpora.rows import Answered, records
from foretrain.forecast.corpora.scores import Scored
from foretrain.forecast.corpora.shortcuts import Shortcut


@dataclass(frozen=True)
class WithoutShortcuts:
    """Held-out accuracy of the additive network if all costly shortcuts are taken out of the corpus before training."""

    network: str
    accuracy: float
    before: float
    cost: float
    error: float  # half of the 95 % interval of the cost


@dataclass(frozen=True)
class Learned:
    """Scores of an architecture's items after training, and their correlation with the predicted scores."""

    scores: Float[Array, "item output"]
    predicted: Float[Array, "item output"]
    spearman: float
    pearson: float


@dataclass(frozen=True)
class CorpusResult:
    """What classifiers will learn from a corpus. Scores are [item, output]; `outputs` has the outputs' names."""

    corpus: LabelledTexts
    counted: Counted
    adaptive: bool  # tokens learn at Adagrad's rates, not at one rate as in SGD
    same_as: dict[str, str]  # architecture -> the one whose forecast it shares
    times: dict[str, float]  # length of the flow, by architecture
    scores: dict[str, Scored]  # by architecture
    folds: Split | None
    curves: dict[str, HeldOut]  # held-out results by architecture; empty if no rows could be held out
    baselines: dict[str, HeldOut]
    signal: LabelSignal | None
    shortcuts: tuple[Shortcut, ...]
    without: WithoutShortcuts | None
    fixes: tuple[Fix, ...]
    plateau: dict[str, Float[Array, "output"]]  # where an MLP's bias would settle if tokens were uninformative
    from_imbalance: Bool[Array, "token"]
    contradictions: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]
    test: LabelledTexts | None = None
    answered: Mapping[str, Answered] | None = None  # to the test rows
    learned: Mapping[str, Learned] | None = None  # scores of trained networks, after `train`

    @property
    def classes(self) -> tuple[str, ...]:
        return self.corpus.classes

    @property
    def class_counts(self) -> Int[Array, "class"]:
        return self.corpus.class_counts

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.classes[1:] if len(self.classes) == 2 else self.classes

    @property
    def window(self) -> int:
        return self.counted.window

    @property
    def items(self) -> dict[int, Items]:
        return self.counted.items

    @property
    def tokens(self) -> tuple[str, ...]:
        return self.items[1].names

    def of(self, architecture: str) -> Items:
        """The items that an architecture scores."""
        return self.items[self.scores[architecture].order]

    def rows_of(self, architecture: str) -> list[str]:
        """All architectures that share the forecast of this one."""
        return [name for name, first in self.same_as.items() if first == architecture]

    @property
    def best(self) -> str:
        """The architecture with the lowest held-out loss; the first one if no rows were held out."""
        if not self.curves:
            return next(iter(self.scores))
        return min(self.curves, key=lambda name: float(self.curves[name].chosen_loss.mean()))

    def top(self, architecture: str, n: int) -> dict[str, list[tuple[str, float]]]:
        """For every class, the n items that are most for it, with their scores. With two classes the scores of the
        first are below 0."""
        return self._top(self.scores[architecture].scores, self.of(architecture).names, n)

    def top_by_chi2(self, n: int) -> dict[str, list[tuple[str, float]]]:
        """The same for tokens by signed χ², the simplest ranking. With more than two classes it was closer to trained
        MLPs than the forecast was (see docs/forecast-a-corpus.md), so there it gives the answer."""
        return self._top(signed_chi2(self.items[1].lean).weights, self.items[1].names, n)

    def _top(self, scores: Float[Array, "item output"], names: tuple[str, ...], n: int) -> dict[str, Any]:
        towards = np.column_stack([-scores[:, 0], scores[:, 0]]) if len(self.outputs) == 1 else scores
        best = np.argsort(-towards, axis=0, kind="stable")[:n]
        shown = np.column_stack([scores, scores]) if len(self.outputs) == 1 else scores
        return {
            name: [(names[i], float(shown[i, k])) for i in best[:, k] if towards[i, k] > 0]
            for k, name in enumerate(self.classes)
        }

    @cached_property
    def table(self) -> pd.DataFrame:
        """Held-out accuracy with its 95 % interval, and loss, of every architecture and baseline."""
        rows = []
        for kind, curves in (("network", self.curves), ("baseline", self.baselines)):
            for name, curve in curves.items():
                low, high = curve.interval
                shown = ", ".join(self.rows_of(name)) if kind == "network" else name
                rows.append((shown, kind, curve.accuracy, low, high, float(curve.chosen_loss.mean()), curve.setting))
        columns = ["name", "kind", "accuracy", "low", "high", "loss", "setting"]
        return pd.DataFrame(rows, columns=columns).set_index("name")

    def test_rows(self) -> list[dict[str, Any]]:
        """What every architecture will say about each test row, and the training rows that drive it."""
        if self.answered is None or self.test is None:
            raise InputError("There are no test rows; give them with test=.")
        return records(self.answered, self.test.labels, self.classes)
