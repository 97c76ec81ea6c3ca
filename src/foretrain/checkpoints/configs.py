"""Checks config.json against the shapes of the weights, and against the other checkpoints of a series."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from foretrain.checkpoints.fault import Fault, Record

LAYER = re.compile(r"^(?P<stack>.*?\b(?:h|layers?|blocks?|block))\.(?P<number>\d+)\.")
EMBEDDING = re.compile(r"(^|\.)(wte|embed_tokens|embed_in|word_embeddings|tok_embeddings|shared)\.weight$")
QUERY = re.compile(r"(^|\.)(q_proj|query|wq)\.weight$")
KEY = re.compile(r"(^|\.)(k_proj|key|wk)\.weight$")
SIZES: dict[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers", "decoder_layers",
               "num_decoder_layers"),
    "width": ("hidden_size", "n_embd", "d_model", "dim"),
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads"),
    "key heads": ("num_key_value_heads", "n_kv_heads"),
    "vocabulary": ("vocab_size",),
    "width of a head": ("head_dim", "d_kv"),
}  # fmt: skip
OTHER_WIDTH = ("embedding_size", "word_embed_proj_dim", "d_embed")  # models whose embeddings are narrower
LISTS = ("num_heads", "num_key_value_heads", "intermediate_size")  # some models have one for each layer
SAME_IN_A_SERIES = (
    *(key for keys in SIZES.values() for key in keys),
    *("model_type", "intermediate_size", "n_inner"),
)


def unsound(key: str, value: object) -> bool:
    """Whether a setting has a value of a type that it cannot have."""
    if key == "model_type":
        return not isinstance(value, str | None)
    if isinstance(value, list) and key in LISTS:
        return not all(type(item) is int for item in value)
    return key in (*SAME_IN_A_SERIES, *OTHER_WIDTH) and isinstance(value, bool | list | dict)


def sound_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration without the settings whose type is wrong: scripts put other things under the same names."""
    return {key: value for key, value in config.items() if not unsound(key, value)}


def settings_kept(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a configuration that a record keeps."""
    return {key: config[key] for key in (*SAME_IN_A_SERIES, *OTHER_WIDTH) if config.get(key) is not None}


def wrong_configs(records: Sequence[Record]) -> list[Fault]:
    """Configurations that do not fit their weights, or that differ from those of most other checkpoints."""
    records = [record for record in records if not record.get("config_from")]
    faults = [fault for record in records for fault in _mismatches(record)]
    known = {(fault.checkpoint, fault.where) for fault in faults}
    for key in SAME_IN_A_SERIES:
        values = {r["checkpoint"]: _plain(r["config"].get(key)) for r in records if r.get("config")}
        (usual, count), *others = Counter(values.values()).most_common() or [(None, 0)]
        for label, value in values.items():
            if others and count > len(values) / 2 and value != usual and (label, key) not in known:
                sentence = f"The config of {label} says {key} = {value}; the other checkpoints say {usual}."
                faults.append(Fault("wrong config", label, key, sentence))
    return faults


def absent_configs(records: Sequence[Record]) -> list[Fault]:
    """Checkpoints without a configuration, which were measured with that of another one."""
    return [
        Fault(
            "missing config", record["checkpoint"], "config.json",
            f"{record['checkpoint']} has no config.json, so that of {record['config_from']} is used.",
            (record["config_from"],),
        )
        for record in records
        if record.get("config_from")
    ]  # fmt: skip


def _mismatches(record: Record) -> Iterator[Fault]:
    """A fault for every setting that the shapes contradict."""
    config, shapes = record.get("config") or {}, {name: t["shape"] for name, t in record["tensors"].items()}
    label = record["checkpoint"]

    def wrong(key: str, saying: str) -> Fault:
        return Fault("wrong config", label, key, f"The config of {label} says {key} = {config[key]}, but {saying}.")

    stacks: dict[str, set[int]] = {}
    for name in shapes:
        if match := LAYER.match(name):
            stacks.setdefault(match["stack"], set()).add(int(match["number"]))
    keys = [key for key in SIZES["layers"] if key in config]
    counts = {len(numbers) for numbers in stacks.values()}
    if keys and counts and not counts & {config[key] for key in keys}:
        yield wrong(keys[0], f"the weights have {max(counts)} layers")
    table = next((shape for name, shape in shapes.items() if EMBEDDING.search(name) and len(shape) == 2), None)
    width = _value(config, "width")
    if table is not None:
        if (key := _key(config, "vocabulary")) and config[key] != table[0]:
            yield wrong(key, f"the weights have embeddings of {table[0]} tokens")
        if (key := _key(config, "width")) and width != table[1] and not any(config.get(k) for k in OTHER_WIDTH):
            yield wrong(key, f"the weights have embeddings of width {table[1]}")
    heads, per_head = _value(config, "heads"), _value(config, "width of a head")
    if heads and width and not per_head:
        if width % heads:
            key = _key(config, "heads") or ""
            yield wrong(key, f"that does not divide the width {width}")
            return
        per_head = width // heads
    for pattern, key in ((QUERY, _key(config, "heads")), (KEY, _key(config, "key heads"))):
        shape = next((s for name, s in shapes.items() if pattern.search(name) and len(s) == 2), None)
        if shape is not None and key and per_head and shape[0] != config[key] * per_head:
            yield wrong(key, f"the weights have room for {shape[0] / per_head:g} heads of width {per_head}")


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, list) else value


def _key(config: Mapping[str, Any], size: str) -> str | None:
    return next((key for key in SIZES[size] if isinstance(config.get(key), int)), None)


def _value(config: Mapping[str, Any], size: str) -> int | None:
    key = _key(config, size)
    return None if key is None else int(config[key])
