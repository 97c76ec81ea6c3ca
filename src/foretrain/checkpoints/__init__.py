"""Reads checkpoints from disk one tensor at a time, and says what their weights show and whether the series is sound."""
