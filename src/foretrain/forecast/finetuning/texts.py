"""A Hugging Face encoder or decoder with pooling and a linear head, on texts."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foretrain.core.errors import InputError, require
from foretrain.core.quiet import quiet_transformers
from foretrain.forecast.finetuning.classifier import HeadedModel, copied


class PooledClassifier(nn.Module):
    """A Hugging Face encoder or decoder, one vector per text, and a linear head.

    Encoders average over the tokens of a text. Decoders take its last token, the only one that has seen all others.
    """

    def __init__(self, body: nn.Module, width: int, classes: int, *, pool: str) -> None:
        super().__init__()
        self.body, self.pool = body, pool
        with torch.random.fork_rng(devices=[]):  # building a layer draws random numbers
            first = next(body.parameters())
            self.head = nn.Linear(width, classes, dtype=first.dtype).to(first.device)

    def forward(self, **inputs: Tensor) -> Float[Tensor, "text output"]:
        hidden = self.body(**inputs).last_hidden_state
        mask = inputs["attention_mask"]
        if self.pool == "mean":
            weights = mask.to(hidden.dtype).unsqueeze(-1)
            pooled = (hidden * weights).sum(1) / weights.sum(1)
        else:
            last = mask.cumsum(1).argmax(1)
            pooled = hidden[torch.arange(len(hidden), device=hidden.device), last]
        return self.head(pooled)


def from_hugging_face(name: str, texts: Sequence[str], classes: int, *, length: int = 64) -> HeadedModel:
    """A model given by folder or hub name, with its tokenizer; texts are cut after `length` tokens."""
    body, tokenizer = open_model(name)
    return _pooled(body, tokenizer, texts, classes, length)


def from_body(body: nn.Module, tokenizer: Any, texts: Sequence[str], classes: int, *, length: int = 64) -> HeadedModel:
    """A Hugging Face body and a tokenizer, which may be one's own: a function from a text to numbers of tokens."""
    return _pooled(copied(body), tokenizer, texts, classes, length)


def _pooled(body: nn.Module, tokenizer: Any, texts: Sequence[str], classes: int, length: int) -> HeadedModel:
    config: Any = getattr(body, "config", None)
    require(config is not None, "This is not a Hugging Face model; give inputs and labels as tensors instead of texts.")
    if getattr(config, "is_encoder_decoder", False):
        body = body.get_encoder()  # type: ignore[operator]
    body = getattr(body, "base_model", body)  # of a model with a head of its own: what is below the head
    positions = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    most = getattr(tokenizer, "model_max_length", None)  # huge if the tokenizer does not know
    length = min(length, *(limit for limit in (positions, most) if isinstance(limit, int)), length)
    inputs = padded(tokenised(tokenizer, texts, length), _padding(tokenizer))
    largest, known = int(inputs["input_ids"].max()), _vocabulary(body)
    require(
        known is None or largest < known,
        f"The tokenizer gives tokens up to {largest}, but the model has embeddings for {known}; they do not fit.",
    )
    width, causal = _width_and_direction(body, inputs)
    module = PooledClassifier(body, width, 1 if classes == 2 else classes, pool="last" if causal else "mean")
    return HeadedModel(module.eval(), module.head, inputs, classes)


def tokenised(tokenizer: Any, texts: Sequence[str], length: int) -> list[list[int]]:
    """The tokens of every text, at most `length` of them; the tokenizer is not changed."""
    if hasattr(tokenizer, "encode_batch"):  # of the tokenizers library
        tokens = [list(encoding.ids) for encoding in tokenizer.encode_batch(list(texts))]
    elif hasattr(tokenizer, "convert_ids_to_tokens"):  # of transformers
        with quiet_transformers():
            tokens = tokenizer(list(texts), truncation=True, max_length=length)["input_ids"]
    elif callable(tokenizer):
        try:
            tokens = [[int(token) for token in tokenizer(text)] for text in texts]
        except (TypeError, ValueError) as error:
            raise InputError(f"The tokenizer must give numbers of tokens for a text ({error}).") from error
    else:
        raise InputError(f"A tokenizer is a function from a text to numbers of tokens; got {type(tokenizer).__name__}.")
    tokens = [list(each)[:length] for each in tokens]
    empty = [k for k, each in enumerate(tokens) if not each]
    require(
        not empty, f"{len(empty)} texts have no tokens, such as {texts[empty[0]]!r}; leave them out." if empty else ""
    )
    return tokens


