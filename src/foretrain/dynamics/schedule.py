"""How long to train, and how often to validate."""

from __future__ import annotations

import math
from dataclasses import dataclass

from foretrain.core.errors import require, require_at_least, require_whole

MOST_EPOCHS = 1_000_000  # the losses of all of them are kept, run by run


@dataclass(frozen=True)
class Schedule:
    """How long to train, and in what steps. The defaults are the paper's.

    batch           samples per step; a training set that is not larger is one step
    patience        stop a run after this many epochs without a lower validation loss; None: never
    good_enough     stop a run at this validation loss
    validate_every  epochs between validation passes; the first and the last epoch always have one. None: as often as
                    the passes together read at most an eighth as many samples as training does, but at least ten
                    times, and at least once in `patience` epochs
    """

    epochs: int = 1000
    batch: int = 1024
    patience: int | None = None
    good_enough: float = 0.0
    validate_every: int | None = None

    def __post_init__(self) -> None:
        require_whole("epochs", self.epochs, 1)
        require(
            self.epochs <= MOST_EPOCHS,
            f"epochs must be at most {MOST_EPOCHS:,}, because the losses of all are kept; got {self.epochs:,}.",
        )
        require_whole("batch", self.batch, 1)
        if self.patience is not None:
            require_whole("patience", self.patience, 1)
        require_at_least("good_enough", self.good_enough, 0)
        if self.validate_every is not None:
            require_whole("validate_every", self.validate_every, 1)

    def validation_epochs(self, samples: int, held_out: int) -> range:
        """The epochs that end with a validation pass, apart from the first and the last, which always do.

        samples   of one run's training set
        held_out  of one run's validation set
        """
        every = self.validate_every or min(
            math.ceil(8 * held_out / samples), max(1, self.epochs // 10), self.patience or self.epochs
        )
        return range(every, self.epochs + 1, every)
