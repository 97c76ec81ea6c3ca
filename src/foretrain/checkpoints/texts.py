"""Runs a checkpoint on a text, and records its loss and what attention does, per layer and head."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from foretrain.checkpoints.loading import NO_CODE, WITH_LOSS, architectures, load_model
from foretrain.checkpoints.weights import NotFinite, Weights
from foretrain.core.errors import InputError, require
from foretrain.core.progress import Progress, tell
from foretrain.core.quiet import quiet_transformers
from foretrain.monitor.statistics import NAMES
from foretrain.monitor.watch import attention_of

CONTEXTS = ("max_position_embeddings", "n_positions", "n_ctx", "block_size")
MOST_CONTEXT = 256  # tokens, unless more are asked for; at 1024, the logits of GPT-2 small take as much as 0.4 models
ROWS = 64  # of logits at a time
WINDOWS = 4  # of the length of the context, evenly spaced over the text
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tokenizer_config.json")


@dataclass(frozen=True)
class Text:
    """A text in tokens, cut into windows."""

    windows: Tensor  # [window, token]
    digest: str


def read_text(file: Path, places: Sequence[Path], config: Mapping[str, Any], context: int | None) -> Text:
    """The text of a file in windows of the context's length, by the first tokenizer that one of the places has."""
    try:
        words = file.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"--text {file} cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise InputError(f"--text {file} is not UTF-8 text: {error.reason} at byte {error.start}.") from error
    tokens = _tokenize(words, places)
    longest = next((config[key] for key in CONTEXTS if isinstance(config.get(key), int)), MOST_CONTEXT)
    length = context if context is not None else min(longest, MOST_CONTEXT)
    require(2 <= length <= longest, f"--context must be from 2 to {longest}, the model's longest; got {length}.")
    require(
        len(tokens) >= length,
        f"--text {file} has {len(tokens)} tokens, fewer than the context of {length}; give a longer text"
        + (f", or --context {len(tokens)} or less." if len(tokens) > 1 else "."),
    )
    count = min(WINDOWS, len(tokens) // length)
    starts = [round(k * (len(tokens) - length) / max(1, count - 1)) for k in range(count)]
    windows = torch.tensor([tokens[start : start + length] for start in starts])
    return Text(windows, hashlib.sha256(windows.numpy().tobytes()).hexdigest()[:32])


def require_language_model(config: Mapping[str, Any]) -> None:
    """Refuse models of a type that reads something else than text, or that needs a second text to read one."""
    try:
        from transformers.models.auto import modeling_auto
    except ImportError as error:
        raise InputError(f"--text needs transformers; install foretrain[hf] ({error}).") from error
    kind = config.get("model_type")
    decoder = any(name.endswith(WITH_LOSS) for name in architectures(config))
    texts = {*modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES}
    other = kind in modeling_auto.MODEL_MAPPING_NAMES and kind not in texts
    require(
        decoder or not (other or config.get("is_encoder_decoder")),
        f"--text needs a language model that predicts text; this is a {kind}; leave out --text to measure its weights.",
    )


def measure_text(place: Path, weights: Weights, config: Mapping[str, Any], text: Text) -> dict[str, Any]:
    """What a record says of a text: the loss, if the model has one, and attention per layer and head."""
    model, has_loss = load_model(place, weights, config)
    vocabulary = model.get_input_embeddings().num_embeddings
    largest = int(text.windows.max())
    require(largest < vocabulary, f"The tokenizer gives token {largest}, but the model has {vocabulary} embeddings.")
    sums: dict[str, Tensor] = {}
    losses: list[float] = []
    body, head = _parts(model, text.windows[0]) if has_loss else (model, None)
    for done, window in enumerate(text.windows):
        tell(Progress(done, len(text.windows), f"reading window {done + 1} of {len(text.windows)}", inner=True))
        output, calls = _read(model, body, window)
        if has_loss:
            losses.append(_loss(output, head, window))
        del output
        for layer, statistics in calls.items():
            sums[layer] = _add(sums.get(layer), statistics)
    require(bool(sums), f"No attention was seen while {place} read the text: it is computed in a way not known here.")
    if any(not math.isfinite(loss) for loss in losses):
        raise NotFinite(f"The loss on the text is {next(x for x in losses if not math.isfinite(x))}.")
    means = {layer: torch.cat([total[:-1] / len(text.windows), total[-1:]]) for layer, total in sums.items()}
    attention = {layer: dict(zip(NAMES, mean.tolist(), strict=True)) for layer, mean in means.items()}
    return {"attention": attention} | ({"loss": sum(losses) / len(losses)} if losses else {})


def _parts(model: Any, window: Tensor) -> tuple[Any, Any]:
    """The model without its output layer, and that layer, if applying one after the other gives the model's logits.

    Then the logits of a whole window, which for a small model are a tenth of its size, need not be in memory at once.
    """
    body, head = model.base_model, model.get_output_embeddings()
    few = window[None, :ROWS]
    with torch.inference_mode(), quiet_transformers():
        whole = model(few, use_cache=False)[0]
        hidden = body(few, use_cache=False)[0] if body is not model and head is not None else None
        plain = hidden is not None and hidden.shape[-1] == getattr(head, "in_features", None)
        return (body, head) if plain and torch.allclose(head(hidden), whole, rtol=1e-5, atol=1e-5) else (model, None)


def _read(model: Any, body: Any, window: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The output at every token, and the attention of every layer; a layer that cannot be read is refused."""
    try:
        with torch.inference_mode(), quiet_transformers():
            warnings.filterwarnings("error", message="Attention could not be read")
            with attention_of(model) as calls:
                return body(window[None], use_cache=False)[0][0], calls
    except UserWarning as warning:
        raise InputError(str(warning)) from warning


def _loss(output: Tensor, head: Any, window: Tensor) -> float:
    """Nats per token, a few rows at a time, from logits or from what the output layer makes logits of."""
    total = 0.0
    with torch.inference_mode():
        for few, tokens in zip(output[:-1].split(ROWS), window[1:].split(ROWS), strict=True):
            logits = few if head is None else head(few)
            total += float(functional.cross_entropy(logits.float(), tokens, reduction="sum"))
    return total / (len(window) - 1)


def _add(total: Tensor | None, statistics: Tensor) -> Tensor:
    """Sums, and the maximum of the last, which is the largest logit."""
    values = statistics.double()
    return values if total is None else torch.cat([total[:-1] + values[:-1], torch.maximum(total, values)[-1:]])


def _tokenize(words: str, places: Sequence[Path]) -> list[int]:
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise InputError(f"--text needs transformers; install foretrain[hf] ({error}).") from error
    gguf = [place for place in places if place.suffix == ".gguf"]
    folders = [place for place in places if any((place / name).is_file() for name in TOKENIZERS)]
    searched = " or ".join(map(str, places))
    require(bool(gguf or folders), f"There is no tokenizer in {searched}, which --text needs; save it there.")
    folder, options = (gguf[0].parent, {"gguf_file": gguf[0].name}) if gguf else (folders[0], {})
    try:
        with quiet_transformers():
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False, **options)
            return list(tokenizer(words, add_special_tokens=False, verbose=False)["input_ids"])
    except Exception as error:  # transformers raises many kinds
        require("trust_remote_code" not in str(error), NO_CODE.format(f"The tokenizer in {folder}"))
        reason = str(error).split("\n")[0][:200]
        raise InputError(
            f"The tokenizer in {folder} cannot be loaded by transformers ({type(error).__name__}: {reason})."
        ) from error
