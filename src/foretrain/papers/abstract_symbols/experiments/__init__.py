"""One function per figure or table; each returns a trajectory."""

from foretrain.papers.abstract_symbols.experiments import kernel, tasks

EXPERIMENTS = [*tasks.EXPERIMENTS, *kernel.EXPERIMENTS]
