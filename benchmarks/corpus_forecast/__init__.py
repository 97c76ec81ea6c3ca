"""Holds the corpus forecast against trained networks and planted shortcuts: `python -m benchmarks.corpus_forecast`."""
