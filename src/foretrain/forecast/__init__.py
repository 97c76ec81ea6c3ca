"""The questions people ask before training."""
