"""Measures one checkpoint: each tensor is read for its digest, its measures as a matrix, and a sample of entries."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from foretrain.checkpoints.matrices import MatrixReader
from foretrain.checkpoints.weights import NotFinite, Unreadable, Weights
from foretrain.core.progress import Progress, tell
from foretrain.core.streams import stream
from foretrain.measures.matrices import plain_arithmetic
from foretrain.monitor.projections import FUSED, SEPARATE, identity_shares

VERSION = 2  # of the measures: a change of what is computed makes old records worthless
SAMPLE = 256  # entries kept of each tensor, at the same places in every checkpoint: distances to 4 %
HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads", "decoder_attention_heads", "encoder_attention_heads")
WHOLE = (torch.int8, torch.uint8, torch.int16, torch.int32)
_ENDING = re.compile(r"(\.|_)q?weight$")
BUFFERS = ("inv_freq", "position_ids", "masked_bias", "attn.bias", "attention.bias", "rotary_emb", "freqs")


def measure(weights: Weights, heads: int | None) -> dict[str, Any]:
    """What a record says of the weights: measures, and of each tensor digest, shape and sample; and identity shares, if
    the number of heads is known."""
    tensors: dict[str, Any] = {}
    matrices: dict[str, dict[str, float]] = {}
    by_digest: dict[str, dict[str, float]] = {}
    quantised: list[str] = []
    whole_numbers: set[str] = set()
    parameters, reader = 0, MatrixReader()
    with plain_arithmetic(torch.device("cpu")):
        for done, name in enumerate(weights):
            tell(Progress(done, len(weights), f"measuring {name}", inner=True))
            tensor = weights[name]
            digest = digest_of(tensor)
            tensors[name] = {"digest": digest, "shape": list(tensor.shape), "shard": weights.shard_of(name)}
            if not tensor.is_floating_point():
                whole_numbers.add(name)
            if not is_trainable(name, tensor):
                quantised += [name] if _is_quantised(name, tensor) else []
                continue
            if digest not in by_digest:  # tied weights count once
                parameters += tensor.numel()
            tensors[name] |= {"sample": sample(name, tensor)} | _constant(name, tensor)
            if tensor.ndim == 2 and min(tensor.shape) > 1:
                matrices[name] = by_digest.get(digest) or _finite(name, reader.read(tensor), tensor)
                by_digest[digest] = matrices[name]
            else:
                _require_finite(name, tensor)
        tell(Progress(len(weights), len(weights), "measuring identity shares", inner=True))
        identity = {} if heads is None else identity_shares(weights.without(whole_numbers), heads)
    _require_matrices(matrices, quantised)
    return {
        "weights": matrices, "identity": identity, "tensors": tensors, "parameters": parameters,
        "quantised": len(quantised),
    }  # fmt: skip


def _require_matrices(matrices: Collection[str], quantised: Collection[str]) -> None:
    if quantised and not matrices:
        raise Unreadable(
            f"All {len(quantised)} matrices are quantised, and whole numbers are not weights; give the model as it was "
            "before."
        )
    if not matrices:
        raise Unreadable("It has no matrix of at least 2 by 2 numbers; check that this is a model's file of weights.")


def digests(weights: Weights) -> dict[str, str]:
    """The digest of every tensor, to see whether a checkpoint is still the one that was measured."""
    listed = {}
    for done, name in enumerate(weights):
        tell(Progress(done, len(weights), f"comparing {name} with the record", inner=True))
        listed[name] = digest_of(weights[name])
    return listed


def digest_of(tensor: Tensor) -> str:
    """A digest of the type, the shape and every bit of the entries."""
    content: Any = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    start = f"{tensor.dtype}{list(tensor.shape)}".encode()
    return hashlib.sha256(start + hashlib.sha256(content).digest()).hexdigest()[:32]


def is_trainable(name: str, tensor: Tensor) -> bool:
    """Whether a tensor holds weights: not a mask, not positions, not the frequencies of rotary embeddings."""
    return tensor.is_floating_point() and tensor.numel() > 0 and not _is_buffer(name)


def _is_quantised(name: str, tensor: Tensor) -> bool:
    """Whether a tensor looks like a matrix of weights in whole numbers: not a mask, nor positions, which are int64."""
    return tensor.ndim == 2 and tensor.numel() > 1 and tensor.dtype in WHOLE and not _is_buffer(name)


def _is_buffer(name: str) -> bool:
    return f".{name}".endswith(tuple(f".{ending}" for ending in BUFFERS))


def sample(name: str, tensor: Tensor) -> str:
    """Entries at places that depend only on the name and the size, as base64 of float32."""
    count, flat = tensor.numel(), tensor.reshape(-1)
    places = stream("checkpoints/sample", name, count).integers(count, size=SAMPLE) if count > SAMPLE else range(count)
    return encoded(flat[torch.as_tensor(np.asarray(places))].float().numpy())


def encoded(values: np.ndarray) -> str:
    """Numbers as base64 of float32."""
    return base64.b64encode(values.astype("<f4").tobytes()).decode()


def sampled(text: str) -> np.ndarray:
    """The numbers that `encoded` wrote."""
    return np.frombuffer(base64.b64decode(text), dtype="<f4").astype(float)


def heads_in(config: Mapping[str, Any]) -> int | None:
    """The number of attention heads that a configuration gives."""
    inner = config.get("text_config")
    for part in (config, inner if isinstance(inner, Mapping) else {}):
        for key in HEADS:
            value = part.get(key)
            if type(value) is int and value > 0:
                return value
    return None


def has_attention(names: Collection[str]) -> bool:
    """Whether tensors have names that attention's have, in any number type."""
    known = {*FUSED, *(group[0] for group in SEPARATE)} - {"in_proj"}
    ends = {_ENDING.sub("", name).rpartition(".")[2] for name in names}
    return bool(ends & known) or any(name.endswith("in_proj_weight") for name in names)  # in_proj.weight is Mamba's


def _constant(name: str, tensor: Tensor) -> dict[str, Any]:
    """Of a vector: whether all entries are the same, and otherwise its kurtosis, to tell it from initial values."""
    if tensor.ndim != 1 or len(tensor) < 2:
        return {}
    values = tensor.double()
    deviation = float(values.std())
    if deviation == 0:
        return {"constant": float(values[0])}
    return {"kurtosis": float((((values - values.mean()) / deviation) ** 4).mean()) - 3}


def _finite(name: str, measures: dict[str, float], tensor: Tensor) -> dict[str, float]:
    if not math.isfinite(measures["norm"]) or not math.isfinite(measures["deviation"]):
        _require_finite(name, tensor)
        raise NotFinite(f"{name} has entries so large that their squares overflow.")
    return measures


def _require_finite(name: str, tensor: Tensor) -> None:
    wrong = int((~torch.isfinite(tensor)).sum())
    if wrong:
        raise NotFinite(f"{name} has {wrong:,} of {tensor.numel():,} entries that are infinite or not a number.")
