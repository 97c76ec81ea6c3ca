"""Constants of the paper and the presets of its experiments."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from foretrain.data import template_tasks
from foretrain.data.templates import TemplateTask
from foretrain.kernels.activations import Cosine
from foretrain.kernels.architectures import TRANSFORMER, architecture_kernel
from foretrain.kernels.regression import Kernel


@dataclass(frozen=True)
class KernelSetting:
    """A kernel by its constants; the defaults condition N well and still take milliseconds per pattern."""

    architecture: str = TRANSFORMER
    beta: float = 4.0  # larger always conditions N better: 1070 at 1, 27 at 4 with γ = 4 (same/different)
    gamma: float = 4.0
    b1: float = 1.0
    b2: float = math.pi / 4  # here Claim E.2 has a single term, and the proof of Lemma E.1 takes it

    @property
    def kernel(self) -> Kernel:
        return architecture_kernel(
            self.architecture, beta=self.beta, gamma=self.gamma, activation=Cosine(self.b1, self.b2)
        )


# The regression tasks whose templates are few enough for every permutation of Lemma 3.6 to be tried.
REGRESSION_TASKS: dict[str, Callable[[], TemplateTask]] = {
    "same_different": template_tasks.same_different,
    "aba_abb": template_tasks.aba_abb,
    "abab_aabb": template_tasks.abab_aabb,
    "majority_4": lambda: template_tasks.majority(4),
    "print_program": template_tasks.print_program,
    "word_problems": lambda: template_tasks.word_problems((3, 5)),
}


@dataclass(frozen=True)
class TrainingSetting:
    """Appendix B.1: the base setting of the transformers that are trained."""

    depth: int = 2
    heads: int = 16
    embedding: int = 128
    head: int = 64
    mlp: int = 256
    learning_rate: float = 1e-3
    scaling_multiplier: float = 10.0  # the rate of a and b, over that of the weights
    attention_multiplier: float = 1.0  # of the attention logits
    batch: int = 1024
    epochs: int = 1000
    held_out: int = 100  # samples of validation and of test, each from an alphabet of its own of this size


# Presets by name. Smaller networks train at a larger rate for fewer epochs. At the rate of tiny and glance a and b keep
# up with the weights without a rate of their own; in a glance nothing gets there. Mini-batches are for tasks that take
# thousands of samples and of steps: batches of 64 make 16 steps of the same work as one, and 400 strings tell on which
# side of a tenth a miss is (symbols are right or wrong, hardly ever near it). With attention logits ten
# times as large, print programs that ask for a symbol are learned with more seeds.
SETTINGS = {
    "base": TrainingSetting(),
    "small": TrainingSetting(heads=4, embedding=64, head=16, mlp=64, learning_rate=3e-3, epochs=300),
    "minibatch": TrainingSetting(head=16, mlp=64, batch=64, epochs=20, held_out=400),
    "symbols": TrainingSetting(head=16, mlp=64, batch=64, epochs=16, attention_multiplier=10.0),
    "tiny": TrainingSetting(
        heads=4, embedding=64, head=16, mlp=64, learning_rate=1e-2, scaling_multiplier=1.0, epochs=100, held_out=50
    ),
    "glance": TrainingSetting(
        heads=2, embedding=16, head=8, mlp=32, learning_rate=1e-2, scaling_multiplier=1.0, epochs=25, held_out=20
    ),
}
