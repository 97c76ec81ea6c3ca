"""The settings of the made-up paper."""

RATES = (0.5, 1.0)
UNTIL = 3.0
