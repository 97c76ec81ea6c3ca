"""Dynamics: what moves parameters. Vectorised training, and gradient flow.

Import from the modules here. Whoever follows a flow then does not wait for torch, which the others load.
"""
