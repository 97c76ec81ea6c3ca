"""Additions to someone's own model, such as identity scalings."""
