"""What is trained: Fig 2 and 3, the rank of section 4, the order of section 5, Table 1."""

from __future__ import annotations

from foretrain.papers.joma.experiments import layer, order, rank, table1

EXPERIMENTS = [*layer.EXPERIMENTS, *rank.EXPERIMENTS, *order.EXPERIMENTS, *table1.EXPERIMENTS]
