"""The numbers published with Fig 5, 22, 23 and 25: means of 5 trials in the base setting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from foretrain.ledger.tolerances import Tolerance
from foretrain.models.sequence_baselines import LSTM, MLP, MLP_XX, RNN
from foretrain.papers.abstract_symbols.experiments.architectures import SAMPLES
from foretrain.papers.abstract_symbols.simulations.trained import VANILLA, WITH_A, WITH_AB, WITH_B

TRIALS = 5  # behind every published mean
ABA_ABB, MAJORITY, COPYING = "aba_abb", "majority_4", "copying"


def _at(sizes: Sequence[int], *losses: float) -> dict[int, float]:
    return dict(zip(sizes, losses, strict=True))


LENGTH_4 = (8, 32, 128, 512, 2048, 8192)
PUBLISHED = {
    ABA_ABB: {
        VANILLA: _at(SAMPLES, 1.047, 1.031, 1.032, 0.984, 1.004, 0.939, 0.777, 0.654, 0.125, 0.013, 9e-5, 9e-5),
        WITH_A: _at(SAMPLES, 1.046, 0.701, 0.631, 0.029, 0.038, 0.0016, 0.0008, 0.0016, 0.0021, 0.0002, 7e-5, 9e-5),
        WITH_B: _at(SAMPLES, 1.017, 1.006, 0.969, 0.972, 0.977, 1.046, 0.748, 0.141, 0.0023, 0.017, 2e-6, 5e-5),
        WITH_AB: _at(SAMPLES, 1.036, 0.888, 0.467, 0.589, 0.013, 0.013, 0.0019, 0.001, 0.025, 0.0037, 0.0002, 0.0001),
        RNN: _at(SAMPLES, *[1.055] * 9, 0.577, 0.307, 0.165),  # up to 1024 printed between 1.04 and 1.07
        LSTM: _at(SAMPLES, *[1.0] * 9, 0.865, 0.568, 0.291),  # up to 1024 printed near 1
        MLP: dict.fromkeys(SAMPLES, 1.009),  # printed between .997 and 1.021
        MLP_XX: _at((4, 32, 64, 256, 2048, 8192), 0.139, 0.132, 0.138, 0.142, 0.033, 0.012),  # Fig 25
    },
    MAJORITY: {
        VANILLA: _at(LENGTH_4, 1.039, 1.093, 1.031, 1.046, 0.850, 1e-4),
        WITH_AB: _at(LENGTH_4, 1.047, 0.998, 0.816, 0.127, 0.008, 0.008),
    },
}
COPYING_ERRORS = {
    64: {16: 0.998, 32: 0.612, 64: 0.052, 128: 0.014},
    512: {64: 0.998, 128: 0.730, 256: 0.036},
    2048: {256: 1.0, 512: 0.686, 1024: 0.022},
}  # without b·I, by embedding dimension and n
WITH_B_ERROR = Tolerance(0.018, "the largest printed with b·I, from 16 samples on, at every dimension")


def published_losses(task: str) -> Callable[[Mapping[str, Any]], dict[str, float]]:
    """The published mean over the n of a comparison, for every architecture that has one at each of them."""

    def at(config: Mapping[str, Any]) -> dict[str, float]:
        sizes = list(config["n"])
        return {
            name: sum(losses[n] for n in sizes) / len(sizes)
            for name, losses in PUBLISHED[task].items()
            if all(n in losses for n in sizes)
        }

    return at


def published_copying(config: Mapping[str, Any]) -> dict[str, float]:
    """The published share of unseen symbols not copied, by embedding dimension, without b·I."""
    sizes = list(config["n"])
    return {str(d): errors[sizes[0]] for d, errors in COPYING_ERRORS.items() if len(sizes) == 1 and sizes[0] in errors}
