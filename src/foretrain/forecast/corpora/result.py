"""The forecast that a user gets: scores, held-out curves, shortcuts and what to fix, in words, figures and pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Bool, Float, Int
from numpy import ndarray as Array

from foretrain.core.errors import InputError
from foretrain.core.files import write_text
from foretrain.data.labelled_texts import LabelledTexts
from foretrain.forecast.corpora.baselines import signed_chi2
from foretrain.forecast.corpora.counting import Counted, Items
from foretrain.forecast.corpora.fixes import Fix
from foretrain.forecast.corpora.heldout import HeldOut, LabelSignal, Split
from foretrain.forecast.corpora.rows import Answered, records
from foretrain.forecast.corpora.scores import Scored
from foretrain.forecast.corpora.shortcuts import Shortcut
from foretrain.forecast.corpora.words import answer, as_dataset, summary

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from foretrain.forecast.corpora.training import Learned


@dataclass(frozen=True)
class WithoutShortcuts:
    """Held-out accuracy of the additive network if all costly shortcuts are taken out of the corpus before training."""

    network: str
    accuracy: float
    before: float
    cost: float
    error: float  # half of the 95 % interval of the cost


@dataclass(frozen=True)
class CorpusForecast:
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

    def __repr__(self) -> str:
        return self.summary

    @property
    def summary(self) -> str:
        """One paragraph: will it be learned, how well, and how much of that is a shortcut?"""
        return answer(self)

    @cached_property
    def dataset(self) -> xr.Dataset:
        """Learning curves [architecture, time] (NaN after a flow has stopped) and scores by order of the n-grams."""
        return as_dataset(self)

    def train(self) -> CorpusForecast:
        """Also train small networks of every architecture on these texts, and keep their scores beside the forecast."""
        from foretrain.forecast.corpora.training import learned_scores  # on use: it loads torch

        return replace(self, learned=learned_scores(self.corpus, self))

    def figure(self) -> go.Figure:
        """The predicted learning curves on held-out rows, with the baselines beside them."""
        from foretrain.forecast.corpora.figures import learning_curves

        return learning_curves(self)

    def numbers(self, top: int | None = None) -> dict[str, Any]:
        """Everything as plain data, for JSON, with the `top` items of every class."""
        return summary(self) if top is None else summary(self, top)

    def report(self, path: str | Path, **options: Any) -> None:
        """Write a page with the answer, what to fix, and all details; `options` are those of `page.page`."""
        from foretrain.forecast.corpora.page import page

        write_text(Path(path), page(self, **options))

    def _repr_html_(self) -> str:
        from foretrain.forecast.corpora.page import fragment

        return fragment(self)

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
