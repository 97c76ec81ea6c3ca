"""Tolerances of the made-up paper."""

from foretrain.ledger.tolerances import Tolerance

SAME_DECAY = Tolerance(1e-12, "two ways to write one exponential")
