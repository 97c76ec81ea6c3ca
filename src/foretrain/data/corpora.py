"""Known corpora by name: read from a data folder (`data=`), or downloaded from the Hugging Face hub."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from foretrain.core.errors import MissingData, require_known
from foretrain.data.labelled_texts import LabelledTexts, read_labelled, read_text
from foretrain.data.table_files import Column
from foretrain.data.tokens import split_on_spaces, words

DATA_FOLDER = "FORETRAIN_DATA"  # environment variable with the path of the data folder


@dataclass(frozen=True)
class Corpus:
    """Where a corpus is in the data folder, its name on the hub, and how its texts are split into tokens."""

    folder: str
    files: dict[str, str]  # split -> file
    hub: str
    tokenize: Callable[[str], list[str]]
    hub_splits: dict[str, str]  # split -> name of that split on the hub
    hub_text: str = "text"
    text: Column | Sequence[Column] = "text"
    label: Column = "label"
    classes: tuple[str, ...] = ()  # class names; the files number the classes from 0


LABELLED = {
    "sst2": Corpus(
        folder="sst2",
        files={"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"},
        hub="SetFit/sst2",
        hub_splits={"train": "train", "dev": "validation", "test": "test"},
        tokenize=split_on_spaces,
        text=0,
        label=1,
        classes=("negative", "positive"),
    ),
    "imdb": Corpus(
        folder="imdb",
        files={"train": "train.csv.gz", "test": "test.csv.gz"},
        hub="stanfordnlp/imdb",
        hub_splits={"train": "train", "test": "test"},
        tokenize=words,
        classes=("negative", "positive"),
    ),
    "ag_news": Corpus(
        folder="ag_news",
        files={"train": "train_5000.csv", "test": "test.csv"},
        hub="fancyzhx/ag_news",
        hub_splits={"train": "train", "test": "test"},
        tokenize=words,
        classes=("World", "Sports", "Business", "Sci/Tech"),
    ),
}
HUB_NAMES = {corpus.hub: name for name, corpus in LABELLED.items()}
TEXTS = {
    "wikitext-2": Corpus(
        folder="wikitext-2",
        files={"train": "train.txt.gz", "dev": "valid.txt", "test": "test.txt"},
        hub="Salesforce/wikitext",
        hub_splits={"train": "train", "dev": "validation", "test": "test"},
        tokenize=split_on_spaces,
    )
}


def labelled_corpus(name: str, split: str = "train", *, data: str | Path | None = None) -> LabelledTexts:
    """One split of SST-2, IMDB or AG News with its labels. `name` is "sst2", "imdb", "ag_news", or the hub's name."""
    name = HUB_NAMES.get(name, name)
    require_known("labelled corpus", name, LABELLED)
    corpus = LABELLED[name]
    path = _file(corpus, name, split, data)
    if path is None:
        return _labelled_from_hub(corpus, split)
    if name == "ag_news" and split == "test":  # no header; columns: class (1 to 4), title, description
        texts = read_labelled(path, text=(1, 2), label=0, classes=("1", "2", "3", "4"))
    else:
        numbers = tuple(map(str, range(len(corpus.classes))))
        texts = read_labelled(path, text=corpus.text, label=corpus.label, classes=numbers)
    return replace(texts, classes=corpus.classes)


def text_corpus(name: str, split: str = "train", *, data: str | Path | None = None) -> str:
    """One split of WikiText-2 ("wikitext-2") as a single text, or the text file at the path `name`."""
    if name not in TEXTS and Path(name).is_file():
        return read_text(name)
    require_known("text corpus", name, TEXTS)
    corpus = TEXTS[name]
    path = _file(corpus, name, split, data)
    if path is not None:
        return read_text(path)
    rows = _hub_rows(corpus, split, "wikitext-2-v1")
    return "\n".join(str(row[corpus.hub_text]) for row in rows)


def _file(corpus: Corpus, name: str, split: str, data: str | Path | None) -> Path | None:
    """The file of a split in the data folder; None if there is no data folder, so that the hub is used."""
    require_known(f"split of {name}", split, corpus.files)
    folder = data or os.environ.get(DATA_FOLDER)
    if folder is None:
        return None
    path = Path(folder) / corpus.folder / corpus.files[split]
    if not path.is_file():
        needed = f"{corpus.folder}/{corpus.files[split]}"
        raise MissingData(f"There is no {path}; give a folder that has {needed} with --data, or set {DATA_FOLDER}.")
    return path


def _labelled_from_hub(corpus: Corpus, split: str) -> LabelledTexts:
    rows = _hub_rows(corpus, split, None)
    labels = np.array([int(str(row["label"])) for row in rows])
    return LabelledTexts(tuple(str(row[corpus.hub_text]) for row in rows), labels, corpus.classes)


def _hub_rows(corpus: Corpus, split: str, configuration: str | None) -> list[dict[str, object]]:
    fix = f"give a folder that has {corpus.folder}/ with --data, or set {DATA_FOLDER}"
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise MissingData(f"Fetching {corpus.hub} needs the extra hf (pip install foretrain[hf]); or {fix}.") from error
    try:
        return list(load_dataset(corpus.hub, configuration, split=corpus.hub_splits[split]))
    except Exception as error:  # the hub client passes on any exception of its network library
        raise MissingData(f"{corpus.hub} could not be fetched ({type(error).__name__}); {fix}.") from error
