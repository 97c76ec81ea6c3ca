"""Text as token numbers: words or byte pairs, from WikiText-2 or the user's own files."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from foretrain.core.errors import InputError, require
from foretrain.data.corpora import TEXTS, text_corpus
from foretrain.language.setting import LanguageSetting

if TYPE_CHECKING:
    from tokenizers import Tokenizer

UNKNOWN, END = "<unk>", "<eos>"
VALIDATION_SHARE = 0.1  # of the user's own text, from its end
LINES_AT_ONCE = 20_000


@dataclass(frozen=True, eq=False)
class TokenText:
    """A text for training and one for validation, as numbers of tokens."""

    tokenizer: Tokenizer
    train: Int[ndarray, "token"]
    valid: Int[ndarray, "valid_token"]
    digest: str  # of the texts and of the vocabulary

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""
        return int(self.tokenizer.get_vocab_size())

    def require_context(self, context: int) -> None:
        """Refuse a text that is too short for a window."""
        for name, tokens in (("training", self.train), ("validation", self.valid)):
            require(
                len(tokens) > context + 1,
                f"The {name} text has {len(tokens):,} tokens, fewer than one window of {context} needs; "
                "give more text or a smaller context.",
            )


def read_texts(sources: Sequence[str | Path], *, data: str | Path | None = None) -> tuple[str, str]:
    """The text to train on and the text to validate on: a known corpus by name, or files, of which the last tenth is
    kept for validation."""
    require(len(sources) > 0, "Give at least one text file, or wikitext-2.")
    if len(sources) == 1 and str(sources[0]) in TEXTS:
        name = str(sources[0])
        return text_corpus(name, "train", data=data), text_corpus(name, "dev", data=data)
    for source in sources:
        require(not Path(source).is_dir(), f"{source} is a folder; give the text files in it.")
        require(Path(source).is_file(), f"There is no text file {source}; give a file, or one of: {', '.join(TEXTS)}.")
    train, valid = zip(*(_split(text_corpus(str(source))) for source in sources), strict=True)
    return "".join(train), "".join(valid)


def _split(text: str) -> tuple[str, str]:
    """Cut off the last tenth, at the end of a line if one is near."""
    cut = int(len(text) * (1 - VALIDATION_SHARE))
    line = text.find("\n", cut) + 1
    cut = line if 0 < line < cut + len(text) // 50 else cut
    return text[:cut], text[cut:]


def tokenize(texts: tuple[str, str], setting: LanguageSetting, tokenizer: Tokenizer | None = None) -> TokenText:
    """Both texts as tokens. The vocabulary is made from the training text, unless a tokenizer is given."""
    train, valid = texts
    length = len(train) + len(valid)
    require(bool(train.strip()) and bool(valid.strip()), f"The text has {length} characters; give a longer one.")
    if tokenizer is None:
        make = word_tokenizer if setting.tokens == "words" else byte_pair_tokenizer
        tokenizer = make(train, setting.vocabulary)
    digest = hashlib.sha256()
    for part in (train, valid, tokenizer.to_str()):
        digest.update(hashlib.sha256(part.encode("utf-8", "surrogatepass")).digest())
    result = TokenText(tokenizer, encode(tokenizer, train), encode(tokenizer, valid), digest.hexdigest()[:16])
    result.require_context(setting.context)
    return result


def word_tokenizer(text: str, size: int) -> Tokenizer:
    """The most frequent words of a text, split at spaces; the rest is `<unk>`, and `<eos>` ends every line."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    counts = Counter(word for word in text.split() if word not in (UNKNOWN, END))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    words = [END, UNKNOWN, *ranked[: max(0, size - 2)]]
    tokenizer = Tokenizer(models.WordLevel({word: k for k, word in enumerate(words)}, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def byte_pair_tokenizer(text: str, size: int) -> Tokenizer:
    """Byte pairs as in GPT-2, learned from a text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    require(size >= 257, f"A vocabulary of byte pairs has at least 257 tokens, one for every byte; got {size}.")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )  # fmt: skip
    tokenizer.train_from_iterator(_blocks_of_lines(text), trainer)
    return tokenizer


def encode(tokenizer: Tokenizer, text: str) -> Int[ndarray, "token"]:
    """A text as numbers. With words, `<eos>` stands for the end of every line."""
    by_words = tokenizer.token_to_id(UNKNOWN) is not None
    end = tokenizer.token_to_id(END)
    numbers: list[int] = []
    for lines in _lines_at_once(text):
        for encoding in tokenizer.encode_batch(lines, add_special_tokens=False):
            numbers += encoding.ids
            if by_words and end is not None:
                numbers.append(end)
    return np.array(numbers, dtype=np.int64)


def load_tokenizer(file: Path) -> Tokenizer:
    """A tokenizer from its JSON file."""
    from tokenizers import Tokenizer

    require(file.is_file(), f"There is no tokenizer {file}.")
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises Exception itself
        raise InputError(f"{file} is not a tokenizer that can be read ({error}).") from error


def _lines_at_once(text: str) -> Iterator[list[str]]:
    lines = text.split("\n")  # not splitlines, which cuts at form feeds and other signs too
    lines = [*(line + "\n" for line in lines[:-1]), *([lines[-1]] if lines[-1] else [])]
    for first in range(0, len(lines), LINES_AT_ONCE):
        yield lines[first : first + LINES_AT_ONCE]


def _blocks_of_lines(text: str) -> Iterator[str]:
    return (line for lines in _lines_at_once(text) for line in lines)
