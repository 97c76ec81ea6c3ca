"""The corpora of the evaluation: three known ones, and two made from books."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from foretrain.core.streams import stream
from foretrain.data.corpora import labelled_corpus
from foretrain.data.labelled_texts import LabelledTexts, read_text

AUTHORS = {
    "Dickens": ("bleak-house_1023", "david-copperfield_766"),
    "Eliot": ("middlemarch_145",),
    "Melville": ("moby-dick-or-the-whale_2701",),
    "Tolstoy": ("war-and-peace_2600", "anna-karenina_1399"),
}
BOOKS = {"Bleak House": ("bleak-house_1023",), "David Copperfield": ("david-copperfield_766",)}
NAMES = ("sst2", "imdb", "ag_news", "authors", "books")


def train_and_test(name: str, data: Path, train: int, test: int) -> tuple[LabelledTexts, LabelledTexts]:
    """At most so many random rows of each."""
    if name in ("sst2", "imdb", "ag_news"):
        return sample(labelled_corpus(name, "train", data=data), train), sample(
            labelled_corpus(name, "test", data=data), test
        )
    # paragraphs of four authors, single sentences of two books of one author
    whole = from_books(AUTHORS, data, 30, 120) if name == "authors" else from_books(BOOKS, data, 8, 40, sentences=True)
    order = stream("benchmark/rows", name).permutation(len(whole))
    return whole.select(np.sort(order[:train])), whole.select(np.sort(order[train : train + test]))


def sample(corpus: LabelledTexts, rows: int) -> LabelledTexts:
    return corpus.select(np.sort(stream("benchmark/sample").permutation(len(corpus))[:rows]))


def from_books(
    by_class: Mapping[str, tuple[str, ...]], data: Path, shortest: int, longest: int, *, sentences: bool = False
) -> LabelledTexts:
    """Paragraphs or sentences between these lengths in words, labelled by author or book."""
    texts: list[str] = []
    labels: list[int] = []
    for k, files in enumerate(by_class.values()):
        for file in files:
            content = read_text(data / "gutenberg" / f"{file}.txt.gz")
            start, end = content.find("*** START"), content.find("*** END")
            parts = [" ".join(part.split()) for part in re.split(r"\n\s*\n", content[max(start, 0) : end])[1:]]
            if sentences:
                parts = [sentence for part in parts for sentence in re.split(r"(?<=[.!?]) ", part)]
            kept = [part for part in parts if shortest <= len(part.split()) <= longest]
            texts += kept
            labels += [k] * len(kept)
    return LabelledTexts(tuple(texts), np.array(labels), tuple(by_class))
