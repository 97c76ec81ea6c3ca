"""How far apart the checkpoints of a series are, from the sampled entries of their tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from foretrain.checkpoints.fault import Record
from foretrain.checkpoints.measure_checkpoint import sampled


def distances(
    records: Sequence[Record], names: Sequence[str] | None = None
) -> dict[str, Float[np.ndarray, "checkpoint checkpoint"]]:
    """For each tensor: the distance between each two checkpoints, in units of the tensor's root mean square.

    By default all matrices that every checkpoint has with the same shape and that move at all; vectors, if there are
    no such matrices.
    """
    shared = [name for name in records[0]["tensors"] if _comparable(records, name)] if records else []
    chosen = [name for name in shared if names is None or name in names]
    if names is None:
        matrices = [name for name in chosen if len(records[0]["tensors"][name]["shape"]) > 1]
        chosen = matrices or chosen
    tables = {}
    for name in chosen:
        samples = np.stack([sampled(record["tensors"][name]["sample"]) for record in records])
        scale = np.sqrt(np.median((samples**2).mean(1)))
        table = np.stack([np.sqrt(((samples - one) ** 2).mean(1)) for one in samples])
        if scale > 0 and table.any():
            tables[name] = table / scale
    return tables


def overall(tables: dict[str, Float[np.ndarray, "one other"]]) -> Float[np.ndarray, "one other"]:
    """The root mean square over tensors, where none counts for more than twice the median: no single one decides."""
    stacked = np.stack(list(tables.values()))
    return np.sqrt(np.mean(np.minimum(stacked, 2 * np.median(stacked, axis=0)) ** 2, axis=0))


def _comparable(records: Sequence[Record], name: str) -> bool:
    first = records[0]["tensors"][name]
    return "sample" in first and all(
        name in r["tensors"] and r["tensors"][name]["shape"] == first["shape"] for r in records
    )
