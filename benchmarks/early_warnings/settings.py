"""The trainings of the benchmark: kinds that were meant to go wrong, and kinds that were meant to go well.

Many of the sound kinds have a fault of the other group built in, at a rate that a model with this fault can bear. So a
rule that only notices the fault, and not the harm, gives false alarms. What was meant is not what counts: a run is
judged by what its loss did.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

STEPS = 800
EVERY = 10  # steps from one measurement to the next
SEEDS = 4  # of each kind
FACTORS = (1.0, 1.15, 0.75, 0.87)  # of all rates of a run, by seed, so that no two runs of a kind are alike


@dataclass(frozen=True)
class Setting:
    """One training. The rate rises linearly over `warm_up` steps, then stays until `ramp[0]`, and changes by a constant
    factor per step from there to `ramp[1]`, where it is `peak`."""

    kind: str
    seed: int
    meant: str  # "trouble" or "health"
    layers: int
    rate: float
    peak: float
    ramp: tuple[int, int] = (300, STEPS)
    warm_up: int = 100
    beta2: float = 0.99
    decay: float = 0.0  # of the weights
    normed: bool = True
    logit_scale: float = 1.0
    bf16_softmax: bool = False

    @property
    def name(self) -> str:
        return f"{self.kind}, seed {self.seed}"

    @property
    def half(self) -> str:
        """Even seeds choose thresholds, odd seeds judge them. Every kind has both."""
        return "judge" if self.seed % 2 else "choose"

    def rate_at(self, step: int) -> float:
        first, last = self.ramp
        share = min(1.0, max(0.0, (step - first) / (last - first)))
        return self.rate * min(1.0, (step + 1) / self.warm_up) * (self.peak / self.rate) ** share

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "ramp": list(self.ramp)}


LARGE = {"logit_scale": 16.0}
TROUBLE: dict[str, dict[str, Any]] = {
    "rate grows 100-fold": {"rate": 3e-3, "peak": 0.3},
    "rate grows 10-fold, no LayerNorm": {"rate": 3e-3, "peak": 3e-2, "normed": False},
    "rate grows 100-fold, large logits": {"rate": 3e-3, "peak": 0.3, **LARGE},
    "rate grows 100-fold, large logits, bf16 softmax": {"rate": 3e-3, "peak": 0.3, **LARGE, "bf16_softmax": True},
    "slow warm-up to a rate far too high": {"rate": 0.1, "warm_up": STEPS},
    "no LayerNorm, large logits": {"rate": 1e-2, "warm_up": 50, "beta2": 0.999, "normed": False, "logit_scale": 8.0},
    "no warm-up, no LayerNorm": {"rate": 1.5e-2, "warm_up": 1, "normed": False},
    "rate jumps 7-fold": {"rate": 3e-3, "peak": 2e-2, "ramp": (400, 401)},
}
HEALTH: dict[str, dict[str, Any]] = {
    "moderate rate": {"rate": 3e-3, "decay": 0.1},
    "decaying rate": {"rate": 6e-3, "peak": 6e-4, "beta2": 0.95, "decay": 0.1},
    "high rate": {"rate": 1e-2, "beta2": 0.95, "decay": 0.1},
    "no LayerNorm, moderate rate": {"rate": 3e-3, "normed": False},
    "large logits, low rate": {"rate": 2e-3, **LARGE},
    "bf16 softmax": {"rate": 3e-3, "logit_scale": 4.0, "bf16_softmax": True},
    "rate grows 4-fold": {"rate": 2e-3, "peak": 8e-3, "decay": 0.1},
    "no warm-up, moderate rate": {"rate": 2e-3, "warm_up": 1, "beta2": 0.999},
}


def settings() -> list[Setting]:
    """All trainings: 2 to 4 layers, the two seeds of a pair alike."""
    return [
        _setting(kind, seed, meant, 2 + (number + seed // 2) % 3, values)
        for seed in range(SEEDS)
        for meant, kinds in (("trouble", TROUBLE), ("health", HEALTH))
        for number, (kind, values) in enumerate(kinds.items())
    ]


def _setting(kind: str, seed: int, meant: str, layers: int, values: dict[str, Any]) -> Setting:
    rate = FACTORS[seed] * values["rate"]
    peak = FACTORS[seed] * values.get("peak", values["rate"])
    return Setting(kind=kind, seed=seed, meant=meant, layers=layers, **{**values, "rate": rate, "peak": peak})
