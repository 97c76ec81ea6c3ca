"""The report: verdicts and trajectories in one self-contained HTML file."""

from foretrain.show.report.page import write_report

__all__ = ["write_report"]
