"""Experiments on disk: sweeps, stored runs, export."""
