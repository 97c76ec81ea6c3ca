"""Constants of the experiments: how networks are trained, and the sizes of the made-up corpora."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TextTraining:
    """A network trained on labelled texts with Adagrad."""

    width: int = 64
    sigma: float = 0.1  # standard deviation of all initial weights
    rate: float = 0.01
    batch: int = 32  # texts per step


TRAINING = TextTraining()


@dataclass(frozen=True)
class MadeUpSetting:
    """The made-up corpora that stand in for SST-2 and AG News where these are not at hand."""

    seen: int = 400  # tokens that occur in training texts
    unseen: int = 600  # tokens that never occur: the bias is read off their scores
    texts: int = 3000
    test_texts: int = 1000

    @property
    def vocab(self) -> int:
        return self.seen + self.unseen


MADE_UP = MadeUpSetting()
CORPUS_NAMES = {
    "made_up": "made-up texts",
    "made_up_4": "made-up texts of 4 classes",
    "sst2": "SST-2",
    "imdb": "IMDB",
    "ag_news": "AG News",
}
MADE_UP_CLASSES = {"made_up": 2, "made_up_4": 4}  # their names, with the number of classes
TWO_CLASSES = ("made_up", "sst2", "imdb")  # corpora on which a network with one output can be trained


@dataclass(frozen=True)
class LazySetting:
    """Short texts of one length on which networks stay in the lazy regime, and the descent on them."""

    length: int = 4  # tokens of every text
    positive: float = 0.7  # share of positive texts: classes of unequal size, so that a shift shows
    rate: float = 0.05
    steps: int = 8


LAZY = LazySetting()