def padded(tokens: Sequence[Sequence[int]], padding: int) -> dict[str, Tensor]:
    """Token numbers and mask, padded on the right."""
    longest = max(map(len, tokens))
    ids = torch.full((len(tokens), longest), padding)
    mask = torch.zeros_like(ids)
    for row, each in enumerate(tokens):
        ids[row, : len(each)], mask[row, : len(each)] = torch.tensor(each), 1
    return {"input_ids": ids, "attention_mask": mask}


def _padding(tokenizer: Any) -> int:
    for name in ("pad_token_id", "eos_token_id"):
        token = getattr(tokenizer, name, None)
        if isinstance(token, int):
            return token
    return 0


def _vocabulary(body: nn.Module) -> int | None:
    untyped: Any = body
    embeddings = untyped.get_input_embeddings() if hasattr(untyped, "get_input_embeddings") else None
    weight = getattr(embeddings, "weight", None)
    return len(weight) if isinstance(weight, Tensor) else None


@torch.no_grad()
def _width_and_direction(body: nn.Module, inputs: Mapping[str, Tensor]) -> tuple[int, bool]:
    """The width of the hidden states, and whether the first token is blind to the last one, as in a decoder."""
    row = int(inputs["attention_mask"].sum(1).argmax())
    used = int(inputs["attention_mask"][row].sum())
    ids = inputs["input_ids"][row : row + 1, :used].repeat(2, 2 if used == 1 else 1)
    ids[1, -1] = ids[1, -1] - 1 if int(ids[1, -1]) > 0 else ids[1, -1] + 1
    ids = ids.to(next(body.parameters()).device)
    try:
        hidden = body(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{type(body).__name__} does not read texts as encoders and decoders do: {what}") from error
    return hidden.shape[-1], bool(torch.allclose(hidden[0, 0], hidden[1, 0], atol=1e-6, rtol=1e-5))


def open_model(name: str) -> tuple[nn.Module, Any]:
    """Body and tokenizer; nothing is unpickled and no code of the model's own is run."""
    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError as error:
        raise InputError("Hugging Face models need transformers; pip install 'foretrain[hf]'.") from error
    require(not Path(name).is_file(), f"{name} is a file; give the folder of a model, or its name on the hub.")
    here = Path(name).is_dir() or not _hub_answers()
    try:
        with quiet_transformers(), torch.random.fork_rng(devices=[]):
            safely: dict[str, Any] = {"trust_remote_code": False, "local_files_only": here}
            body = AutoModel.from_pretrained(name, use_safetensors=True, dtype=torch.float32, **safely)
            tokenizer = _own_tokenizer(name) or AutoTokenizer.from_pretrained(name, **safely)
    except Exception as error:  # the libraries below raise exceptions of many classes
        if here and not Path(name).exists():
            raise InputError(
                f"There is no folder {name}, no model of this name was downloaded before, and the hub cannot be "
                "reached; give the folder of a model."
            ) from error
        what = " ".join(str(error).split())[:300] or type(error).__name__
        raise InputError(
            f"{name} is not a model that can be loaded; give a folder with config.json, model.safetensors and a "
            f"tokenizer, or a name on the hub. ({what})"
        ) from error
    return body.eval(), tokenizer


def _hub_answers(seconds: float = 3.0) -> bool:
    """Whether the hub can be reached: its client tries for half a minute where there is no network."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    if getproxies():
        return True  # only the client knows
    hub = urlsplit(constants.ENDPOINT)
    try:
        socket.create_connection((hub.hostname or "", hub.port or 443), seconds).close()
    except OSError:
        return False
    return True


def _own_tokenizer(name: str) -> Any:
    """The tokenizer of a folder with a tokenizer.json that nothing describes, as `foretrain lab language` leaves."""
    file = Path(name) / "tokenizer.json"
    if not file.is_file() or (Path(name) / "tokenizer_config.json").is_file():
        return None
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(file))
