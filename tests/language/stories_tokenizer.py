"""The tokenizer of stories260K, from llama2.c's format to transformers: 512 byte pairs with scores."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
import transformers as hf
from tokenizers import Tokenizer, decoders, models


def stories_tokenizer(data: Path) -> hf.PreTrainedTokenizerFast:
    """Pairs are merged in the order of the scores of what they make; the test is skipped where the file is absent."""
    file = data / "models" / "stories260K" / "tok512.bin.gz"
    if not file.is_file():
        pytest.skip(f"no tokenizer at {file}")
    content = gzip.decompress(file.read_bytes())
    place, scores = 4, {}
    while place < len(content):
        score, length = struct.unpack("fi", content[place : place + 8])
        scores[content[place + 8 : place + 8 + length].decode()] = score
        place += 8 + length
    merges = [
        (score, (piece[:cut], piece[cut:]))
        for piece, score in scores.items()
        for cut in range(1, len(piece))
        if piece[:cut] in scores and piece[cut:] in scores
    ]
    ordered = [pair for _, pair in sorted(merges, key=lambda merge: -merge[0])]
    numbers = {piece: number for number, piece in enumerate(scores)}
    tokenizer = Tokenizer(models.BPE(numbers, ordered, unk_token="<unk>", byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer)
