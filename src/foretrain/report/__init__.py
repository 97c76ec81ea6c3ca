"""Verdicts and trajectories -> one self-contained HTML file."""

from foretrain.report.page import write_report

__all__ = ["write_report"]
