"""One function per figure or table; each returns a trajectory."""

from foretrain.papers.abstract_symbols.experiments import (
    architectures,
    data_need,
    difficulty,
    hyperparameters,
    kernel,
    tasks,
    unseen,
)

EXPERIMENTS = [
    *tasks.EXPERIMENTS,
    *kernel.EXPERIMENTS,
    *unseen.EXPERIMENTS,
    *architectures.EXPERIMENTS,
    *hyperparameters.EXPERIMENTS,
    *difficulty.EXPERIMENTS,
    *data_need.EXPERIMENTS,
]
