"""Predicts before training, from a labelled corpus, what a text classifier will learn and what it will rely on.

Everything comes from the gradient flow of each architecture's limit kernel, stopped where the held-out loss is lowest.
Scores are in logits and have one sign everywhere: with two classes there is one score, and above 0 is for the second
class; with more there is one score per class.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from foretrain.core.errors import require, require_known, require_positive
from foretrain.core.files import write_text
from foretrain.core.progress import Progress, tell
from foretrain.data.labelled_texts import LabelledTexts
from foretrain.data.tokens import TokenTexts
from foretrain.forecast.corpora import leans
from foretrain.forecast.corpora.counting import counted, tokenizer_of
from foretrain.forecast.corpora.fixes import fixes
from foretrain.forecast.corpora.heldout_summary import TIME, judge
from foretrain.forecast.corpora.result import CorpusResult
from foretrain.forecast.corpora.rows import answers
from foretrain.forecast.corpora.scores import SCALES, TrainingSet, alike, architectures, plateaus, scored
from foretrain.forecast.corpora.words import answer, as_dataset, summary
from foretrain.forecast.sources import further_texts, texts_of
from foretrain.kernels.tangent import Scales

if TYPE_CHECKING:
    import plotly.graph_objects as go

LONGEST = 100_000  # largest `time` of the flow
OPTIMIZERS = ("adaptive", "sgd")


class CorpusForecast(CorpusResult):
    """What classifiers will learn from a corpus. Scores are [item, output]; `outputs` has the outputs' names."""

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


def corpus(
    data: Any,
    *,
    text: Any = None,
    label: Any = None,
    test: Any = None,
    tokenizer: Any = None,
    window: int | None = None,
    least: int | None = None,
    most: int = 30_000,
    time: float | None = None,
    optimizer: str = "adaptive",
    scales: Scales = SCALES,
) -> CorpusForecast:
    """Forecast what text classifiers will learn from labelled texts, and what to fix in them first.

    data       LabelledTexts, a file, sst2, imdb or ag_news, a DataFrame, a Hugging Face dataset, or (text, label) pairs
    test       further labelled texts of the same kind: predicted errors, and the training rows behind every score
    tokenizer  a function from a text to its tokens, or a Hugging Face tokenizer; by default words and marks
    window     tokens in a CNN's window. If given, shorter texts are an error; by default it is 2, and they get a note
    least      score tokens and n-grams that occur at least this often; by default 5, or less (with a note) if fewer
               than 50 of them occur 5 times
    most       score at most this many tokens, and as many n-grams, the most frequent ones
    time       length of the flow, in units of the time that the fastest direction of the counts needs; by default it
               is chosen by the held-out loss, for each architecture
    optimizer  "adaptive": rare tokens take larger steps, as with Adagrad or Adam; "sgd": all take the same
    """
    require_known("optimizer", optimizer, OPTIMIZERS)
    if time is not None:
        require_positive("time", time)
        require(time <= LONGEST, f"time must be at most {LONGEST}, because computing grows with it; got {time:g}.")
    texts = texts_of(data, text=text, label=label)
    tokenize = tokenizer_of(tokenizer)
    tell(Progress(0, 4, "counting"))
    count = counted(texts, window=window, least=least, most=most, tokenize=tokenize)
    whole = TrainingSet(count.texts, texts.labels, len(texts.classes), scales, optimizer == "adaptive")
    kinds = {name: kind for name, kind in architectures(count.window).items() if len(count.items[kind.order])}
    same_as = alike(kinds, whole)
    distinct = {name: kinds[name] for name in dict.fromkeys(same_as.values())}
    tell(Progress(1, 4, "held-out rows"))
    judged = judge(count, distinct, whole, time)
    times = {name: judged.curves[same_as[name]].setting if judged.curves else time or TIME for name in kinds}
    tell(Progress(2, 4, "scores"))
    by_name = {}
    for done, (name, kind) in enumerate(distinct.items()):
        tell(Progress(done, len(distinct), f"scores, {name}", inner=True))
        items = TokenTexts.of_rows(count.items[kind.order].tokens, count.texts.vocab)
        by_name[name] = scored(kind, whole, items, times[name])
    scores = {name: by_name[first] for name, first in same_as.items()}
    tokens, pairs = count.items[1], count.items[2]
    token_scores = [each.scores for each in scores.values() if each.order == 1]
    imbalanced = leans.toward_larger(token_scores, tokens.lean.share) & leans.from_imbalance(tokens.lean)
    contradictions = leans.contradictions(pairs.names, pairs.tokens, tokens.lean, pairs.lean, texts.classes)
    result = CorpusForecast(
        corpus=texts, counted=count, adaptive=whole.adaptive, same_as=same_as, times=times, scores=scores,
        folds=judged.folds, curves=judged.curves, baselines=judged.baselines, signal=judged.signal,
        shortcuts=judged.shortcuts, without=judged.without,
        fixes=tuple(fixes(texts, [len(t) for t in count.tokenised], judged.shortcuts, judged.rows)),
        plateau=plateaus(whole),
        notes=(*count.notes, *judged.notes), from_imbalance=imbalanced, contradictions=tuple(contradictions),
    )  # fmt: skip
    if test is None:
        return result
    tell(Progress(3, 4, "test rows"))
    further = _with_classes(further_texts(test, texts, text=text, label=label), texts.classes)
    encoded = count.vocabulary.encode([tokenize(t) for t in further.texts])
    said = answers(distinct, whole, encoded, times)
    return replace(result, test=further, answered=said)


def _with_classes(further: LabelledTexts, classes: tuple[str, ...]) -> LabelledTexts:
    """The same rows, with labels numbered as in the corpus; a label that the corpus does not have is refused."""
    unknown = [name for k, name in enumerate(further.classes) if name not in classes and (further.labels == k).any()]
    require(not unknown, f"The test rows have the label {', '.join(unknown)}, which the corpus does not have.")
    number = np.array([classes.index(name) if name in classes else 0 for name in further.classes])
    return replace(further, labels=number[further.labels], classes=classes)
