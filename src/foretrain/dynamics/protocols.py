"""What the trainers ask of a task, a model and an optimizer.

Every model has the same `start`. Beyond that, each trainer asks for what it uses:

    train            GradientModel  the model computes its own gradient (and may be one that PreparesSteps)
    train_validated  OutputModel    the trainer differentiates the model's outputs
    train_epochs     foretrain.models.classifiers.Classifier
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from foretrain.dynamics.optimizers import Rate, State
from foretrain.models.parameters import Key, Parameters


@runtime_checkable
class Task(Protocol):
    """Something that can be sampled."""

    def sample(self, n: int, generator: Any, /) -> Any:
        """Draw n samples."""


@runtime_checkable
class Model(Protocol):
    """A network whose parameters have a leading axis of runs."""

    def start(self, keys: Sequence[Key]) -> Parameters:
        """Initial parameters, one run per key. A run draws from the random stream of its key and from no other, so its
        numbers do not depend on which runs are started together."""


@runtime_checkable
class GradientModel(Model, Protocol):
    """A model that computes its own gradient."""

    def prepare(self, batches: Sequence[Any]) -> Any:
        """The samples of one step, from one batch per run."""

    def gradient(self, parameters: Parameters, batch: Any, samples: int) -> Parameters:
        """The gradient of each run's loss over a prepared batch with this many samples per run."""


@runtime_checkable
class PreparesSteps(Protocol):
    """A model that can prepare several steps at once, which costs less than one at a time."""

    def prepare_steps(self, batches: Sequence[Any], steps: int) -> Sequence[Any]:
        """The samples of several steps, from one batch per run that holds those of all steps, one after the other."""


@runtime_checkable
class PreparedSamples(Protocol):
    """The samples of every run, in the form in which a model reads them."""

    def select_samples(self, samples: Any) -> Any:
        """Keep these samples of each run: [run, chosen]."""

    def select_runs(self, runs: Any) -> Any:
        """Keep these runs."""


@runtime_checkable
class OutputModel(Model, Protocol):
    """A model with outputs that can be differentiated."""

    @property
    def trained(self) -> Sequence[str] | None:
        """Names of the parameters that are trained; None means all."""

    def prepare(self, strings: Tensor, start: Parameters) -> Any:
        """Strings [run, sample, position] as `PreparedSamples`. The parameters that are not trained stay as in `start`,
        so what depends on them alone can be computed here."""

    def outputs(self, parameters: Parameters, prepared: Any) -> Tensor:
        """Numbers [run, sample], or scores [run, sample, token]."""


@runtime_checkable
class Optimizer(Protocol):
    """An update rule for one tensor. `rate` has the shape of the parameter's leading axes of runs."""

    @property
    def rate(self) -> Rate | Mapping[str, Rate]:
        """The learning rate: one for all parameters, or one for each name."""

    def begin(self, parameter: Tensor) -> State:
        """What the rule remembers from step to step, before the first step."""

    def update(self, parameter: Tensor, gradient: Tensor, rate: Tensor, state: State, step: int) -> None:
        """Change the parameter and the state in place; steps count from 1."""
