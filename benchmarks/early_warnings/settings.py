"""The trainings of the benchmark: kinds that were meant to go wrong, and kinds that were meant to go well.

Most of the sound kinds have a fault of the other group built in, at a rate that a model with this fault can bear. So a
rule that only notices the fault, and not the harm, gives false alarms. What was meant is not what counts: a run is
judged by what its loss did.

Frozen on 2026-11-19: the rules, the thresholds, the grids that these are chosen from, the limits of the diagnosis and
the kinds of trainings had been changed after the judging half was seen. On that day all of them were fixed, and only
then were the fresh runs trained, with seeds that nobody had used. They are judged once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

STEPS = 480
EVERY = 10  # steps from one measurement to the next
ONSET = 160  # the step at which a fault sets in, unless it is there from the start
ARCHITECTURES = ("decoder", "encoder", "vision")
SEEDS, SEEDS_OF_ONE_LAYER = 2, 6  # of each kind and architecture; more where one layer explodes
FROZEN = "2026-11-19"  # the day from which on nothing but the fresh runs was added
FRESH_SEEDS = (101, 102)  # trained after that, in the order of `_fresh`
FACTORS = (1.0, 1.15, 0.75, 0.87)  # of all rates of a run, so that no two runs of a kind are alike


@dataclass(frozen=True)
class Setting:
    """One training. The rate rises linearly over `warm_up` steps, then stays until `ramp[0]`, and changes by a constant
    factor per step from there to `ramp[1]`, where it is `peak`. With a `layer`, only the rate of this layer changes."""

    kind: str
    seed: int
    architecture: str
    meant: str  # "trouble" or "health"
    layers: int
    rate: float
    peak: float
    ramp: tuple[int, int] = (ONSET, STEPS)
    warm_up: int = 50
    beta2: float = 0.99
    decay: float = 0.0  # of the weights
    clip: float | None = None  # the largest norm of the gradient
    normed: bool = True
    logit_scale: float = 1.0
    bf16_softmax: bool = False
    corrupted: int | None = None  # the step of a batch of garbage, whose gradient is 500 times too large
    noise: tuple[int, int, float] | None = None  # targets are random from one step on, up to a share at another step
    layer: int | None = None  # the only layer that the fault is in
    growth: float = 0.0  # the weights of this layer are made larger by this share at every step from the onset on

    @property
    def name(self) -> str:
        return f"{self.kind}, {self.architecture}, seed {self.seed}"

    @property
    def half(self) -> str:
        """Even seeds choose thresholds, the others judge them. Every kind has both, in every architecture. Fresh seeds
        only judge, whether even or not."""
        if self.seed in FRESH_SEEDS:
            return "fresh"
        return "judge" if self.seed % 2 else "choose"

    @property
    def cause(self) -> int:
        """The step from which on the fault is at work; no alarm before it can be about the trouble."""
        if self.corrupted is not None:
            return self.corrupted
        if self.noise is not None:
            return self.noise[0]
        return self.ramp[0] if self.peak > self.rate or self.growth else 0

    def rate_at(self, step: int) -> float:
        """The rate of the layers with the fault; see `rate_of_others`."""
        first, last = self.ramp
        share = min(1.0, max(0.0, (step - first) / (last - first)))
        return self.rate_of_others(step) * (self.peak / self.rate) ** share

    def rate_of_others(self, step: int) -> float:
        return self.rate * min(1.0, (step + 1) / self.warm_up)

    def noise_at(self, step: int) -> float:
        """The share of targets that are random."""
        if self.noise is None:
            return 0.0
        first, last, share = self.noise
        return share * min(1.0, max(0.0, (step - first) / (last - first)))

    def as_json(self) -> dict[str, Any]:
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}


LARGE = {"logit_scale": 16.0}
ONE_LAYER: dict[str, dict[str, Any]] = {
    "one layer's rate grows 1000-fold": {"rate": 3e-3, "peak": 3.0},
    "one layer's weights grow 2 % a step": {"rate": 3e-3, "growth": 0.02},
}
TROUBLE: dict[str, dict[str, Any]] = {
    "rate grows 100-fold": {"rate": 3e-3, "peak": 0.3},
    "slow warm-up to a rate far too high": {"rate": 0.2, "warm_up": STEPS},
    "no warm-up, no LayerNorm": {"rate": 1.5e-2, "warm_up": 1, "beta2": 0.999, "normed": False},
    "no LayerNorm, rate grows 10-fold": {"rate": 3e-3, "peak": 3e-2, "normed": False},
    "large logits, rate grows 100-fold": {"rate": 3e-3, "peak": 0.3, **LARGE},
    "bf16 softmax, large logits, rate grows 100-fold": {"rate": 3e-3, "peak": 0.3, **LARGE, "bf16_softmax": True},
    "one corrupted batch": {"rate": 3e-3, "beta2": 0.999, "corrupted": 244},
    "label noise sets in": {"rate": 3e-3, "noise": (ONSET, STEPS, 0.6)},
    **ONE_LAYER,
}
HEALTH: dict[str, dict[str, Any]] = {
    "moderate rate": {"rate": 3e-3, "decay": 0.1},
    "decaying rate": {"rate": 6e-3, "peak": 6e-4, "beta2": 0.95, "decay": 0.1},
    "rate grows 4-fold": {"rate": 1.5e-3, "peak": 6e-3, "decay": 0.1},
    "no warm-up, moderate rate": {"rate": 2e-3, "warm_up": 1, "beta2": 0.999},
    "no LayerNorm, moderate rate": {"rate": 2e-3, "normed": False},
    "large logits, low rate": {"rate": 2e-3, **LARGE},
    "bf16 softmax, large logits, low rate": {"rate": 2e-3, **LARGE, "bf16_softmax": True},
    "one corrupted batch, gradients clipped": {"rate": 3e-3, "beta2": 0.999, "corrupted": 244, "clip": 1.0},
    "label noise from the start": {"rate": 3e-3, "noise": (-1, 0, 0.3)},
    "one layer's rate grows 4-fold": {"rate": 2e-3, "peak": 8e-3},
}
MEANT = (("trouble", TROUBLE), ("health", HEALTH))


def settings() -> list[Setting]:
    """All trainings: 2 to 4 layers, the two seeds of a pair alike. The fresh ones come last."""
    return [*_halves(), *_fresh()]


def _fresh() -> Iterator[Setting]:
    """The same kinds with seeds that no choice was made with.

    The order was fixed beforehand, in case 22 minutes would not do for all of them, but they did: one seed after the
    other, kinds that are meant to go wrong and kinds that are meant to go well in turn, each in all three
    architectures. The second seed begins with the last kinds, so that one layer explodes in enough runs.
    """
    groups = [[(meant, *entry) for entry in enumerate(kinds.items())] for meant, kinds in MEANT]
    turns = [entry for pair in zip(*groups, strict=True) for entry in pair]
    for seed, order in zip(FRESH_SEEDS, (turns, turns[::-1]), strict=True):
        for meant, number, (kind, values) in order:
            for place, architecture in enumerate(ARCHITECTURES):
                yield _setting(kind, seed, architecture, meant, number + place, values)


def _halves() -> Iterator[Setting]:
    for seed in range(SEEDS_OF_ONE_LAYER):
        for place, architecture in enumerate(ARCHITECTURES):
            for meant, kinds in MEANT:
                for number, (kind, values) in enumerate(kinds.items()):
                    if seed < SEEDS or kind in ONE_LAYER:
                        yield _setting(kind, seed, architecture, meant, number + place, values)


def _setting(kind: str, seed: int, architecture: str, meant: str, number: int, values: dict[str, Any]) -> Setting:
    factor = FACTORS[(seed + 2 * ARCHITECTURES.index(architecture)) % len(FACTORS)]
    layers = 2 + (number + seed // 2) % 3
    chosen: dict[str, Any] = {}
    if kind.startswith("one layer"):
        layers = 4 if kind in ONE_LAYER else layers  # more layers to confuse the guilty one with
        chosen["layer"] = (number + seed + seed // 2) % layers
    rate, peak = factor * values["rate"], factor * values.get("peak", values["rate"])
    return Setting(kind, seed, architecture, meant, layers, **{**values, "rate": rate, "peak": peak, **chosen})
