"""Text becomes tokens and windows, the same every time."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from foretrain.core.errors import InputError
from foretrain.language.batches import training_batch, validation_windows
from foretrain.language.made_up import made_up_text
from foretrain.language.setting import LanguageSetting
from foretrain.language.text import END, byte_pair_tokenizer, encode, read_texts, tokenize, word_tokenizer

WORDS = LanguageSetting(tokens="words", vocabulary=50, context=8, batch=4)


def test_words_keep_the_most_frequent_and_end_lines() -> None:
    tokenizer = word_tokenizer("b a a\nc a b <unk>\n", 5)
    assert [tokenizer.id_to_token(k) for k in range(5)] == [END, "<unk>", "a", "b", "c"]
    assert encode(tokenizer, "a zebra\nb\n").tolist() == [2, 1, 0, 3, 0]
    assert encode(tokenizer, "a\u2028b\x0cc\n").tolist() == [2, 3, 4, 0]  # one line
    assert word_tokenizer("b a a\nc a b", 3).get_vocab_size() == 3


@given(st.text(max_size=200))
def test_byte_pairs_lose_nothing(text: str) -> None:
    tokenizer = _byte_pairs()
    assert tokenizer.decode(encode(tokenizer, text).tolist(), skip_special_tokens=False) == text


@cache
def _byte_pairs() -> Tokenizer:
    return byte_pair_tokenizer(made_up_text(500), 300)


def test_own_files_are_split_at_their_end(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("".join(f"{name}{k}\n" for k in range(1000)))
    train, valid = read_texts([tmp_path / "a.txt", tmp_path / "b.txt"])
    assert train.endswith("\n")
    assert valid.startswith("a9")
    assert "b999\n" in valid
    assert "a0\n" in train
    assert 0.08 < len(valid) / len(train + valid) < 0.12
    assert not set(train.split()) & set(valid.split())  # nothing is in both
    assert sorted((train + valid).split()) == sorted(f"{name}{k}" for name in "ab" for k in range(1000))
    with pytest.raises(InputError, match="There is no text file"):
        read_texts([tmp_path / "c.txt"])


def test_a_text_that_is_too_short_is_refused() -> None:
    with pytest.raises(InputError, match="fewer than one window of 128"):
        tokenize((made_up_text(2000), "a b c\n"), LanguageSetting(tokens="words"))
    with pytest.raises(InputError, match="has 1 characters"):
        tokenize(("", "a"), WORDS)


def test_batches_depend_on_seed_and_step_only() -> None:
    tokens = np.arange(1000)
    first = training_batch(tokens, WORDS, 3)
    assert first.shape == (4, 9)
    assert (first == training_batch(tokens, WORDS, 3)).all()
    assert not (first == training_batch(tokens, WORDS, 4)).all()
    assert (first[:, 1:] - first[:, :-1] == 1).all()  # windows are contiguous


def test_sequential_batches_read_every_token_once_per_epoch() -> None:
    setting = LanguageSetting(tokens="words", context=8, batch=4, order="sequential")
    tokens = np.arange(4 * 81)
    per_epoch = 80 // 8
    seen = np.concatenate([training_batch(tokens, setting, s)[:, :-1].flatten().numpy() for s in range(per_epoch)])
    assert len(np.unique(seen)) == len(seen) == 320
    assert (training_batch(tokens, setting, 0) == training_batch(tokens, setting, per_epoch)).all()


def test_validation_windows_cover_the_text() -> None:
    windows = validation_windows(np.arange(5000), 8)
    assert windows.shape == (64, 9)
    assert windows[0, 0] == 0
    assert windows[-1, -1] == 4999
    assert validation_windows(np.arange(9), 8).shape == (1, 9)
