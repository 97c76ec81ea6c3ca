"""Finds weights that are indistinguishable from an initialisation.

At the start the entries of a matrix are independent. Then no singular value leaves the bulk of Marchenko and Pastur,
no row or column is larger than chance allows, and the kurtosis is that of a normal, truncated normal or uniform
distribution. Norms are constant, and biases are constant or uniform. Training breaks the last first: one step of Adam
moves every scale of a norm off exactly 1.

A checkpoint near the start may look like this and be sound: it is a fault only if its weights have nothing in common
with those of its neighbours. The first checkpoint of a series may be an initialisation if its step is 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from foretrain.checkpoints.fault import Fault, Record, listed
from foretrain.checkpoints.measure_checkpoint import sampled

KIND = "like initialisation"
LEAST_SIDE = 16  # of a matrix that counts
KURTOSIS = (-1.35, 0.35)  # uniform −1.2, truncated at two deviations −0.63, normal 0; and what chance adds
DEVIATIONS = 6.0  # by which a spread may differ from 1
EDGE = (-8.0, 6.0)  # Tracy–Widom units in which the edge may differ from 1; their mean is −1.2, their deviation 1.3
MOST_MATRICES = 0.9  # share of the matrices that must look random
RELATED = 0.5  # mean cosine with a neighbour from which both are of the same training
UNRELATED = 0.3  # cosine below which a single matrix is not the one before; by chance it is 0.06


def like_initialisation(records: Sequence[Record]) -> list[Fault]:
    """Checkpoints after step 0 whose weights look as if they had never been trained."""
    faults = []
    for index, record in enumerate(records):
        beside = [records[k] for k in (index - 1, index + 1) if 0 <= k < len(records)]
        first = index == 0 and record["step"] == 0 and record.get("step_known", True)
        if first or any(_correlation(record, other) > RELATED for other in beside):
            names = [] if first else _reset(record, beside)
            if names:
                sentence = (
                    f"{record['checkpoint']} has matrices that are indistinguishable from an initialisation and have "
                    f"nothing in common with those before: {listed(names)}."
                )
                faults.append(Fault(KIND, record["checkpoint"], ", ".join(names), sentence))
        elif looks_random(record):
            sentence = (
                f"The weights of {record['checkpoint']} are indistinguishable from an initialisation: their entries "
                "are independent, and no norm has moved; check that saving or restoring them did not fail silently."
            )
            faults.append(Fault(KIND, record["checkpoint"], "all", sentence))
    return faults


def late_starts(records: Sequence[Record]) -> list[Fault]:
    """Checkpoints that look like an initialisation, and so belong before another one that does not."""
    faults, trained = [], None
    for record in records:
        if not looks_random(record):
            trained = trained or record["checkpoint"]
        elif trained is not None:
            sentence = f"{record['checkpoint']} looks like an initialisation, but {trained} before it has been trained."
            faults.append(Fault("out of order", record["checkpoint"], "all", sentence, (trained,)))
    return faults


def looks_random(record: Record) -> bool:
    """Whether all vectors are at their initial values and nearly all matrices have independent entries."""
    if _vectors_trained(record):
        return False
    verdicts = [
        verdict
        for name, measures in record["weights"].items()
        if (verdict := independent_entries(measures, record["tensors"][name]["shape"])) is not None
    ]
    return len(verdicts) > 1 and sum(verdicts) >= MOST_MATRICES * len(verdicts)


def independent_entries(measures: dict[str, float], shape: Sequence[int]) -> bool | None:
    """Whether a matrix looks as if its entries were drawn independently; None if it is too small or constant."""
    m, n = shape
    numbers = {name: float(value) for name, value in measures.items()}
    if min(m, n) < LEAST_SIDE or not math.isfinite(numbers["edge"]):
        return None
    if numbers["stable_rank"] > 0.999 * min(m, n):  # all singular values equal: an orthogonal initialisation
        return True
    if not KURTOSIS[0] < numbers["kurtosis"] < KURTOSIS[1]:
        return False
    root = math.sqrt(m) + math.sqrt(n)
    unit = (1 / math.sqrt(m) + 1 / math.sqrt(n)) ** (1 / 3) / root  # Johnstone (2001), relative to the edge
    if not EDGE[0] < (numbers["edge"] - 1) / unit < EDGE[1]:
        return False
    spreads = ((numbers["row_spread"], m), (numbers["column_spread"], n))
    return all(abs(spread - 1) < DEVIATIONS * math.sqrt(2 / lines) for spread, lines in spreads)


def _reset(record: Record, beside: Sequence[Record]) -> list[str]:
    """Matrices that look random and are unrelated to those of every neighbour."""
    return [
        name
        for name, measures in record["weights"].items()
        if independent_entries(measures, record["tensors"][name]["shape"])
        and all(abs(_cosine(record, other, name, missing=1.0)) < UNRELATED for other in beside)
    ]


def _correlation(one: Record, other: Record) -> float:
    """The mean over all matrices of the cosine between their sampled entries; 0 for independent ones."""
    cosines = [_cosine(one, other, name) for name in one["weights"] if name in other["weights"]]
    return float(np.mean(cosines)) if cosines else 0.0


def _cosine(one: Record, other: Record, name: str, missing: float = 0.0) -> float:
    a, b = one["tensors"].get(name), other["tensors"].get(name)
    if a is None or b is None or a["shape"] != b["shape"]:
        return missing
    x, y = sampled(a["sample"]), sampled(b["sample"])
    size = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / size if size > 0 else missing


def _vectors_trained(record: Record) -> bool:
    """Whether a norm has moved off its constant, or biases are neither constant nor uniform."""
    uniform = moved = 0
    for name, tensor in record["tensors"].items():
        if "kurtosis" not in tensor:
            continue
        if not name.endswith("bias") and _is_norm(name):
            return True
        if name.endswith("bias"):
            looks_uniform = -1.6 < tensor["kurtosis"] < -0.7
            uniform, moved = uniform + looks_uniform, moved + (not looks_uniform)
    return moved > 0.2 * (uniform + moved)


def _is_norm(name: str) -> bool:
    parts = name.lower().split(".")
    return any("norm" in part or part.startswith("ln") for part in parts)
