"""One function per figure or table of JoMA; each returns a trajectory."""

from foretrain.papers.joma.experiments import theory, training

EXPERIMENTS = [*theory.EXPERIMENTS, *training.EXPERIMENTS]
