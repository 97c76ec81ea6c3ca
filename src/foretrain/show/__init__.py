"""Figures, pages and the report."""
