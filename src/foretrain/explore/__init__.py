"""Answers by looking: a local page with sliders, and the same pictures from Python.

`picture("scan-snap", eta_y=0.5)` gives what the page shows for that setting; `.show()` opens its figures.
"""

from foretrain.explore.registry import picture

__all__ = ["picture"]
