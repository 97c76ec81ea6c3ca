"""Everything that a language-model training depends on, apart from its text."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from foretrain.core.errors import require

MODELS = ("gpt", "post-norm")
TOKENS = ("byte pairs", "words")
OPTIMIZERS = ("adamw", "adam", "sgd")
SCHEDULES = ("constant", "cosine")
ORDERS = ("random", "sequential")


@dataclass(frozen=True)
class LanguageSetting:
    """A language model and how it is trained.

    The defaults train a small GPT on WikiText-2 in about ten minutes on two cores.
    """

    model: str = "gpt"  # GPT-2's architecture, or "post-norm", the encoder of Scan and Snap and JoMA
    tokens: str = "byte pairs"  # or "words", split at spaces
    vocabulary: int = 8192
    layers: int = 2
    width: int = 128
    heads: int = 4
    hidden: int = 512  # width of the MLP
    context: int = 128
    dropout: float = 0.0
    batch: int = 16
    steps: int = 1000
    order: str = (
        "random"  # windows anywhere in the text; "sequential" reads the text from front to back, epoch by epoch
    )
    optimizer: str = "adamw"
    rate: float = 3e-3
    schedule: str = "constant"  # after the warm-up; "cosine" falls to a tenth of the rate
    warm_up: int = 100
    weight_decay: float = 0.1
    clip: float = 1.0  # norm of the gradient; 0 does not clip
    identity_scaling: bool = False  # two trainable scalars per head, see foretrain.add_identity_scaling
    identity_rate: float = 10.0  # times `rate`: the scalars need a larger one
    seed: int = 1

    def __post_init__(self) -> None:
        for name, known in (
            ("model", MODELS), ("tokens", TOKENS), ("optimizer", OPTIMIZERS), ("schedule", SCHEDULES), ("order", ORDERS)
        ):  # fmt: skip
            given = getattr(self, name)
            require(given in known, f"{name} must be {' or '.join(map(repr, known))}; got {given!r}.")
        for name in ("vocabulary", "layers", "width", "heads", "hidden", "context", "batch", "steps"):
            value = getattr(self, name)
            require(isinstance(value, int) and value >= 1, f"{name} must be a whole number of at least 1; got {value}.")
        require(self.width % self.heads == 0, f"width {self.width} must be a multiple of heads {self.heads}.")
        require(self.rate > 0 and self.identity_rate > 0, "rate and identity_rate must be above 0.")
        require(0 <= self.dropout < 1, f"dropout must be at least 0 and below 1; got {self.dropout}.")
        require(
            self.warm_up >= 0 and self.clip >= 0 and self.weight_decay >= 0,
            "warm_up, clip and weight_decay must not be negative.",
        )

    def learning_rate(self, step: int) -> float:
        """The rate of the update after `step` updates."""
        from math import cos, pi

        if step < self.warm_up:
            return self.rate * (step + 1) / self.warm_up
        if self.schedule == "constant":
            return self.rate
        done = (step - self.warm_up) / max(1, self.steps - self.warm_up)
        return self.rate * (0.1 + 0.9 * (1 + cos(pi * min(1.0, done))) / 2)

    def as_dict(self) -> dict[str, Any]:
        """The setting as a dictionary that JSON can hold."""
        return asdict(self)
