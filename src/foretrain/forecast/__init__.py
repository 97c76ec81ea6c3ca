"""Answers questions that come up before training."""
