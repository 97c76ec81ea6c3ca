"""Checks whether a series of checkpoints is sound."""

from __future__ import annotations

from collections.abc import Sequence

from foretrain.checkpoints.configs import absent_configs, wrong_configs
from foretrain.checkpoints.fault import Fault, Record
from foretrain.checkpoints.identical import identical_weights
from foretrain.checkpoints.initialisation import late_starts, like_initialisation
from foretrain.checkpoints.path import out_of_order, outliers, wrong_steps


def find_faults(records: Sequence[Record]) -> list[Fault]:
    """Every fault of a series that is given in the order of its steps.

    A cause hides what follows from it: a checkpoint that equals another one, or is random, or has another step in its
    trainer's state, is not called an outlier or out of order as well.
    """
    random, identical = like_initialisation(records), identical_weights(records)
    steps = wrong_steps(records)
    plain = _without(records, [*random, *identical, *steps])
    misplaced = out_of_order(plain)
    misplaced += late_starts(_without(plain, misplaced))
    others = outliers(_without(plain, misplaced))
    return [*wrong_configs(records), *random, *identical, *steps, *misplaced, *others, *absent_configs(records)]


def _without(records: Sequence[Record], faults: Sequence[Fault]) -> list[Record]:
    named = {label for fault in faults for label in (fault.checkpoint, *fault.others)}
    return [record for record in records if record["checkpoint"] not in named]
